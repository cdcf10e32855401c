"""The mechanisms that the end-to-end test serves, each in its small task model; `docs/taxonomy.md` counts on it."""

from collections.abc import Mapping

from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.catalogue.testbed.form import ServedForm

SERVED: Mapping[str, ServedForm] = {each.name: each.served for each in MECHANISMS if each.served}
