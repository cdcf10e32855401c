"""Sizes of a graph's outputs as PyTorch derives them: expressions of the sizes of its inputs."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

# Sizes at which expressions are compared.
_SIZES = (1, 2, 3, 5, 17, 40, 65, 100, 130, 257, 513, 1000, 1025, 4097, 100_003)
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "Min": min,
    "Max": max,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "FloorDiv": operator.floordiv,
}


def equals_size(derived: str, axis: str, most: int = 0) -> bool:
    """Tell whether an expression is the size of an axis at every size that is tried, or cannot be read.

    Args:
        derived: such as `Min(64, frame)`.
        most: the largest size; 0 for no limit.
    """
    try:
        expression = ast.parse(derived, mode="eval").body
        tried = [size for size in _SIZES if not most or size <= most]
        return all(_evaluate(expression, axis, size) == size for size in [*tried, *filter(None, [most])])
    except (SyntaxError, ValueError, KeyError, TypeError, ZeroDivisionError, RecursionError, MemoryError):
        return True  # a file may state anything


def _evaluate(expression: ast.expr, axis: str, size: int) -> int:
    """Compute an expression of one axis. Raises KeyError or ValueError for anything else."""
    match expression:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name == axis:
            return size
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, axis, size)
        case ast.BinOp(left=left, op=made, right=right):
            return _OPERATORS[type(made)](_evaluate(left, axis, size), _evaluate(right, axis, size))
        case ast.Call(func=ast.Name(id=name), args=given):
            arguments: list[Any] = [_evaluate(each, axis, size) for each in given]
            return _FUNCTIONS[name](*arguments)
    raise ValueError("an expression of other axes, or of other functions")
