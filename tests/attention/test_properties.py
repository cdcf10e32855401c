"""Properties that mechanisms declare, for any numbers and lengths."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from limelight_models.attention.align import HardMonotonic
from limelight_models.attention.core import Attention
from limelight_models.catalogue.mechanism import Mechanism, Sizes
from limelight_models.catalogue.registry import MECHANISMS
from tests.attention.checks import check_masked_keys_get_nothing, check_normalised, run, shaken

PLAIN = [m for m in MECHANISMS if m.make_inputs is None and isinstance(m.build(), Attention)]
ALIGNS = [m for m in PLAIN if m.column == "align"]
sizes = st.builds(Sizes, st.integers(1, 3), st.integers(1, 5), st.integers(1, 9))
seeds = st.integers(0, 2**31)
examples = settings(max_examples=12, deadline=None)


def each(mechanisms: list[Mechanism]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mechanism", mechanisms, ids=lambda m: f"{m.row} {m.name}")


def attention(mechanism: Mechanism, seed: int = 0) -> Attention:
    torch.manual_seed(seed)
    built = shaken(mechanism.build()).eval()
    assert isinstance(built, Attention)
    return built


def parts(module: Attention) -> list[nn.Module]:
    return [module.score, module.align]


def in_key_order(module: Attention) -> bool:
    return any(part.key_order for part in parts(module))


def along_keys(inputs: dict[str, Tensor], change: object) -> dict[str, Tensor]:
    """Apply `change(tensor, axis)` to every input along its key axis."""
    of_queries = ("query", "query_noise", "previous_context")
    return {n: t if n in of_queries else change(t, -2 if n in ("key", "value") else -1) for n, t in inputs.items()}


@each(PLAIN)
@examples
@given(sizes, seeds)
def test_masked_keys_get_exactly_nothing(mechanism: Mechanism, sizes: Sizes, seed: int) -> None:
    inputs = mechanism.inputs(sizes, seed)
    weights = run(mechanism, attention(mechanism, seed), inputs)["weights"]
    check_masked_keys_get_nothing(weights, inputs["mask"])


@each([m for m in PLAIN if attention(m).normalised and not attention(m).signed])
@examples
@given(sizes, seeds)
def test_weights_are_distributions(mechanism: Mechanism, sizes: Sizes, seed: int) -> None:
    check_normalised(run(mechanism, attention(mechanism, seed), mechanism.inputs(sizes, seed))["weights"])


@each([m for m in PLAIN if not attention(m).signed])
@examples
@given(sizes, seeds)
def test_weights_are_between_0_and_1(mechanism: Mechanism, sizes: Sizes, seed: int) -> None:
    weights = run(mechanism, attention(mechanism, seed), mechanism.inputs(sizes, seed))["weights"]
    assert (weights >= 0).all()
    assert (weights <= 1 + 1e-5).all()


@each([m for m in PLAIN if not in_key_order(attention(m))])
@examples
@given(sizes, seeds)
def test_permuting_keys_permutes_weights(mechanism: Mechanism, sizes: Sizes, seed: int) -> None:
    module, inputs = attention(mechanism, seed), mechanism.inputs(sizes, seed)
    order = torch.randperm(sizes.key, generator=torch.Generator().manual_seed(seed))
    before = run(mechanism, module, inputs)
    after = run(mechanism, module, along_keys(inputs, lambda t, axis: t.index_select(axis, order)))
    torch.testing.assert_close(after["weights"], before["weights"].index_select(3, order), atol=2e-6, rtol=1e-4)
    torch.testing.assert_close(after["context"], before["context"], atol=1e-5, rtol=1e-4)


@each(PLAIN)
@examples
@given(sizes, seeds, st.integers(1, 4))
def test_padding_changes_nothing(mechanism: Mechanism, sizes: Sizes, seed: int, extra: int) -> None:
    module, inputs = attention(mechanism, seed), mechanism.inputs(sizes, seed)
    junk = torch.Generator().manual_seed(seed + 1)

    def pad(tensor: Tensor, axis: int) -> Tensor:
        shape = list(tensor.shape)
        shape[axis] = extra
        if tensor.dtype == torch.bool:
            return torch.cat([tensor, torch.zeros(shape, dtype=torch.bool)], axis)
        # Whatever lies in the padding must not count; previous weights and coverage are 0 there by the contract.
        return torch.cat([tensor, torch.rand(shape, generator=junk)], axis)

    padded = along_keys(inputs, pad)
    for name in {"previous_weights", "coverage"} & set(padded):
        padded[name] = torch.cat([inputs[name], torch.zeros(*inputs[name].shape[:-1], extra)], -1)
    before, after = run(mechanism, module, inputs), run(mechanism, module, padded)
    torch.testing.assert_close(after["weights"][:, :, :, : sizes.key], before["weights"], atol=2e-6, rtol=1e-4)
    assert (after["weights"][:, :, :, sizes.key :] == 0).all()
    torch.testing.assert_close(after["context"], before["context"], atol=1e-5, rtol=1e-4)


def aligned(module: Attention, mechanism: Mechanism, inputs: dict[str, Tensor], scores: Tensor) -> Tensor:
    """The alignment's weights for given scores."""

    class Given(type(module.score)):  # type: ignore[misc]
        def forward(self, query: Tensor, key: Tensor, context: object) -> Tensor:
            return scores

    probe = Attention(score=module.score, align=module.align)
    probe.score = Given.__new__(Given)
    probe.score.__dict__.update(module.score.__dict__)
    return run(mechanism, probe.eval(), inputs)["weights"]


