"""From a model's weights to the part of them that a caller asked for: select, reduce heads, rollout, top k, encode."""
