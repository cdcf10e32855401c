"""The call of PyTorch's exporter, and workarounds that keep it from freezing sizes."""

import contextlib
import functools
import gc
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir
import torch
from torch import Tensor, nn

from limelight_export.errors import ExportError
from limelight_export.interface import TensorSpec
from limelight_models.attention.export_markers import marking

# The first operator set with Gelu as one operator. Attention (23) would hide the weights.
OPSET = 20
_KNOWN_TORCH, _KNOWN_ONNXSCRIPT = "2.13.", "0.7."


def trace(
    module: nn.Module,
    arguments: Sequence[Tensor],
    specs: Sequence[TensorSpec],
    outputs: Sequence[str],
    maximum: dict[str, int],
) -> Any:
    """Trace a module of positional tensors to an `onnx_ir.Model`.

    Args:
        arguments: example tensors. Every axis that varies has a size of its own above 1: the exporter takes equal sizes
            for one axis, and size 1 for a constant.
        specs: of the arguments, in order.
        maximum: largest size of each axis that varies, 0 for no limit.
    Raises:
        ExportError: PyTorch cannot export the module with these axes.
    """
    dimensions = {
        axis: torch.export.Dim(re.sub(r"\W", "_", axis), min=1, max=maximum.get(axis) or None)
        for spec in specs
        for axis in spec.axes
        if isinstance(axis, str)
    }
    dynamic = tuple(
        {place: dimensions[axis] for place, axis in enumerate(spec.axes) if isinstance(axis, str)} for spec in specs
    )
    module = module.eval().requires_grad_(False)  # a scan with trainable parameters cannot be exported
    try:
        with (
            _silenced_loggers(),
            _dynamic_recurrent_layers(),
            without_needless_work(),
            _exact_constants(),
            marking(),
            torch.no_grad(),
        ):
            program = torch.onnx.export(
                module,
                tuple(arguments),
                dynamo=True,
                dynamic_shapes=(dynamic,),
                input_names=[spec.name for spec in specs],
                output_names=list(outputs),
                opset_version=OPSET,
                verbose=False,
            )
    except Exception as error:  # the exporter raises many types, and wraps them in its own
        raise ExportError(f"PyTorch cannot export the model: {_root_cause(error)}") from error
    assert program is not None
    _rename_inner_values(program.model)
    return program.model


@contextlib.contextmanager
def without_needless_work() -> Iterator[None]:
    """Leave out work of PyTorch 2.13's exporter that changes no graph, until the context ends.

    The exporter parses 500 functions of its library again for each export. The cache of operators' results costs more
    than it saves where sizes are symbols. A collection searches a million objects, of which few are garbage. The pass
    that inserts casts computes every node's type and size again, which the node states. Decomposing runs the whole
    program twice, for the few operators that ONNX lacks. Every operator gets a stack trace and a description of its
    memory, which graphs do not hold, and every program is compiled, which nobody runs.
    """
    if not torch.__version__.startswith(_KNOWN_TORCH):  # what is private there may be gone
        yield
        return
    from torch._dynamo import config as dynamo_config
    from torch.fx import _lazy_graph_module, config
    from torch.fx.experimental import proxy_tensor
    from torch.onnx._internal.exporter import _fx_passes
    from torch.onnx._internal.exporter._registration import ONNXRegistry
    from torch.onnx._internal.fx.passes.type_promotion import _TypePromotionInterpreter

    from limelight_export.tracing.decomposition import decompose

    registry, collecting = _operator_registry(), gc.isenabled()
    gc.disable()
    try:
        with (
            dynamo_config.patch(fake_tensor_cache_enabled=False),
            _lazy_graph_module._use_lazy_graph_module(True),
            _replaced(config, "do_not_emit_stack_traces", True),
            _replaced(proxy_tensor, "_extract_tensor_metadata", lambda value: None),
            _replaced(ONNXRegistry, "from_torchlib", classmethod(lambda cls, opset_version=OPSET: registry)),
            _replaced(_TypePromotionInterpreter, "run_node", _promote_node),
            _replaced(_fx_passes, "decompose_with_registry", decompose),
            _without_needless_optimising(),
        ):
            yield
    finally:
        if collecting:
            gc.enable()


@contextlib.contextmanager
def _without_needless_optimising() -> Iterator[None]:
    """Leave out work of onnxscript 0.7's optimiser that changes no graph, until the context ends.

    Each rule is tried on every node, though its pattern begins with one operator, and some search the whole graph
    first. Sizes are inferred that PyTorch stated.
    """
    import onnxscript
    from onnxscript.optimizer._constant_folding import FoldConstantsPass
    from onnxscript.rewriter import RewriteRule

    if not onnxscript.__version__.startswith(_KNOWN_ONNXSCRIPT):
        yield
        return
    rules: Any = RewriteRule
    rewrite, infer = rules.try_rewrite, FoldConstantsPass._do_inference

    def try_rewrite(rule: Any, model: Any, graph: Any, node: onnx_ir.Node, **options: Any) -> Any:
        begins = rule._target_pattern.output_nodes[0].op_identifier()
        if begins is not None and begins[:2] != (node.domain, node.op_type):
            return None
        return rewrite(rule, model, graph, node, **options)

    def infer_unknown(folding: Any, node: onnx_ir.Node) -> None:
        if any(value.type is None or value.shape is None for value in node.outputs):
            infer(folding, node)

    with _replaced(rules, "try_rewrite", try_rewrite), _replaced(FoldConstantsPass, "_do_inference", infer_unknown):
        yield


