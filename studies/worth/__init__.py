"""What the attention of the demo's models is worth, by `limelight evaluate`; `python -m studies.worth` writes the page.

The demo's bundles hold no second graph, so the models whose attention is changed are trained for this, in minutes.
"""
