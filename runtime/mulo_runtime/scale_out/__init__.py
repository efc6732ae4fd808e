"""The pipeline inside servers that scale it out: Ray Serve and NVIDIA's Triton."""
