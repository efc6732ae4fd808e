"""Measures images of real models: FID, CLIP score, and the folders that benchmarks expect: `mulo evaluate`."""
