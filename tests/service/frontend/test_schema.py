"""The schema of a model keeps attention plans from one call to the next."""

from dataclasses import replace

import pytest

from limelight_bundle.errors import BundleError
from limelight_bundle.preprocess import Bounds
from limelight_service.attention.options import Group, Grouping, GroupReduction, Options, Selection
from limelight_service.frontend.models import Model
from limelight_service.frontend.schema import ModelSchema
from limelight_service.hosting.hosted import HostedModel


def test_the_same_options_are_planned_once(models: dict[str, Model]) -> None:
    schema = models["tiny"].schema

    def first() -> Options:
        return Options(selections=(Selection(queries=(0,)),), top_k=2)

    plan = schema.plan(first())
    assert schema.plan(first()) is plan
    other = schema.plan(Options(top_k=2))
    assert other is not plan
    assert other.keys == plan.keys and other.selected[0].queries is None and plan.selected[0].queries is not None


def test_plans_that_keep_what_groups_found_are_not_kept(models: dict[str, Model]) -> None:
    groups = (Grouping(("attention", "key_groups", 0), (Group("g", (0,)),), GroupReduction.SUM),)
    options = Options(key_groups=groups)
    assert models["tiny"].schema.plan(options) is not models["tiny"].schema.plan(options)


def test_a_bundle_that_changed_since_its_engine_loaded_it_is_refused(hosted: dict[str, HostedModel]) -> None:
    served = hosted["tiny"].served
    stamps = {name: (0, *rest) for name, (_, *rest) in served.stamps.items()}
    changed = replace(served, stamps=stamps)
    with pytest.raises(BundleError):
        ModelSchema(changed, Bounds())
