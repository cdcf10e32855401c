"""Studies of models and of attention; docs/results.md, mechanisms.md, signals.md and attention-cost.md come from here.

Several import ONNX Runtime at once, so its telemetry is turned off here.
"""

from limelight_bundle.offline import stay_offline

stay_offline()
