"""Engines of ONNX Runtime."""
