"""Writing of a stream's maps to NumPy files, without holding a map in memory."""

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from limelight.files import file_name
from limelight.records import Record
from limelight.streams import MapChunk, StreamedMap, StreamEvent, StreamStart, whole_map


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

    Yields the start event, then each map once its file is complete. Of an interrupted map no file is left.

    Raises:
        ValueError: a chunk is missing, or the stream is not whole.
        OSError: names the file that cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    writer: _Writer | None = None
    started: StreamStart | None = None
    is_whole = False
    try:
        for event in events:
            if isinstance(event, StreamStart):
                started, is_whole = event, False
                yield event
            elif isinstance(event, MapChunk) and started is not None:
                if writer is not None and writer.index != event.index:
                    yield writer.finished()
                    writer = None
                if writer is None:
                    is_dense = event.part.edges is None and event.part.key_index is None
                    writer = _Writer(event.index, started.maps[event.index], folder, is_dense=is_dense)
                writer.write(event)
            elif started is not None:
                is_whole = True
                if writer is not None:
                    yield writer.finished()
                    writer = None
        if not is_whole:
            raise ValueError("the stream ended before the instance was complete")
    except OSError as error:
        if writer is not None and error.errno and not error.filename:
            raise OSError(error.errno, error.strerror, str(writer.file)) from error
        raise
    finally:
        if writer is not None:
            writer.remove()


class _Writer:
    """Writes one map into a file beside its place, which it takes once it is whole."""

    def __init__(self, index: int, described: StreamedMap, folder: Path, *, is_dense: bool) -> None:
        self.index, self._described = index, described
        self.file = folder / f"{file_name(described.name)}{'.npy' if is_dense else '.npz'}"
        self._beside = folder / f".{self.file.name}"
        self._chunks: list[MapChunk] = []
        self._whole: IO[bytes] | None = None
        self._rows, self._first = 0, 0
        if is_dense:
            # Written and not mapped: a full disk is an error of a write, and kills a program that writes through a map.
            self._whole = self._beside.open("wb")
            header = {"descr": "<f4", "fortran_order": False, "shape": described.shape}
            np.lib.format.write_array_header_1_0(self._whole, header)
            self._first = self._whole.tell()

    def write(self, chunk: MapChunk) -> None:
        if self._whole is None:  # edges and top-k weights are few, so they fit in memory
            self._chunks.append(chunk)
            return
        queries, size = self._described.shape[1], 4 * math.prod(self._described.shape[2:])
        for head, rows in enumerate(chunk.part.weights, chunk.head.start):
            self._whole.seek(self._first + (head * queries + chunk.query.start) * size)
            self._whole.write(np.ascontiguousarray(rows, "<f4").data)
            self._rows += len(rows)

    def finished(self) -> SavedMap:
        if self._whole is not None:
            self._whole.close()
            if self._rows != math.prod(self._described.shape[:2]):
                raise ValueError(f"a chunk of map {self._described.name!r} is missing")
        else:
            whole = whole_map(self._described, self._chunks)
            arrays = {"weights": whole.weights, "key_index": whole.key_index, "left_out": whole.left_out}
            if whole.edges is not None:
                arrays |= {"query_index": whole.edges.query_index, "key_index": whole.edges.key_index}
            there: dict[str, Any] = {name: array for name, array in arrays.items() if array is not None}
            with self._beside.open("wb") as file:
                np.savez(file, **there)
        self._beside.replace(self.file)
        return SavedMap(self._described, self.file)

    def remove(self) -> None:
        if self._whole is not None:
            with suppress(OSError):  # of a disk that is full
                self._whole.close()
        self._beside.unlink(missing_ok=True)
