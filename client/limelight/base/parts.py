"""What a distribution of Limelight makes available to another that does not import it: entry points of one group."""

from importlib import metadata
from typing import Any

GROUP = "limelight.parts"


def load(name: str) -> Any | None:
    """Load a part; None where the distribution that has it is not installed."""
    found = list(metadata.entry_points(group=GROUP, name=name))
    return found[0].load() if found else None
