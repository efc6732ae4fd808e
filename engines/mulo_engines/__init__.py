"""Bundle manifest, buffers and engines: from an ONNX graph on disk to a call that runs it."""