@contextlib.contextmanager
def _exact_constants() -> Iterator[None]:
    """Let rules of onnxscript's optimiser match a constant that is theirs, and no other that is near to it.

    Without, its rule that drops `x + 0` drops `x + 1e-12` as well, and with that what keeps from dividing by 0, or from
    the logarithm of 0: it takes numbers for equal within 1e-8, or 1e-5 of them.
    """
    import onnxscript

    if not onnxscript.__version__.startswith(_KNOWN_ONNXSCRIPT):
        yield
        return
    from onnxscript.rewriter import _matcher

    matcher: Any = _matcher.SimplePatternMatcher
    match = matcher._match_constant

    def match_exactly(self: Any, pattern: Any, value: onnx_ir.Value) -> Any:
        found = match(self, pattern, value)
        if not found or value.const_value is None:
            return found
        constant = value.const_value.numpy()
        is_same = np.array_equal(constant, np.asarray(pattern.value, constant.dtype))
        return found if is_same else self.fail(f"{value.name} is only near to {pattern.value}")

    with _replaced(matcher, "_match_constant", match_exactly):
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Let a class or module have another attribute until the context ends."""
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _promote_node(interpreter: Any, node: torch.fx.Node) -> Any:
    """Insert the casts that a node needs; return the value that the node states, or compute one."""
    from torch.onnx._internal.fx.passes.type_promotion import get_type_promotion_rule

    with interpreter._set_current_node(node):
        if rule := get_type_promotion_rule(node, interpreter.type_promotion_table):
            interpreter._maybe_promote_node(node, rule)
    if node.op == "call_function" and "val" in node.meta:
        return node.meta["val"]
    return torch.fx.Interpreter.run_node(interpreter, node)


@functools.cache
def _operator_registry() -> Any:
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    return ONNXRegistry.from_torchlib(opset_version=OPSET)


def _rename_inner_values(model: onnx_ir.Model) -> None:
    """Rename values inside a graph that have the name of an input or output.

    The exporter names a value after its operator, so an output `embedding` may clash with an inner value, which makes
    the graph invalid.
    """
    graph_values = [*model.graph.inputs, *model.graph.outputs]
    used_names = {each.name for each in graph_values}
    for node in onnx_ir.traversal.RecursiveGraphIterator(model.graph):
        for value in node.outputs:
            if value.name in used_names and not any(value is each for each in graph_values):
                value.name = f"{value.name}.inside"


def _root_cause(error: BaseException) -> str:
    """Return the innermost cause in one line; the exporter's own message is a page of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = re.search(r"No ONNX function found for <OpOverload\(op='([\w.]+)'", str(error))
    if found is not None:
        # transformers' usual way to run experts; another one can be exported.
        way = '; call model.set_experts_implementation("batched_mm") first' if "grouped_mm" in found[1] else ""
        return f"ONNX has no operator for {found[1]}{way}"
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


@contextlib.contextmanager
def _dynamic_recurrent_layers() -> Iterator[None]:
    """Keep the length of recurrent layers dynamic, in this and later exports of the process.

    Otherwise PyTorch 2.13 unrolls LSTM and GRU for the example's length, caches that, and silently freezes the length
    in every later export (pytorch#191855). These functions are private; a test exports twice. ONNX has an operator for
    each layer, so their shapes are enough; a loop, which the exporter would put in their place, would be traced four
    times and thrown away.
    """
    from torch.export import _patches
    from torch.onnx._internal.exporter import _capture_strategies

    if not torch.__version__.startswith(_KNOWN_TORCH):
        with _patches.register_lstm_while_loop_decomposition(), _patches.register_gru_while_loop_decomposition():
            yield
        return
    register, aten = _patches._register_rnn_while_loop_decomposition, torch.ops.aten
    with (
        _replaced(_capture_strategies, "_patch_dynamic_shape_rnn_decompositions", contextlib.nullcontext),
        register(aten.lstm.input, _lstm_shapes),
        register(aten.gru.input, _gru_shapes),
    ):
        yield


def _gru_shapes(
    inputs: Tensor,
    state: Tensor,
    weights: Sequence[Tensor],
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor]:
    """Make empty outputs [batch, step, feature], or [step, batch, feature], and last states of a GRU."""
    directions = 2 if bidirectional else 1
    outputs = inputs.new_empty((*inputs.shape[:2], directions * state.shape[-1]))
    return outputs, torch.empty_like(state)


def _lstm_shapes(inputs: Tensor, states: Sequence[Tensor], *options: Any) -> tuple[Tensor, Tensor, Tensor]:
    """As `_gru_shapes`, of an LSTM."""
    outputs, hidden = _gru_shapes(inputs, states[0], *options)
    return outputs, hidden, torch.empty_like(states[1])


@contextlib.contextmanager
def _silenced_loggers() -> Iterator[None]:
    """Silence warnings about PyTorch's internals: a user cannot act on them."""
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
