"""Several sessions over one copy of the weights of a model's graphs.

ONNX Runtime brings weights into the form that its kernels read (it packs them), a copy for each session. Saved once in
that form, they are mapped from the file by every session that is opened over it. Measured on an encoder of 53 MB: three
sessions hold 101, 105 and 108 MB instead of 108, 187 and 242, and answer the same at the same speed.

Graphs of one model have the same weights: a prompt's and a step's, one without interventions and one with. What is
saved of each names one file, in which equal weights stand once.
"""

import contextlib
import hashlib
import logging
import mmap
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from limelight_service.platform.memory import give_back

logger = logging.getLogger(__name__)

_WEIGHTS, _OWN = "weights.bin", "own.bin"
# Below this, a copy of the weights costs less than a file of them.
SMALLEST = 4 * 2**20
_ALIGNED = 64
# Of a packed weight: where it lies, its size and its checksum, in one entry beside the key of its kernel.
_PACKED = re.compile(r"(\d+);(\d+);(\w*)")


@contextlib.contextmanager
def prepacked(
    ort: Any, graphs: Mapping[str, Path], options: Callable[[], Any], kept: Path | None = None
) -> Iterator[dict[str, Path]]:
    """Save graphs as the runtime has optimised and packed them; gives the files of those of which that can be done.

    Args:
        options: makes those of a session that opens an original graph; a saved one is opened with optimisations off.
            The files are of use to this machine and runtime alone.
        kept: the folder that they are in, or are put into where there is none. Without one they go once the sessions
            are open: they keep what they mapped.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder = kept or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="limelight-weights-")))
            is_new = bool(graphs) and not (kept and kept.is_dir())
            if is_new:
                folder.mkdir(exist_ok=True)
        except OSError as error:
            logger.warning("weights are held once a session, since no folder can be made for them: %s", error.strerror)
            yield {}
            return
        files = {name: folder / f"{number}.onnx" for number, name in enumerate(graphs)}
        if is_new:
            places: dict[bytes, int] = {}
            for name, file in files.items():
                _save(ort, graphs[name], options(), file, places)
            give_back()  # the library would keep a whole copy of the weights
        yield {name: file for name, file in files.items() if file.is_file()}


def _save(ort: Any, graph: Path, options: Any, saved: Path, places: dict[bytes, int]) -> None:
    """Save one graph. places: of the weights in the file that all have, by digest."""
    options.optimized_model_filepath = str(saved)
    for entry, value in (
        ("session.optimized_model_external_initializers_file_name", _OWN),
        ("session.optimized_model_external_initializers_min_size_in_bytes", "1024"),
        ("session.save_external_prepacked_constant_initializers", "1"),
    ):
        options.add_session_config_entry(entry, value)
    own = saved.with_name(_OWN)
    try:
        ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        if own.is_file():
            _share(saved, own, places)
    except Exception as error:
        logger.warning("weights are held once a session, since they cannot be saved: %s", error)
        with contextlib.suppress(OSError):  # half of it would be taken for the whole at the next start
            saved.unlink(missing_ok=True)
    finally:
        with contextlib.suppress(OSError):
            own.unlink(missing_ok=True)


def _share(saved: Path, own: Path, places: dict[bytes, int]) -> None:
    """Move the weights of a saved graph from its own file into the one that all have, those that are not there yet."""
    model = _message_class("Model").FromString(saved.read_bytes())
    with (
        own.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as content,
        own.with_name(_WEIGHTS).open("ab") as shared,
    ):

        def moved(offset: str, size: str) -> int:
            with content[int(offset) : int(offset) + int(size)] as weights:
                digest = hashlib.sha256(weights).digest()
                if digest not in places:
                    shared.write(bytes(-shared.tell() % _ALIGNED))
                    places[digest] = shared.tell()
                    shared.write(weights)
            return places[digest]

        for tensor in _tensors(model.graph):
            entries = {each.key: each for each in tensor.external_data}
            if not entries:
                continue
            entries["location"].value = _WEIGHTS
            entries["offset"].value = str(moved(entries["offset"].value, entries["length"].value))
            for key, entry in entries.items():
                if key.startswith("prepacked_"):
                    kernel, _, packed = entry.value.partition("|")
                    of_shared = _PACKED.sub(lambda each: f"{moved(each[1], each[2])};{each[2]};{each[3]}", packed)
                    entry.value = f"{kernel}|{of_shared}"
    saved.write_bytes(model.SerializeToString())


def _tensors(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _tensors(inner)


# Of ONNX's messages the fields that lead to where weights lie, with their numbers; all others are kept as they are.
_FIELDS: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Model": {"graph": (7, "Graph")},
    "Graph": {"node": (1, "[Node]"), "initializer": (5, "[Tensor]")},
    "Node": {"attribute": (5, "[Attribute]")},
    "Attribute": {"g": (6, "Graph"), "graphs": (11, "[Graph]")},
    "Tensor": {"external_data": (13, "[Entry]")},
    "Entry": {"key": (1, "string"), "value": (2, "string")},
}


@cache
def _message_class(name: str) -> Any:
    """Make a class of messages: an engine does without the library `onnx`, which takes tens of megabytes."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="onnx_weights.proto", package="onnx_weights")
    for message, fields in _FIELDS.items():
        made = file.message_type.add(name=message)
        for each, (number, kind) in fields.items():
            label = field.LABEL_REPEATED if kind.startswith("[") else field.LABEL_OPTIONAL
            added = made.field.add(name=each, number=number, label=label)
            if kind == "string":
                added.type = field.TYPE_STRING
            else:
                added.type, added.type_name = field.TYPE_MESSAGE, f".onnx_weights.{kind.strip('[]')}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"onnx_weights.{name}"))
