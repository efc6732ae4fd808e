"""Long proofs that a service holds under load and faults; short forms of them are tests."""
