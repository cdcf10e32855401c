"""A mask with axes of size 1 says the same as that mask written out."""

from itertools import product

import pytest
import torch
from torch import Tensor

from limelight_models.attention.align.reinforced import Selection
from limelight_models.attention.core import Attention
from limelight_models.catalogue.mechanism import Mechanism, Sizes
from limelight_models.catalogue.registry import MECHANISMS
from tests.attention.checks import in_double, run, shaken

SIZES = Sizes(3, 4, 7)
MASKED = [m for m in MECHANISMS if any(t.dtype == torch.bool for t in m.inputs(SIZES).values())]


def pairs_of(mechanism: Mechanism) -> list[tuple[str, Tensor, Tensor]]:
    """Every mask of a mechanism with some of its axes cut to size 1, and the same mask written out."""
    found = []
    for name, mask in mechanism.inputs(SIZES, seed=3).items():
        if mask.dtype != torch.bool:
            continue
        for cut in product(*([False, True] if size > 1 else [False] for size in mask.shape)):
            if any(cut):
                small = mask[tuple(slice(-1, None) if each else slice(None) for each in cut)].clone()
                small[..., -1] = True
                found.append((name, small, small.expand(mask.shape).contiguous()))
    return found


@pytest.mark.parametrize("mechanism", MASKED, ids=lambda m: f"{m.row} {m.name}")
def test_a_mask_whose_axes_stand_for_all_is_the_mask_written_out(mechanism: Mechanism) -> None:
    torch.manual_seed(0)
    module = shaken(mechanism.build()).double().eval()
    inputs = in_double(mechanism.inputs(SIZES, seed=3))
    assert pairs_of(mechanism)
    for name, small, whole in pairs_of(mechanism):
        found, expected = (run(mechanism, module, inputs | {name: mask}) for mask in (small, whole))
        for output, tensor in expected.items():
            where = f"{output} with {name} {list(small.shape)}"
            assert torch.allclose(found[output].expand(tensor.shape), tensor, atol=1e-7), where


@pytest.mark.parametrize(
    "mechanism",
    [m for m in MASKED if m.make_inputs is None and isinstance(m.build(), Attention)],
    ids=lambda m: f"{m.row} {m.name}",
)
def test_what_trains_an_alignment_counts_the_mask_written_out(mechanism: Mechanism) -> None:
    torch.manual_seed(0)
    module = shaken(mechanism.build()).double().eval()
    assert isinstance(module, Attention)
    inputs = in_double(mechanism.inputs(SIZES, seed=3))
    for name, small, whole in pairs_of(mechanism):
        found, expected = (signals(mechanism, module, inputs | {name: mask}) for mask in (small, whole))
        assert found.keys() == expected.keys()
        for signal, tensor in expected.items():
            assert torch.allclose(found[signal], tensor, atol=1e-7), f"{signal} with {name} {list(small.shape)}"


def signals(mechanism: Mechanism, module: Attention, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Loss that the alignment is trained by, for its scores of the inputs."""
    found: dict[str, Tensor] = {}
    align = module.align
    original = align.forward

    def listening(scores: Tensor, mask: Tensor | None, context: object) -> Tensor:
        weights = original(scores, mask, context)
        with torch.no_grad():
            if not found:
                align.forward = original  # type: ignore[method-assign]  # signals may align, too
                found.update(align.signals(scores, mask, context))
                selection = getattr(align, "selection", None)
                if selection is not None:
                    kept: Selection = selection(mask, context)
                    found["log_odds"] = align.log_probability(kept, mask, context)
                align.forward = listening  # type: ignore[method-assign]
        return weights

    align.forward = listening  # type: ignore[method-assign]
    try:
        run(mechanism, module, inputs)
    finally:
        del align.forward
    return found
