"""Several sessions over one copy of a graph's weights.

ONNX Runtime brings weights into the form that its kernels read (it packs them), a copy for each session. Saved once in
that form, they are mapped from the file by every session that is opened over it. Measured on an encoder of 53 MB: three
sessions hold 101, 105 and 108 MB instead of 108, 187 and 242, and answer the same at the same speed.
"""

import contextlib
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from limelight_service.platform.memory import give_back

logger = logging.getLogger(__name__)

_GRAPH, _WEIGHTS = "graph.onnx", "weights.bin"
# Below this, a copy of the weights costs less than a file of them.
SMALLEST = 4 * 2**20


@contextlib.contextmanager
def prepacked(ort: Any, graph: Path, options: Any, kept: Path | None = None) -> Iterator[Path | None]:
    """Save a graph as the runtime has optimised and packed it; gives its file, or None where that cannot be done.

    options: of a session that opens the original graph; the saved one is opened with optimisations off. The file is of
    use to this machine and runtime alone.
    kept: the folder that it is in, or is put into where there is none. Without one the file goes once the sessions are
    open: they keep what they mapped.
    """
    if kept is not None and (kept / _GRAPH).is_file():
        yield kept / _GRAPH
        return
    with contextlib.ExitStack() as stack:
        try:
            if kept is None:
                kept = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="limelight-weights-")))
            else:
                kept.mkdir()
        except OSError as error:
            logger.warning("weights are held once a session, since no folder can be made for them: %s", error.strerror)
            yield None
            return
        yield _save(ort, graph, options, kept)


def _save(ort: Any, graph: Path, options: Any, folder: Path) -> Path | None:
    saved = folder / _GRAPH
    options.optimized_model_filepath = str(saved)
    for entry, value in (
        ("session.optimized_model_external_initializers_file_name", _WEIGHTS),
        ("session.optimized_model_external_initializers_min_size_in_bytes", "1024"),
        ("session.save_external_prepacked_constant_initializers", "1"),
    ):
        options.add_session_config_entry(entry, value)
    try:
        ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        logger.warning("weights are held once a session, since they cannot be saved: %s", error)
        for name in (_GRAPH, _WEIGHTS):  # half of them would be taken for the whole at the next start
            with contextlib.suppress(OSError):
                (folder / name).unlink(missing_ok=True)
        return None
    give_back()  # the library would keep a whole copy of the weights
    return saved
