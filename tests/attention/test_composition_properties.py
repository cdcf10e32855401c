"""Properties of every mechanism that has inputs of its own: padding, order, empty inputs, gradients; and sabotage."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import gradcheck

from limelight_models.attention import Attention
from limelight_models.attention.align import Softmax
from limelight_models.attention.context import Context
from limelight_models.attention.score import Score
from limelight_models.catalogue.mechanism import Mechanism, Sizes
from limelight_models.catalogue.registry import MECHANISMS
from tests.attention.checks import check_matches_oracle, check_normalised, in_double, run, shaken
from tests.oracles import ORACLES

COLUMNS = ("dimensionality", "levels", "representations", "features", "queries")
OURS = [m for m in MECHANISMS if m.column in COLUMNS and m.make_inputs is not None]
IN_ORDER = ("linear transformation", "directional")  # these read positions
ASKED = ("multi-head", "multi-hop, shared weights", "multi-hop, context in the query")  # each query has its own output
FIXED = ("representations",)  # the keys are the representations, which are not padded
seeds = st.integers(0, 2**31)
few = settings(max_examples=5, deadline=None)


def each(mechanisms: list[Mechanism]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mechanism", mechanisms, ids=lambda m: f"{m.row} {m.name}")


def built(mechanism: Mechanism, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return shaken(mechanism.build()).eval()


def is_weights(name: str) -> bool:
    return name.endswith("weights") or name.startswith(("coarse_", "fine_"))


def maps(mechanism: Mechanism, module: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in run(mechanism, module, inputs).items() if is_weights(name)}


def change(mechanism: Mechanism, inputs: dict[str, Tensor], axis: str, edit: Callable[[Tensor, int], Tensor]) -> dict:
    """`edit(tensor, dimension)` applied to every dimension called `axis`."""
    changed = dict(inputs)
    for name in inputs:
        for dimension, called in enumerate(mechanism.input_axes(name)):
            if called == axis:
                changed[name] = edit(changed[name], dimension)
    return changed


def check_padding(mechanism: Mechanism, module: nn.Module, sizes: Sizes, seed: int) -> None:
    """Longer inputs whose new positions are masked give the same, and no weight to what is new."""
    inputs, junk = mechanism.inputs(sizes, seed), torch.Generator().manual_seed(seed)

    def pad(tensor: Tensor, dimension: int) -> Tensor:
        shape = list(tensor.shape)
        shape[dimension] = 2
        new = torch.zeros(shape).bool() if tensor.dtype == torch.bool else 9 * torch.randn(shape, generator=junk)
        return torch.cat([tensor, new], dimension)

    padded = inputs
    for axis in ["key"] if mechanism.name in ASKED else ["query", "key"]:
        padded = change(mechanism, padded, axis, pad)
    before, after = run(mechanism, module, inputs), run(mechanism, module, padded)
    for name, expected in before.items():
        found = after[name]
        if is_weights(name):
            rows = found[:, :, : expected.shape[2]]
            assert (rows[:, :, :, expected.shape[3] :] == 0).all(), name
        found = found[tuple(slice(0, n) for n in expected.shape)]
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def check_rows(mechanism: Mechanism, module: nn.Module, sizes: Sizes, seed: int) -> None:
    """Weights are distributions, or zeros."""
    for weights in maps(mechanism, module, mechanism.inputs(sizes, seed)).values():
        check_normalised(weights)


@each(OURS)
@few
@given(st.builds(Sizes, st.integers(1, 3), st.integers(1, 4), st.integers(1, 6)), seeds)
def test_padding_changes_nothing(mechanism: Mechanism, sizes: Sizes, seed: int) -> None:
    check_padding(mechanism, built(mechanism, seed), sizes, seed)


@each(OURS)
def test_weights_are_distributions(mechanism: Mechanism) -> None:
    for seed in range(4):
        check_rows(mechanism, built(mechanism, seed), Sizes(4, 5, 7), seed)


@each([m for m in OURS if not any(word in m.name for word in IN_ORDER) and m.column not in FIXED])
@pytest.mark.parametrize("axis", ["query", "key"])
def test_permuting_positions_permutes_weights(mechanism: Mechanism, axis: str) -> None:
    sizes = Sizes(2, 11, 13)  # sizes that no other axis has, so that outputs tell which of theirs to permute
    length, module = {"query": 11, "key": 13}[axis], built(mechanism)
    order = torch.randperm(length, generator=torch.Generator().manual_seed(1))
    inputs = mechanism.inputs(sizes, 3)
    before = run(mechanism, module, inputs)
    after = run(mechanism, module, change(mechanism, inputs, axis, lambda t, d: t.index_select(d, order)))
    for name, expected in before.items():
        if mechanism.name in ASKED and axis == "query" and name == "weights":
            # rows are heads' queries, or hops' queries
            expected = expected.unflatten(2, (-1, length)).index_select(3, order).flatten(2, 3)
        else:
            for dimension, size in enumerate(expected.shape):
                expected = expected.index_select(dimension, order) if size == length else expected
        torch.testing.assert_close(after[name], expected, atol=1e-5, rtol=1e-4, msg=name)


@each(OURS)
def test_empty_inputs_give_zeros(mechanism: Mechanism) -> None:
    inputs = mechanism.inputs(Sizes(2, 3, 4))
    nothing = {n: torch.zeros_like(t) if t.dtype == torch.bool else t for n, t in inputs.items()}
    outputs = run(mechanism, built(mechanism), nothing)
    for name, tensor in outputs.items():
        assert torch.isfinite(tensor).all(), name
        if is_weights(name) or name in ("first", "second", "document"):
            assert (tensor == 0).all(), name


@each(OURS)
def test_gradients_are_right(mechanism: Mechanism) -> None:
    torch.manual_seed(5)
    module = built(mechanism).double()
    inputs = in_double(mechanism.inputs(Sizes(2, 2, 3), seed=5))
    floats = {n: t.requires_grad_() for n, t in inputs.items() if t.is_floating_point()}
    named = dict(module.named_parameters())

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        replaced = inputs | dict(zip(floats, tensors, strict=False))
        return mechanism.call(module, replaced)

    assert gradcheck(function, (*floats.values(), *named.values()), fast_mode=True)


@each(OURS)
def test_every_parameter_matters(mechanism: Mechanism) -> None:
    module, inputs = built(mechanism), mechanism.inputs(Sizes(3, 4, 5), seed=2)
    sum(t.square().sum() for t in mechanism.call(module, inputs)).backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).any(), name


class MaskDropped(Softmax):
    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return super().forward(scores, None, context)


class Unnormalised(Softmax):
    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return super().forward(scores, mask, context) * 1.01


class Swapped(Score):
    """Query and key change places; their scores are turned back, so that shapes agree."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score

    def check(self, query: Tensor | None, key: Tensor) -> None:
        """Sizes are the same."""

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.score(key, query, context).transpose(2, 3)


