"""Bundles of models that were made elsewhere: checkpoints, PyTorch modules and ONNX files."""
