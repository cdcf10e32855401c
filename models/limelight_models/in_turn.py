"""Steps one after the other, of which each takes what the one before has left, in a form that exports."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan

Tensors = tuple[Tensor, ...]


def in_turn(step: Callable[[Tensors, Tensor], tuple[Tensors, Tensors]], start: Tensors, inputs: Tensor) -> Tensors:
    """Walk through inputs: a step takes what was left and an input, and gives what it leaves and what it puts out.

    An exported graph has one operator for it, Scan; elsewhere it would be compiled first.

    Shapes: inputs [batch, position, d], what a step puts out [batch, …] -> the same of all steps [position, batch, …].
    """
    if torch.compiler.is_exporting():

        def scanned(left: Tensors, now: Tensor) -> tuple[Tensors, Tensors]:
            leaves, out = step(left, now)
            return tuple(each.contiguous() for each in leaves), tuple(each.clone() for each in out)

        _, stacked = scan(scanned, tuple(each.contiguous() for each in start), inputs.transpose(0, 1).contiguous())
        return tuple(stacked)
    made = []
    for now in inputs.unbind(1):
        start, out = step(start, now)
        made.append(out)
    return tuple(torch.stack(each) for each in zip(*made, strict=True))
