"""Tasks: the loss, the metrics and the head of each."""
