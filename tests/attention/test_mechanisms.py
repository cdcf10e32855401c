"""Every mechanism by the properties that it declares: equation, masks, order, precision, gradients; and sabotage."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import gradcheck

from limelight_models.attention.align import HardMonotonic, Softmax
from limelight_models.attention.context import Context
from limelight_models.attention.core import Attention
from limelight_models.attention.score import Score
from limelight_models.attention.weights import weights_of
from limelight_models.catalogue.mechanism import Mechanism, Sizes
from limelight_models.catalogue.registry import MECHANISMS
from tests.attention.checks import (
    check_masked_keys_get_nothing,
    check_matches_oracle,
    check_normalised,
    check_takes_part,
    in_double,
    run,
    shaken,
)
from tests.oracles import ORACLES

COLUMNS = ("dimensionality", "levels", "representations", "features", "queries")
SERVED = [m for m in MECHANISMS if m.served]  # the others train: sums in float32
OWN = [m for m in MECHANISMS if m.column in COLUMNS and m.make_inputs is not None]  # they have inputs of their own
PLAIN = [m for m in MECHANISMS if m.make_inputs is None and isinstance(m.build(), Attention)]
ALIGNS = [m for m in MECHANISMS if m.column == "align" and m.make_inputs is None]
MAKING = [m for m in SERVED if m.column != "signals" or "weights" in m.outputs]
IN_ORDER = ("linear transformation", "directional")  # these read positions
ASKED = ("multi-head", "multi-hop, shared weights", "multi-hop, context in the query")  # each query has its own output
FIXED = ("representations",)  # the keys are the representations, which are not padded
BEFORE = ("previous_weights", "coverage")  # 0 in the padding by their contract
WIDE = Sizes(3, 4, 7)
sizes = st.builds(Sizes, st.integers(1, 3), st.integers(1, 5), st.integers(1, 9))
seeds = st.integers(0, 2**31)
few = settings(max_examples=5, deadline=None)


def each(mechanisms: list[Mechanism]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mechanism", mechanisms, ids=lambda m: f"{m.row} {m.name}")


def built(mechanism: Mechanism, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return shaken(mechanism.build()).eval()


def attention(mechanism: Mechanism, seed: int = 0) -> Attention:
    made = built(mechanism, seed)
    assert isinstance(made, Attention)
    return made


def is_weights(name: str) -> bool:
    return name.endswith("weights") or name.startswith(("coarse_", "fine_"))


def maps(mechanism: Mechanism, module: nn.Module, inputs: dict[str, Tensor]) -> list[Tensor]:
    return [tensor for name, tensor in run(mechanism, module, inputs).items() if is_weights(name)]


def change(
    mechanism: Mechanism, inputs: dict[str, Tensor], axis: str, edit: Callable[[str, Tensor, int], Tensor]
) -> dict:
    """`edit(name, tensor, dimension)` applied to every dimension called `axis`."""
    changed = dict(inputs)
    for name in inputs:
        for dimension, called in enumerate(mechanism.input_axes(name)):
            if called == axis:
                changed[name] = edit(name, changed[name], dimension)
    return changed


def in_key_order(module: nn.Module) -> bool:
    return isinstance(module, Attention) and (module.score.key_order or module.align.key_order)


@pytest.mark.parametrize("sizes", [Sizes(2, 3, 5), Sizes(1, 6, 4), Sizes(2, 1, 1)], ids=str)
@each(MECHANISMS)
def test_equals_the_equation(mechanism: Mechanism, sizes: Sizes) -> None:
    """A brute-force transcription of its paper's; every mechanism has one."""
    assert {m.name for m in MECHANISMS} == set(ORACLES)
    module = shaken(mechanism.build())
    check_matches_oracle(mechanism, module, mechanism.inputs(sizes), ORACLES[mechanism.name])
    check_takes_part(mechanism, module)


