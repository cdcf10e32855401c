"""Measurements that anybody can run again; the tables in docs/ come from here.

Several import ONNX Runtime at once, so its telemetry is turned off here.
"""

from bundle.offline import stay_offline

stay_offline()
