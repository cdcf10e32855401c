"""Turns a PyTorch model into ONNX graphs with PyTorch's exporter."""
