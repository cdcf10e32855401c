"""Tracing of PyTorch models to ONNX graphs with PyTorch's exporter."""
