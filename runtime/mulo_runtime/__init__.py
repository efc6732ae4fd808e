"""The decoding loop and its public API."""