def check_padding(mechanism: Mechanism, module: nn.Module, sizes: Sizes, seed: int, extra: int = 2) -> None:
    """Longer inputs whose new positions are masked give the same, and no weight to what is new."""
    inputs, junk = mechanism.inputs(sizes, seed), torch.Generator().manual_seed(seed)

    def pad(name: str, tensor: Tensor, dimension: int) -> Tensor:
        shape = list(tensor.shape)
        shape[dimension] = extra
        nothing = tensor.dtype == torch.bool or name in BEFORE
        new = torch.zeros(shape).to(tensor.dtype) if nothing else 9 * torch.rand(shape, generator=junk)
        return torch.cat([tensor, new], dimension)

    padded = inputs
    plain = mechanism.make_inputs is None
    for axis in ["key"] if mechanism.name in ASKED or plain else ["query", "key"]:
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
    """Weights are distributions, or zeros, where they are said to be; from 0 to 1, and nothing where a mask forbids."""
    inputs = mechanism.inputs(sizes, seed)
    plain = isinstance(module, Attention) and mechanism.make_inputs is None
    for weights in maps(mechanism, module, inputs):
        if not plain or (module.normalised and not module.signed):
            check_normalised(weights)
        if plain:
            check_masked_keys_get_nothing(weights, inputs["mask"])
            assert module.signed or ((weights >= 0).all() and (weights <= 1 + 1e-5).all())


@each([*PLAIN, *OWN])
@few
@given(sizes, seeds, st.integers(1, 4))
def test_padding_changes_nothing_and_weights_are_what_they_are_said_to_be(
    mechanism: Mechanism, sizes: Sizes, seed: int, extra: int
) -> None:
    module = built(mechanism, seed)
    check_padding(mechanism, module, sizes, seed, extra)
    check_rows(mechanism, module, sizes, seed)


@each([m for m in [*PLAIN, *OWN] if not any(word in m.name for word in IN_ORDER) and m.column not in FIXED])
@pytest.mark.parametrize("axis", ["query", "key"])
def test_permuting_positions_permutes_weights(mechanism: Mechanism, axis: str) -> None:
    module = built(mechanism)
    plain = mechanism.make_inputs is None
    if plain and (axis == "query" or in_key_order(module)):
        return  # it reads positions
    large = Sizes(2, 11, 13)  # sizes that no other axis has, so that outputs tell which of theirs to permute
    length = {"query": 11, "key": 13}[axis]
    order = torch.randperm(length, generator=torch.Generator().manual_seed(1))
    inputs = mechanism.inputs(large, 3)
    before = run(mechanism, module, inputs)
    after = run(mechanism, module, change(mechanism, inputs, axis, lambda n, t, d: t.index_select(d, order)))
    for name, expected in before.items():
        if mechanism.name in ASKED and axis == "query" and name == "weights":
            # rows are heads' queries, or hops' queries
            expected = expected.unflatten(2, (-1, length)).index_select(3, order).flatten(2, 3)
        else:
            for dimension, size in enumerate(expected.shape):
                expected = expected.index_select(dimension, order) if size == length else expected
        torch.testing.assert_close(after[name], expected, atol=1e-5, rtol=1e-4, msg=name)


@each([m for m in MECHANISMS if any(t.dtype == torch.bool for t in m.inputs(WIDE).values())])
def test_a_mask_whose_axes_stand_for_all_is_the_mask_written_out(mechanism: Mechanism) -> None:
    """Also for the loss that trains an alignment, of its scores of the inputs."""
    module, inputs = built(mechanism).double(), in_double(mechanism.inputs(WIDE, seed=3))
    plain = mechanism in PLAIN
    seen = 0
    for name, mask in mechanism.inputs(WIDE, seed=3).items():
        if mask.dtype != torch.bool:
            continue
        for cuts in product(*([False, True] if size > 1 else [False] for size in mask.shape)):
            if not any(cuts):
                continue
            small = mask[tuple(slice(-1, None) if cut else slice(None) for cut in cuts)].clone()
            small[..., -1] = True
            both = small, small.expand(mask.shape).contiguous()
            ways = [lambda given: run(mechanism, module, given)]
            ways += [lambda given: signals(mechanism, module, given)] if plain else []
            for way in ways:
                found, expected = (way(inputs | {name: given}) for given in both)
                assert found.keys() == expected.keys()
                for output, tensor in expected.items():
                    where = f"{output} with {name} {list(small.shape)}"
                    assert torch.allclose(found[output].expand(tensor.shape), tensor, atol=1e-7), where
            seen += 1
    assert seen


