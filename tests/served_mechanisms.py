"""The mechanisms that the end-to-end test serves, each in its small task model; `docs/taxonomy.md` counts on it."""

import re
from collections.abc import Mapping

from models.catalogue.registry import MECHANISMS
from models.testbed.form import ServedForm

SERVED: Mapping[str, ServedForm] = {each.name: each.served for each in MECHANISMS if each.served}


def slug(name: str) -> str:
    """A mechanism's name as the name of a model in a repository."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower().replace("α", "alpha")).strip("-")
