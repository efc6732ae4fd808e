"""Checkpoint to ONNX graphs: the exporter behind `mulo-export`."""