def with_align(module: nn.Module, align: type[Softmax]) -> nn.Module:
    for part in module.modules():
        if isinstance(part, Attention):
            part.align = align()
    return module


def with_swapped_scores(module: nn.Module) -> nn.Module:
    for part in [m for m in module.modules() if isinstance(m, Attention)]:
        part.score = Swapped(part.score)
    return module


@each([m for m in OURS if m.column not in FIXED])
def test_padding_check_fails_without_the_mask(mechanism: Mechanism) -> None:
    with pytest.raises(AssertionError):
        check_padding(mechanism, with_align(built(mechanism), MaskDropped), Sizes(3, 4, 5), 1)


@each([m for m in OURS if m.column in FIXED])
def test_oracle_check_fails_without_the_mask(mechanism: Mechanism) -> None:
    broken, inputs = with_align(built(mechanism), MaskDropped), mechanism.inputs(Sizes(3, 4, 5), 1)
    with pytest.raises(AssertionError):
        check_matches_oracle(mechanism, broken, inputs, ORACLES[mechanism.name])


@each(OURS)
def test_distribution_check_fails_on_unnormalised_weights(mechanism: Mechanism) -> None:
    with pytest.raises(AssertionError):
        check_rows(mechanism, with_align(built(mechanism), Unnormalised), Sizes(3, 4, 5), 1)


SWAPPABLE = [
    "alternating co-attention", "interactive co-attention", "parallel co-attention, bilinear affinity",
    "attentive pooling", "rotatory attention", "attention over attention", "specialised query, average",
    "multi-hop, shared weights", "label-wise", "target-object hierarchy",
]  # fmt: skip


@pytest.mark.parametrize("name", SWAPPABLE)
def test_oracle_check_fails_on_swapped_query_and_key(name: str) -> None:
    mechanism = next(m for m in OURS if m.name == name)
    inputs = mechanism.inputs(Sizes(3, 4, 5), 1)
    expected = ORACLES[name](built(mechanism).double(), {n: t.numpy() for n, t in in_double(inputs).items()})
    check_matches_oracle(mechanism, built(mechanism), inputs, lambda m, i: expected)
    if name == "target-object hierarchy":
        broken = built(mechanism)
        broken.over_text.score = Swapped(broken.over_text.score)
    else:
        broken = with_swapped_scores(built(mechanism))
    with pytest.raises(AssertionError):
        check_matches_oracle(mechanism, broken, inputs, lambda m, i: expected)
