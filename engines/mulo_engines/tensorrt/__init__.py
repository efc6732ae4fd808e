"""Graphs compiled by NVIDIA's builders, TensorRT and TensorRT-RTX."""
