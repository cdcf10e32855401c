"""Sessions of ONNX Runtime for small graphs of our own: arithmetic that it does several times as fast as NumPy."""

from typing import Any

from limelight_service.engine.graphs import graph
from limelight_service.engine.runtime.arena import use_arena


def open_graph(name: str) -> Any:
    """Open a small graph of the engine, for runs on the thread that calls, by several threads at the same time.

    It computes where the models do, and what it took is given back with what they took: an arena of its own would keep
    the most that any run ever took, beside every limit. Where they share none, what a run took is given back at once.
    """
    from limelight_service.engine.runtime.providers import (
        runtime,  # imported here: what only plans an answer does without
    )

    onnxruntime = runtime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    options.enable_cpu_mem_arena = use_arena(options)
    return onnxruntime.InferenceSession(graph(name), options, providers=["CPUExecutionProvider"])
