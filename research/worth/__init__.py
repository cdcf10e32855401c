"""The page about the attention of the demo's models, measured by `limelight evaluate` (`python -m research.worth`).

The demo's bundles hold no second graph, so the models whose attention is changed are trained for this, in minutes.
"""
