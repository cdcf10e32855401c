"""Execution of a model in PyTorch and of its graphs in ONNX Runtime, on the same NumPy inputs."""
