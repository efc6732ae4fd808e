"""NVIDIA GPUs, through the driver."""
