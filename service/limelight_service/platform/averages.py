"""Averages of times that a moment in which the process stood still does not spoil."""

# One time that is so many times as long, and so many seconds, counts as one that is no longer.
_ODD, _SHORT = 8.0, 0.01


def moved(mean: float, seconds: float, weight: float) -> float:
    """Move a mean towards a time just taken. What is odd once counts little; what stays slow is believed soon."""
    return mean + weight * (min(seconds, _ODD * mean + _SHORT) - mean)
