"""Interventions as tensors of a row: the last change of each head and query holds, and each row is written once."""

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.v1 import model_pb2
from limelight_bundle.interventions import BoundIntervention
from limelight_bundle.rows import Labels, Row
from limelight_service.attention.options import Group
from limelight_service.errors import DeadlineError
from limelight_service.frontend.interventions import Change, Intervention, KeyFactor, given_bytes, with_interventions
from limelight_service.frontend.schema import ModelSchema

HEADS, QUERIES, KEYS, STEPS = 3, 4, 5, 6
BOUND = BoundIntervention(
    "map", "main", "q", "k", HEADS, "scales", "replacement", "replaced", "uniform", "factors", "masked"
)
ROW = Row({}, {}, {"q": Labels("q", 0, QUERIES), "k": Labels("k", 0, KEYS)})


def schema_of(steps_label: str) -> ModelSchema:
    """A schema with one map, whose queries are output steps or known before the model runs."""
    described = model_pb2.MapDescription(name="map", query_labels=steps_label or "q", key_labels="k", heads=HEADS)
    described.normalised = True
    known: Any = SimpleNamespace(
        maps=[described], interventions={"map": BOUND}, steps_label=steps_label, first_keys=lambda *_: 1
    )
    return cast(ModelSchema, known)


@st.composite
def interventions(draw: st.DrawFn, of_steps: bool) -> Intervention:
    size = STEPS if of_steps else QUERIES
    heads = draw(st.lists(st.integers(0, HEADS - 1), unique=True))
    queries = draw(st.lists(st.integers(0, size - 1), unique=True))
    change = draw(st.sampled_from([each for each in Change if each is not Change.NONE]))
    of_heads = len(heads) or HEADS
    seed = np.random.default_rng(draw(st.integers(0, 2**16)))
    if change is Change.HEAD_SCALES:
        return Intervention("i", "map", change, seed.random(of_heads, np.float32), heads)
    if change is Change.KEY_FACTOR:
        keys = tuple(draw(st.lists(st.integers(0, KEYS - 1), unique=True, min_size=1)))
        factor = KeyFactor(draw(st.sampled_from([0.0, 0.5, 2.0])), Group("", indices=keys))
        return Intervention("i", "map", change, None, heads, queries, factor)
    shape = of_heads, len(queries) or (1 if of_steps else QUERIES)
    weights = seed.dirichlet(np.ones(KEYS), shape).astype(np.float32) if change is Change.WEIGHTS else None
    return Intervention("i", "map", change, weights, heads, queries)


def expected(
    asked: Sequence[Intervention], of_steps: bool
) -> tuple[dict[int, float], dict[tuple[int, int], Any], np.ndarray[Any, Any]]:
    """One change after the other: factors by head, weights by head and query, `uniform` for equal ones, and of keys."""
    factors: dict[int, float] = {}
    weights: dict[tuple[int, int], Any] = {}
    size = STEPS + 1 if of_steps else QUERIES
    of_keys = np.ones((HEADS, size, KEYS))
    for each in asked:
        for i, head in enumerate(each.heads or range(HEADS)):
            if each.change is Change.HEAD_SCALES:
                assert each.values is not None
                factors[head] = each.values[i]
                continue
            for j, query in enumerate(each.queries or range(size)):
                if each.key_factor is not None:
                    of_keys[head, query, list(each.key_factor.keys.indices)] *= each.key_factor.factor
                    continue
                every = each.values is not None and each.values.shape[1] == 1
                weights[head, query] = "uniform" if each.values is None else each.values[i, 0 if every else j]
    return factors, weights, of_keys


@settings(max_examples=60, deadline=None)
@given(st.booleans(), st.data())
def test_the_last_change_of_a_head_and_query_holds(of_steps: bool, data: st.DataObject) -> None:
    asked = data.draw(st.lists(interventions(of_steps), min_size=1, max_size=6))
    schema = schema_of("steps" if of_steps else "")
    row = with_interventions(ROW, asked, schema, STEPS)
    factors, weights, of_keys = expected(asked, of_steps)
    if factors:
        np.testing.assert_array_equal(row.tensors["scales"], [factors.get(head, 1) for head in range(HEADS)])
    names = ("uniform", "replaced", "replacement")
    made = [row.tensors.get(name, np.zeros((HEADS, 1, 1), np.float32)) for name in names]
    for head in range(HEADS):
        for query in range(STEPS + 1 if of_steps else QUERIES):
            # The last row holds for all later steps.
            uniform, replaced, replacement = (each[head, min(query, each.shape[1] - 1)] for each in made)
            wanted = weights.get((head, query))
            is_uniform = isinstance(wanted, str)
            assert uniform.item() == is_uniform
            assert replaced.item() == (wanted is not None and not is_uniform)
            np.testing.assert_array_equal(replacement, 0 if wanted is None or is_uniform else wanted)
    given = [row.tensors[name] for name in ("replacement", "factors") if name in row.tensors]
    assert sum(each.nbytes for each in given) <= given_bytes(ROW, asked, schema, STEPS)
    if "factors" in row.tensors:
        found = np.ones_like(of_keys)
        made_of = row.tensors["factors"]
        for head, query, key in np.ndindex(*found.shape[:2], made_of.shape[2]):
            found[head, query, key] = made_of[min(head, made_of.shape[0] - 1), min(query, made_of.shape[1] - 1), key]
        np.testing.assert_array_equal(found, of_keys)


def test_tensors_are_made_once_whatever_the_number_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    zeros = np.zeros
    monkeypatch.setattr(np, "zeros", lambda *args, **options: made.append(args) or zeros(*args, **options))
    weights = np.full((1, 1, KEYS), 1 / KEYS, np.float32)
    changes = [Intervention("i", "map", Change.WEIGHTS, weights, [n % HEADS], [n % QUERIES]) for n in range(100)]
    with_interventions(ROW, changes, schema_of(""), 0)
    assert len(made) <= 1


def test_interventions_that_are_late_are_not_made() -> None:
    uniform = Intervention("i", "map", Change.UNIFORM)
    with pytest.raises(DeadlineError):
        with_interventions(ROW, [uniform], schema_of(""), 0, time.monotonic() - 1)
