"""Training data of the demo models: a generated set each, likely first inputs, and inputs without an answer."""
