"""The ONNX graphs of a bundle, each declared from a model's configuration and its weights."""
