"""The tests. Several import ONNX Runtime or transformers before anything of ours, so it is done here."""

from bundle.offline import stay_offline

stay_offline()
