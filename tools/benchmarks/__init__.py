"""Measurements of the server that anybody can repeat; docs/performance.md and its annex come from here.

Several import ONNX Runtime at once, so its telemetry is turned off here.
"""

from limelight_bundle.offline import stay_offline

stay_offline()
