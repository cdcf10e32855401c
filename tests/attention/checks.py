"""Checks that several tests share, and that the sabotage tests show to be worth something."""

import numpy as np
import torch
from torch import Tensor, nn

from limelight_models.catalogue.mechanism import Mechanism
from tests.oracles import Oracle


def in_double(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Floating inputs in float64, where an oracle's rounding is out of the way."""
    return {name: t.double() if t.is_floating_point() else t for name, t in inputs.items()}


def shaken(module: nn.Module) -> nn.Module:
    """The module with every parameter moved, so that biases that start at 0 count too."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module


def run(mechanism: Mechanism, module: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Outputs by name."""
    with torch.no_grad():
        return dict(zip(mechanism.outputs, mechanism.call(module, inputs), strict=True))


def check_matches_oracle(mechanism: Mechanism, module: nn.Module, inputs: dict[str, Tensor], oracle: Oracle) -> None:
    """Every output equals the oracle's."""
    module, inputs = module.double().eval(), in_double(inputs)
    outputs = run(mechanism, module, inputs)
    expected = oracle(module, {name: t.numpy() for name, t in inputs.items()})
    assert set(expected) == set(outputs)
    for name, tensor in outputs.items():
        np.testing.assert_allclose(tensor.numpy(), expected[name], rtol=1e-6, atol=1e-7, err_msg=name)


def check_masked_keys_get_nothing(weights: Tensor, mask: Tensor) -> None:
    """Exactly 0 wherever the mask forbids. Shapes: weights [batch, head, query, key(, feature)]."""
    if weights.dim() == 5:
        mask = mask.unsqueeze(-1)
    repeats = weights.shape[2] // mask.shape[2] if mask.shape[2] > 1 else 1  # several rows of weights a query
    forbidden = ~mask.repeat_interleave(repeats, 2).expand_as(weights)
    assert (weights[forbidden] == 0).all()


def check_normalised(weights: Tensor, atol: float = 1e-5) -> None:
    """Non-negative rows that sum to 1, or to 0 where nothing may be attended to (or is in reach)."""
    rows = weights.sum(3)
    assert (weights >= 0).all()
    assert (((rows - 1).abs() <= atol) | (rows == 0)).all()


def check_takes_part(mechanism: Mechanism, module: nn.Module) -> None:
    """Check that what the registry names is among what ran, and nothing stood in for it."""
    parts = [*map(type, module.modules()), *(getattr(part, "function", None) for part in module.modules())]
    assert mechanism.module in parts, f"{mechanism.name} is not computed by {mechanism.module.__name__}"