@each([m for m in ALIGNS if attention(m).align.shift_invariant])
@examples
@given(sizes, seeds, st.floats(-50, 50))
def test_adding_a_constant_to_the_scores_changes_nothing(
    mechanism: Mechanism, sizes: Sizes, seed: int, constant: float
) -> None:
    module, inputs = attention(mechanism, seed), mechanism.inputs(sizes, seed)
    scores = torch.randn(sizes.batch, mechanism.heads, sizes.query, sizes.key).double()
    inputs = {n: t.double() if t.is_floating_point() else t for n, t in inputs.items()}
    before = aligned(module.double(), mechanism, inputs, scores)
    torch.testing.assert_close(aligned(module, mechanism, inputs, scores + constant), before, atol=1e-6, rtol=1e-5)


@each([m for m in ALIGNS if attention(m).align.scale_hardens])
@examples
@given(sizes, seeds)
def test_large_scores_make_it_hard(mechanism: Mechanism, sizes: Sizes, seed: int) -> None:
    module, inputs = attention(mechanism, seed), mechanism.inputs(sizes, seed)
    inputs["mask"] = torch.ones_like(inputs["mask"])
    order = torch.rand(sizes.batch, mechanism.heads, sizes.query, sizes.key).argsort(-1).float()
    weights = aligned(module, mechanism, inputs, 1000 * order)
    reached = weights.sum(-1) > 0
    assert (weights.amax(-1)[reached] > 0.999).all()
    if not (in_key_order(module) or mechanism.context_fields):
        assert (weights.argmax(-1) == order.argmax(-1)).all()


@each([m for m in ALIGNS if m.module.__name__ in ("Sparsemax", "Entmax15", "Entmax", "ConstrainedSparsemax")])
def test_sparse_alignments_give_exact_zeros_to_allowed_keys(mechanism: Mechanism) -> None:
    module, inputs = attention(mechanism), mechanism.inputs(Sizes(2, 3, 9))
    inputs["mask"] = torch.ones_like(inputs["mask"])
    weights = aligned(module, mechanism, inputs, 10 * torch.randn(2, mechanism.heads, 3, 9))
    assert (weights == 0).sum() > weights.numel() / 4


@each([m for m in PLAIN if attention(m).align.stochastic])
def test_serving_without_noise_gives_the_same_answer_twice(mechanism: Mechanism) -> None:
    mechanism = replace(mechanism, context_fields=tuple(f for f in mechanism.context_fields if f != "noise"))
    module, inputs = attention(mechanism), mechanism.inputs(Sizes(3, 5, 9))
    first, second = (run(mechanism, module, inputs)["weights"] for _ in range(2))
    assert torch.equal(first, second)
    module.train()
    drawn = [run(mechanism, module, inputs)["weights"] for _ in range(8)]
    assert any(not torch.equal(drawn[0], other) for other in drawn[1:])


@each(PLAIN)
def test_gradients_are_finite_and_reach_what_is_trained(mechanism: Mechanism) -> None:
    """All parameters but those that only REINFORCE trains; what stops when serving is an expectation in training."""
    module, inputs = attention(mechanism), mechanism.inputs(Sizes(3, 4, 6))
    module.train(isinstance(module.align, HardMonotonic))
    for name in ("query", "key", "value"):
        inputs[name].requires_grad_()
    context, weights = mechanism.call(module, inputs)
    (context.square().sum() + weights.square().sum()).backward()
    assert inputs["value"].grad is not None
    assert (inputs["value"].grad != 0).any()
    for tensor in (inputs["query"].grad, inputs["key"].grad, inputs["value"].grad):
        assert tensor is None or torch.isfinite(tensor).all()
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad or "selector" in name:
            continue
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        # A number added to all scores of a row alike is nothing to a softmax.
        assert (parameter.grad != 0).any() or (mechanism.name, name) == ("deep", "score.offset"), name
