"""The tests. Several import ONNX Runtime, PyTorch or transformers before anything of ours, so it is done here."""

import os
import sys

from limelight_bundle.offline import stay_offline

stay_offline()
# Models of tests are small, and pytest has a process on every core: several threads each only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tests start hundreds of processes: our modules are compiled for the first of them, whatever the environment says.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
