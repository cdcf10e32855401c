"""Writing of a stream's maps to NumPy files, without holding a map in memory."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from limelight.records import Record
from limelight.streams import MapChunk, StreamedMap, StreamEvent, StreamStart, whole_map

# Characters that a map's name may put into a file name; others become an underscore.
_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]|^\.+")


@dataclass(frozen=True, eq=False)
class SavedMap(Record):
    """A map in a file: `.npy` float32 [head, query, key] (and feature), or `.npz`.

    A map of edges is `.npz` with `weights` [head, edge], and `query_index` and `key_index` [edge], positions along its
    axes. A map cut by `top_k` is `.npz` with `weights` and `key_index` [head, query, place], and, except for scores,
    `left_out` [head, query].
    """

    _array = "`numpy.load(file)` is"

    map: StreamedMap
    file: Path


def save_maps(events: Iterable[StreamEvent], folder: Path) -> Iterator[StreamStart | SavedMap]:
    """Write the maps of one instance's stream into a folder, which is created.

    Yields the start event, then each map once its file is complete. The file of an interrupted map is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    writer: _Writer | None = None
    started: StreamStart | None = None
    try:
        for event in events:
            if isinstance(event, StreamStart):
                started = event
                yield event
            elif isinstance(event, MapChunk) and started is not None:
                if writer is not None and writer.index != event.index:
                    yield writer.finished()
                    writer = None
                if writer is None:
                    is_dense = event.part.edges is None and event.part.key_index is None
                    writer = _Writer(event.index, started.maps[event.index], folder, is_dense=is_dense)
                writer.write(event)
            elif writer is not None:
                yield writer.finished()
                writer = None
    finally:
        if writer is not None:
            writer.remove()


class _Writer:
    """Writes one map."""

    def __init__(self, index: int, described: StreamedMap, folder: Path, *, is_dense: bool) -> None:
        self.index, self._described = index, described
        self._file = folder / f"{_UNUSUAL.sub('_', described.name)}{'.npy' if is_dense else '.npz'}"
        self._chunks: list[MapChunk] = []
        self._whole: Any = None
        if is_dense:
            self._whole = np.lib.format.open_memmap(self._file, "w+", np.dtype("<f4"), described.shape)

    def write(self, chunk: MapChunk) -> None:
        if self._whole is None:  # edges and top-k weights are few, so they fit in memory
            self._chunks.append(chunk)
        else:
            self._whole[chunk.head, chunk.query] = chunk.part.weights

    def finished(self) -> SavedMap:
        if self._whole is not None:
            self._whole.flush()
        else:
            whole = whole_map(self._described, self._chunks)
            arrays = {"weights": whole.weights, "key_index": whole.key_index, "left_out": whole.left_out}
            if whole.edges is not None:
                arrays |= {"query_index": whole.edges.query_index, "key_index": whole.edges.key_index}
            there: dict[str, Any] = {name: array for name, array in arrays.items() if array is not None}
            np.savez(self._file, **there)
        return SavedMap(self._described, self._file)

    def remove(self) -> None:
        self._whole = None
        with suppress(FileNotFoundError):
            self._file.unlink()
