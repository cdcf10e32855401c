"""A device that is not there, to find what would fail on a GPU: `pretend`, whose tensors are computed on the CPU.

Numbers are those of the CPU, random ones too. What a GPU refuses is refused: tensors of two devices in one operation,
but for numbers and copies; a generator of another device; NumPy's view. It is PyTorch's own of this process from the
first `install` on, and the figures of other tests might not like that: use it in a process of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch._decomp.decompositions import gru_impl, lstm_impl
from torch.nn.functional import linear
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"
_COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
_SEVERAL = (list, tuple)


class Pretended(Tensor):
    """A tensor of the device; `here` is what it holds, on the CPU."""

    here: Tensor

    @staticmethod
    def __new__(cls, here: Tensor) -> "Pretended":
        made: Pretended = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            here.shape,
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            device=torch.device(NAME, 0),
        )
        made.here = here
        return made

    def __init__(self, here: Tensor) -> None:
        super().__init__()

    def __repr__(self, **options: Any) -> str:
        return f"pretended {self.here!r}"

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return _INSTEAD.get(function.__name__, function)(*args, **kwargs or {})

    @classmethod
    def __torch_dispatch__(
        cls, operation: Any, types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return carried_out(operation, args, dict(kwargs or {}))


def _lstm_cell(features: Tensor, states: Sequence[Tensor], *weights: Tensor) -> tuple[Tensor, Tensor]:
    to_input, to_hidden, input_bias, hidden_bias = weights
    gates = linear(features, to_input, input_bias) + linear(states[0], to_hidden, hidden_bias)
    enter, keep, new, leave = gates.chunk(4, -1)
    cell = keep.sigmoid() * states[1] + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * cell.tanh(), cell


def _gru_cell(features: Tensor, state: Tensor, *weights: Tensor) -> Tensor:
    to_input, to_hidden, input_bias, hidden_bias = weights
    of_input = linear(features, to_input, input_bias).chunk(3, -1)
    of_state = linear(state, to_hidden, hidden_bias).chunk(3, -1)
    reset, keep = ((a + b).sigmoid() for a, b in zip(of_input[:2], of_state[:2], strict=True))
    new = (of_input[2] + reset * of_state[2]).tanh()
    return new + keep * (state - new)


# For recurrent networks elsewhere than on CPUs PyTorch has kernels that CPUs lack.
_INSTEAD: Mapping[str, Callable[..., Any]] = {
    "lstm": lstm_impl,
    "gru": gru_impl,
    "lstm_cell": _lstm_cell,
    "gru_cell": _gru_cell,
    "tolist": lambda tensor: tensor.here.tolist(),
}


class Pretend(TorchDispatchMode):
    """While entered, tensors can be made on the device."""

    def __torch_dispatch__(
        self, operation: Any, types: Sequence[type], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return carried_out(operation, args, dict(kwargs or {}))


def carried_out(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute on the CPU what a device would. Raises: RuntimeError where a device would."""
    there: dict[int, Tensor] = {}  # by what they hold: what is changed in place stays the same tensor
    apart = False

    def here(value: Any) -> Any:
        nonlocal apart
        if isinstance(value, Pretended):
            there[id(value.here)] = value
            return value.here
        if isinstance(value, Tensor):
            apart = apart or value.ndim > 0
        return type(value)(map(here, value)) if isinstance(value, _SEVERAL) else value

    def of_device(value: Any) -> Any:
        if isinstance(value, Tensor):
            known = there.get(id(value))
            return Pretended(value) if known is None else known
        return type(value)(map(of_device, value)) if isinstance(value, _SEVERAL) else value

    given, kwargs = [here(each) for each in args], {name: here(value) for name, value in kwargs.items()}
    device, generator = kwargs.get("device"), kwargs.get("generator")
    made_there = bool(there) if device is None else torch.device(device).type == NAME
    if there and apart and operation not in _COPIES:
        raise RuntimeError(f"{operation}: tensors on {NAME} and on the CPU")
    if made_there and generator is not None:
        raise RuntimeError(f"{operation}: a generator of the CPU for {NAME}")
    if operation is torch.ops.aten.copy_.default:
        made_there = isinstance(args[0], Pretended)
    if made_there and device is not None:
        kwargs["device"] = torch.device("cpu")
    found = operation(*given, **kwargs)
    return of_device(found) if made_there else found


def install() -> torch.device:
    """Make the device known to PyTorch."""
    module = SimpleNamespace(
        is_initialized=lambda: True,
        is_available=lambda: True,
        current_device=lambda: 0,
        device_count=lambda: 1,
        _is_in_bad_fork=lambda: False,
        manual_seed_all=lambda seed: None,
        get_rng_state=lambda: STATE.clone(),
        set_rng_state=STATE.copy_,
    )
    _setup_privateuseone_for_python_backend(NAME, backend_module=module)
    return torch.device(NAME, 0)


STATE = torch.zeros(3, dtype=torch.uint8)  # of random numbers: what is saved with a run
