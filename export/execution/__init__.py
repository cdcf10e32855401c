"""Runs a model in PyTorch and its graphs in ONNX Runtime, on the same NumPy inputs."""