def signals(mechanism: Mechanism, module: Attention, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Loss that the alignment is trained by, for its scores of the inputs."""
    found: dict[str, Tensor] = {}
    align = module.align
    original = align.forward

    def listening(scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        weights = original(scores, mask, context)
        with torch.no_grad():
            if not found:
                align.forward = original  # type: ignore[method-assign]  # signals may align, too
                found.update(align.signals(scores, mask, context))
                selection = getattr(align, "selection", None)
                if selection is not None:
                    found["log_odds"] = align.log_probability(selection(mask, context), mask, context)
                align.forward = listening  # type: ignore[method-assign]
        return weights

    align.forward = listening  # type: ignore[method-assign]
    try:
        run(mechanism, module, inputs)
    finally:
        align.forward = original  # type: ignore[method-assign]
    return found


@each([m for m in MECHANISMS if m in OWN or (m.served and "mask" in m.inputs(WIDE) and "weights" in m.outputs)])
def test_where_there_is_nothing_to_attend_to_there_are_zeros(mechanism: Mechanism) -> None:
    inputs = mechanism.inputs(Sizes(2, 3, 4))
    nothing = {n: torch.zeros_like(t) if t.dtype == torch.bool else t for n, t in inputs.items()}
    for name, tensor in run(mechanism, built(mechanism), nothing).items():
        assert torch.isfinite(tensor).all(), name
        if is_weights(name) or (mechanism in OWN and name in ("first", "second", "document")):
            assert (tensor == 0).all(), name


@each(MAKING)
def test_a_module_says_what_its_weights_are(mechanism: Mechanism) -> None:
    module, inputs = built(mechanism).double(), in_double(mechanism.inputs(Sizes(2, 3, 5)))
    said, outputs = weights_of(module), mechanism.call(module, inputs)
    for weights, tensor in zip(said, outputs[-len(said) :], strict=True):
        assert tensor.dim() == 4 + weights.by_feature
        # Two heads go into an `Attention`; what makes heads of its own gets one.
        assert tensor.shape[1] == weights.heads * (mechanism.heads if isinstance(module, Attention) else 1)
        totals = tensor.sum(3)
        assert not weights.normalised or torch.all((totals - 1).abs().minimum(totals.abs()) < 1e-9)
        assert weights.signed or tensor.min() >= 0


@each(OWN)
def test_gradients_are_right_and_every_parameter_matters(mechanism: Mechanism) -> None:
    module, inputs = built(mechanism).double(), in_double(mechanism.inputs(Sizes(2, 2, 3), seed=5))
    floats = {n: t.requires_grad_() for n, t in inputs.items() if t.is_floating_point()}

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        return mechanism.call(module, inputs | dict(zip(floats, tensors, strict=False)))

    assert gradcheck(function, (*floats.values(), *module.parameters()), fast_mode=True)
    module, inputs = built(mechanism), mechanism.inputs(Sizes(3, 4, 5), seed=2)
    sum(t.square().sum() for t in mechanism.call(module, inputs)).backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None and (parameter.grad != 0).any(), name


@each(PLAIN)
def test_gradients_are_finite_and_reach_what_is_trained(mechanism: Mechanism) -> None:
    """All parameters but those that only REINFORCE trains; what stops when serving is an expectation in training."""
    module, inputs = attention(mechanism), mechanism.inputs(Sizes(3, 4, 6))
    module.train(isinstance(module.align, HardMonotonic))
    for name in ("query", "key", "value"):
        inputs[name].requires_grad_()
    context, weights = mechanism.call(module, inputs)
    (context.square().sum() + weights.square().sum()).backward()
    value = inputs["value"].grad
    assert value is not None and (value != 0).any()
    for tensor in (inputs["query"].grad, inputs["key"].grad, value):
        assert tensor is None or torch.isfinite(tensor).all()
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and "selector" not in name:
            assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
            # A number added to all scores of a row alike is nothing to a softmax.
            assert (parameter.grad != 0).any() or (mechanism.name, name) == ("deep", "score.offset"), name


@each([m for m in PLAIN if attention(m).align.stochastic])
def test_serving_without_noise_gives_the_same_answer_twice(mechanism: Mechanism) -> None:
    mechanism = replace(mechanism, context_fields=tuple(f for f in mechanism.context_fields if f != "noise"))
    module, inputs = attention(mechanism), mechanism.inputs(Sizes(3, 5, 9))
    first, second = (run(mechanism, module, inputs)["weights"] for _ in range(2))
    assert torch.equal(first, second)
    module.train()
    drawn = [run(mechanism, module, inputs)["weights"] for _ in range(8)]
    assert any(not torch.equal(drawn[0], other) for other in drawn[1:])


@each(SERVED)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_close_to_single(mechanism: Mechanism, dtype: torch.dtype) -> None:
    module, inputs = built(mechanism), mechanism.inputs(Sizes(2, 4, 6))
    half = {n: t.to(dtype) if t.is_floating_point() else t for n, t in inputs.items()}
    # The reference sees the same rounded numbers, so that only the computation differs.
    module = module.to(dtype).float()
    exact = run(mechanism, module, {n: t.float() if t.is_floating_point() else t for n, t in half.items()})
    rough = run(mechanism, module.to(dtype), half)
    tolerance = 0.02 if dtype == torch.float16 else 0.15
    for name, value in rough.items():
        assert value.dtype == dtype and torch.isfinite(value).all(), name
        agree = (value.float() - exact[name]).abs() <= tolerance * (1 + exact[name].abs())
        # A rounded score may fall on the other side of a threshold, as rarely as that is.
        assert agree.float().mean() > 0.9, name


class Given(Score):
    """Scores that the test chose, of whatever kind an alignment needs."""

    kernel = True

    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.scores = scores

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.scores


def aligned(mechanism: Mechanism, align: nn.Module, inputs: dict[str, Tensor], scores: Tensor) -> Tensor:
    """The alignment's weights for given scores."""
    module = Attention(score=Given(scores), align=align)
    return run(mechanism, module.train(align.training), inputs)["weights"]


@each(ALIGNS)
@few
@given(sizes, seeds, st.floats(-50, 50))
def test_what_changes_of_scores_do_to_an_alignment(
    mechanism: Mechanism, sizes: Sizes, seed: int, constant: float
) -> None:
    """A constant beside all changes nothing where it says so; large differences make it hard where it says so."""
    align, inputs = attention(mechanism, seed).align, mechanism.inputs(sizes, seed)
    shape = (sizes.batch, mechanism.heads, sizes.query, sizes.key)
    if align.shift_invariant:
        scores, double = torch.randn(shape).double(), in_double(inputs)
        before = aligned(mechanism, align.double(), double, scores)
        after = aligned(mechanism, align, double, scores + constant)
        torch.testing.assert_close(after, before, atol=1e-6, rtol=1e-5)
        align.float()
    if align.scale_hardens:
        inputs["mask"] = torch.ones_like(inputs["mask"])
        order = torch.rand(shape).argsort(-1).float()
        weights = aligned(mechanism, align, inputs, 1000 * order)
        reached = weights.sum(-1) > 0
        assert (weights.amax(-1)[reached] > 0.999).all()
        if not (in_key_order(attention(mechanism)) or mechanism.context_fields):
            assert (weights.argmax(-1) == order.argmax(-1)).all()


@each([m for m in ALIGNS if m.module.__name__ in ("Sparsemax", "Entmax15", "Entmax", "ConstrainedSparsemax")])
def test_sparse_alignments_give_exact_zeros_to_allowed_keys(mechanism: Mechanism) -> None:
    inputs = mechanism.inputs(Sizes(2, 3, 9))
    inputs["mask"] = torch.ones_like(inputs["mask"])
    weights = aligned(mechanism, attention(mechanism).align, inputs, 10 * torch.randn(2, mechanism.heads, 3, 9))
    assert (weights == 0).sum() > weights.numel() / 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@each(ALIGNS)
def test_scores_of_ten_thousand_give_what_they_give_in_double(mechanism: Mechanism, dtype: torch.dtype) -> None:
    inputs = {n: t.to(dtype) if t.is_floating_point() else t for n, t in mechanism.inputs(Sizes(2, 4, 6)).items()}
    made = mechanism.build().to(dtype).eval()
    assert isinstance(made, Attention)
    align, signs = made.align, torch.randn(2, mechanism.heads, 4, 6).sign()
    scores = (1e4 * (signs.abs() if align.needs_kernel else signs)).to(dtype)
    weights = aligned(mechanism, align, inputs, scores)
    check_masked_keys_get_nothing(weights, inputs["mask"])
    # The same rounded scores and inputs in float64.
    expected = aligned(mechanism, align.double(), in_double(inputs), scores.double())
    tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    close = (weights.double() - expected).abs() <= tolerance * (1 + expected.abs())
    assert close.float().mean() > (0.999 if dtype == torch.float32 else 0.9)  # a drawn key may be another one
    drawn = aligned(mechanism, align.to(dtype).train(), inputs, scores)
    assert torch.isfinite(drawn).all()
    check_masked_keys_get_nothing(drawn, inputs["mask"])


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


def broken(mechanism: Mechanism, *, align: type[Softmax] | None = None, parts: str = "") -> nn.Module:
    """A mechanism with another alignment in its attentions, or query and key swapped in those below `parts`."""
    module = built(mechanism)
    for part in [m for m in module.get_submodule(parts).modules() if isinstance(m, Attention)]:
        if align is None:
            part.score = Swapped(part.score)
        else:
            part.align = align()
    return module


GENERAL = next(m for m in MECHANISMS if m.name == "general")
SWAPPED = {
    **dict.fromkeys(("general", "alternating co-attention", "interactive co-attention"), ""),
    **dict.fromkeys(("parallel co-attention, bilinear affinity", "attentive pooling", "rotatory attention"), ""),
    **dict.fromkeys(("attention over attention", "specialised query, average", "label-wise"), ""),
    "multi-hop, shared weights": "",
    "target-object hierarchy": "over_text",
}


@each([GENERAL, *OWN])
def test_the_checks_notice_a_dropped_mask_sums_that_are_not_1_and_swapped_query_and_key(mechanism: Mechanism) -> None:
    """The sabotage that the tests above must notice."""
    square = Sizes(3, 4, 5)
    blind = broken(mechanism, align=MaskDropped)
    with pytest.raises(AssertionError):
        if mechanism.column in FIXED:
            check_matches_oracle(mechanism, blind, mechanism.inputs(square, 1), ORACLES[mechanism.name])
        else:
            check_padding(mechanism, blind, square, 1)
    with pytest.raises(AssertionError):
        check_rows(mechanism, broken(mechanism, align=Unnormalised), square, 1)
    if mechanism.name in SWAPPED:
        inputs = mechanism.inputs(square if mechanism is not GENERAL else Sizes(2, 5, 5), 1)
        numbers = {n: t.numpy() for n, t in in_double(inputs).items()}
        expected = ORACLES[mechanism.name](built(mechanism).double(), numbers)
        check_matches_oracle(mechanism, built(mechanism), inputs, lambda m, i: expected)
        swapped = broken(mechanism, parts=SWAPPED[mechanism.name])
        with pytest.raises(AssertionError):
            check_matches_oracle(mechanism, swapped, inputs, lambda m, i: expected)
