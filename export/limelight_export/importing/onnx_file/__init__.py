"""ONNX files of other people. Importing one needs ONNX and ONNX Runtime, not PyTorch."""
