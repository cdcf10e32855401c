"""Serves bundles over gRPC on ONNX Runtime."""
