"""Graphs in ONNX Runtime: sessions, devices, memory, and the runs of one pass."""
