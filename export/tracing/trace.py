"""The one call of PyTorch's exporter, and what keeps it from freezing sizes."""

import contextlib
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir
import torch
from torch import Tensor, nn

from export.errors import ExportError
from export.interface import Port
from models.attention.marked import marking

# The first operator set with Gelu as one operator. Attention (23) would hide the weights.
OPSET = 20


def trace(
    module: nn.Module,
    arguments: Sequence[Tensor],
    ports: Sequence[Port],
    outputs: Sequence[str],
    maximum: dict[str, int],
) -> Any:
    """Export a module that takes tensors by place and gives a tuple of them; returns an `onnx_ir.Model`.

    arguments: examples, whose varying axes all have different sizes above 1: the exporter takes equal sizes for one
    axis, and size 1 for a constant.
    ports: of the arguments, in order. maximum: of each varying axis, 0 for none.
    Raises: ExportError where PyTorch cannot export the module with these axes.
    """
    dimensions = {
        axis: torch.export.Dim(re.sub(r"\W", "_", axis), min=1, max=maximum.get(axis) or None)
        for port in ports
        for axis in port.axes
        if isinstance(axis, str)
    }
    dynamic = tuple(
        {place: dimensions[axis] for place, axis in enumerate(port.axes) if isinstance(axis, str)} for port in ports
    )
    module = module.eval().requires_grad_(False)  # a scan with trainable parameters cannot be exported
    try:
        with _recurrent_layers_as_loops(), marking(), _quiet(), torch.no_grad():
            program = torch.onnx.export(
                module,
                tuple(arguments),
                dynamo=True,
                dynamic_shapes=(dynamic,),
                input_names=[port.name for port in ports],
                output_names=list(outputs),
                opset_version=OPSET,
                verbose=False,
            )
    except Exception as error:  # the exporter raises many kinds, and wraps them in its own
        raise ExportError(f"PyTorch cannot export the model: {_reason(error)}") from error
    assert program is not None
    _name_apart(program.model)
    return program.model


def _name_apart(model: onnx_ir.Model) -> None:
    """Give values inside a graph other names than its inputs and outputs have.

    The exporter calls what an operator gives after that operator: beside an output called `embedding` there may be
    another value of that name, and the graph is no valid one.
    """
    outside = [*model.graph.inputs, *model.graph.outputs]
    taken = {each.name for each in outside}
    for node in onnx_ir.traversal.RecursiveGraphIterator(model.graph):
        for value in node.outputs:
            if value.name in taken and not any(value is each for each in outside):
                value.name = f"{value.name}.inside"


def _reason(error: BaseException) -> str:
    """Find the innermost cause, in one line: the exporter's own message is a page of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


@contextlib.contextmanager
def _recurrent_layers_as_loops() -> Iterator[None]:
    """Keep the length of recurrent layers dynamic, in this export and in later ones of the same process.

    Without this, PyTorch 2.13 re-traces LSTM and GRU with a decomposition that unrolls the example's length, caches
    that, and silently freezes the length in every later export (pytorch#191855). The functions are private: this is
    their one use, and a test exports twice.
    """
    from torch.export import _patches

    with _patches.register_lstm_while_loop_decomposition(), _patches.register_gru_while_loop_decomposition():
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings about PyTorch's own internals, which nobody who exports a model can act on."""
    loggers = {logger: logger.level for logger in map(logging.getLogger, ("torch.onnx", "onnxscript", "onnx_ir"))}
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in loggers.items():
            logger.setLevel(level)
