"""Bundles of models that were made elsewhere: PyTorch modules and ONNX files."""
