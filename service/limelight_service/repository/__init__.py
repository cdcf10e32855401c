"""The repository of models: its folders, the state of each version, and who uses it."""
