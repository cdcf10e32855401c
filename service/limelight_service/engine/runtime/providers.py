"""Execution providers: chosen by name, proved before use, never changed in silence."""

import logging
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from types import ModuleType
from typing import Any

from limelight.base import installing
from limelight_bundle.offline import disable_telemetry
from limelight_service.engine.graphs import graph
from limelight_service.errors import ProviderError
from limelight_service.platform.machine import available_cores
from limelight_service.settings import Settings

logger = logging.getLogger(__name__)

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
# One batch computes; another is put together, or its answers are made.
STAGES = 2
_DISTRIBUTIONS = ("onnxruntime", "onnxruntime-gpu")


@dataclass(frozen=True)
class Cuda:
    """Settings of a GPU.

    Attributes:
        device: number of the GPU.
        memory: bytes that the sessions of one graph may hold on it; 0 for no limit.
        tf32: float32 products rounded to 10 bits, which is past the tolerances of bundles.
    """

    device: int = 0
    memory: int = 0
    tf32: bool = False

    def options(self) -> dict[str, str]:
        """Give the provider's options as ONNX Runtime takes them.

        Convolutions are chosen by rule: trying every algorithm, which is the default, is done again for each shape, and
        shapes vary. Under a limit the arena takes what it needs, where it would double what it has.
        """
        limit = {"gpu_mem_limit": str(self.memory), "arena_extend_strategy": "kSameAsRequested"} if self.memory else {}
        return {
            "device_id": str(self.device),
            "use_tf32": str(int(self.tf32)),
            "cudnn_conv_algo_search": "HEURISTIC",
            **limit,
        }


DEFAULT = Cuda()


@dataclass(frozen=True)
class Provider:
    """An execution provider that works here, and how it is used.

    Attributes:
        workers: batches that run at the same time, over all models.
        concurrent: the same, for one model.
        cores: threads of a session that has the machine to itself.
        options: the provider's own.
        staged: a session runs one batch at a time, and beside it the next is put together and the last one's answers
            are made: as on a GPU, whose one stream runs them one after the other in any case.
        device: the device of inputs and outputs, as the runtime names it, and its number; maps are cut there, before
            they travel. None for arrays of NumPy: on a CPU a value of the runtime's own wins nothing, and NumPy cuts
            by a view.
    """

    name: str
    workers: int
    concurrent: int
    cores: int = 1
    options: dict[str, str] = field(default_factory=dict)
    staged: bool = False
    device: tuple[str, int] | None = None

    @property
    def is_cuda(self) -> bool:
        """True on a GPU."""
        return self.name == CUDA

    @property
    def arena(self) -> str:
        """Name the arena that a session works in, as the runtime does."""
        return f"gpu:{self.options['device_id']}" if self.is_cuda else "cpu:0"

    def requested(self) -> list[str | tuple[str, dict[str, str]]]:
        """Give ONNX Runtime's `providers` argument: on CUDA the CPU stays behind it, for nodes on shapes."""
        return [(self.name, self.options), CPU] if self.is_cuda else [CPU]


def cuda_of(settings: Settings) -> Cuda:
    """Read the settings of a GPU."""
    return Cuda(settings.devices[0], settings.gpu_memory_bytes, settings.gpu_tf32)


def choose_provider(wanted: str, *, workers: int = 0, cores: int = 0, cuda: Cuda = DEFAULT) -> Provider:
    """Choose the provider that `--provider` asks for; `auto` is CUDA where a session on it can be made.

    Args:
        workers: 0 for one a core on the CPU, and two on CUDA, so that one batch is put together while another runs.
        cores: 0 for all that this process may use.

    Raises:
        ProviderError: CUDA is asked for and cannot be had, or the runtime is not installed exactly once.
    """
    if wanted != "cpu":
        problem = _cuda_problem(runtime(), cuda)
        if not problem:
            logger.info("provider: %s", CUDA)
            return on_cuda(cuda, workers)
        if wanted == "cuda":
            raise ProviderError(f"CUDA was asked for and cannot be had: {problem}")
        logger.info("provider: %s (no CUDA: %s)", CPU, problem)
    else:
        runtime()
        logger.info("provider: %s", CPU)
    cores = cores or available_cores()
    workers = workers or cores
    return Provider(CPU, workers, workers, cores)


def on_cuda(cuda: Cuda, workers: int = 0) -> Provider:
    """Use a GPU: two batches of a model at a time, of which one computes. workers: 0 for as many."""
    workers = workers or STAGES
    return Provider(
        CUDA,
        workers,
        min(workers, STAGES),
        options=cuda.options(),
        staged=True,
        device=("cuda", cuda.device),
    )


def runtime() -> ModuleType:
    """Import ONNX Runtime, with its telemetry off, once it is certain that it is installed exactly once.

    Raises:
        ProviderError: both of its distributions are installed (the CPU one then hides CUDA), or none.
    """
    found = [name for name in _DISTRIBUTIONS if _installed(name)]
    if not found:
        raise ProviderError(
            f"ONNX Runtime is not installed: {installing.extra('serve')}; for CUDA, the extra is serve-gpu"
        )
    if len(found) > 1:
        raise ProviderError(
            "onnxruntime and onnxruntime-gpu are both installed, and hide CUDA from each other: uninstall both, then "
            "pip install '.[serve]' or '.[serve-gpu]' in a checkout of Limelight"
        )
    disable_telemetry()
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)  # it would warn of every session on a GPU
    return onnxruntime  # type: ignore[no-any-return]


@cache
def loaded() -> ModuleType:
    """Give ONNX Runtime as `runtime` does; its installation is looked at once a process, so that a batch may ask."""
    return runtime()


def _installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _cuda_problem(ort: Any, cuda: Cuda) -> str:
    """Say why CUDA cannot be used; empty where it can."""
    if CUDA not in ort.get_available_providers():
        return "this ONNX Runtime is built without it (onnxruntime-gpu has it)"
    ort.preload_dlls()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:  # making a session is the one proof that the CUDA libraries can be loaded: the runtime only warns otherwise
        session = ort.InferenceSession(graph("probe"), options, providers=on_cuda(cuda).requested())
    except Exception as error:
        logger.debug("the CUDA probe failed", exc_info=error)
        return "the runtime failed to start it"
    if session.get_providers()[0] != CUDA:
        return f"its libraries or device {cuda.device} are missing (see ONNX Runtime's requirements for CUDA and cuDNN)"
    return ""
