"""Heads of long inputs, kept by the page's server and read from it in windows.

A head of n tokens has n² weights, and every call for some of them runs the model again. So the page's server streams
an open head once, in chunks of 8-bit weights, into a file without a name. Pointing, zooming and moving then read that
file: rows, columns, and rectangles of means.
"""

import hashlib
import http.client
import json
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from limelight.view.refusals import RefusedError
from limelight.view.upstream import Upstream, read_error, read_whole

Floats = npt.NDArray[np.float32]
MOST_BYTES = 2**31  # of all heads that are kept
MOST_CELLS = 2**22  # of a window
MOST_OF_A_LINE = 2**26  # bytes, of a stream of the server


@dataclass(frozen=True)
class Head:
    """Weights of a head. values: UINT8 [query, key]; a weight is its value times the scale of its row [query]."""

    values: npt.NDArray[np.uint8]
    scales: Floats

    @property
    def largest(self) -> float:
        """The largest weight: that of a row is 255."""
        return float(self.scales.max(initial=0)) * 255

    def window(self, rows: tuple[int, int], columns: tuple[int, int], most: tuple[int, int]) -> Floats:
        """Compute means of a window.

        Args:
            rows, columns: first, and one past the last.
            most: rows and columns of the answer; fewer entries than that are not pooled.
        Returns: float32 [row, column], each cell the mean of a range of queries and one of keys.
        Raises: RefusedError: the window is not inside the head, or too large.
        """
        bounds = []
        for (first, end), size, cells in zip((rows, columns), self.values.shape, most, strict=True):
            if not 0 <= first < end <= size or cells < 1:
                raise RefusedError(400, "INVALID_ARGUMENT", f"{first}-{end} is no range of {size} entries")
            count = min(cells, end - first)
            bounds.append(first + np.arange(count + 1) * (end - first) // count)
        down, across = bounds
        if (len(down) - 1) * (len(across) - 1) > MOST_CELLS:
            raise RefusedError(400, "INVALID_ARGUMENT", f"a window has at most {MOST_CELLS} cells")
        if len(down) - 1 == rows[1] - rows[0]:
            sums = self.values[slice(*rows), slice(*columns)] * self.scales[slice(*rows), np.newaxis]
        else:
            ranges = [slice(*each) for each in zip(down[:-1].tolist(), down[1:].tolist(), strict=True)]
            sums = np.stack(
                [self.scales[each] @ self.values[each, slice(*columns)].astype(np.float32) for each in ranges]
            )
            sums /= np.diff(down).astype(np.float32)[:, np.newaxis]
        if len(across) - 1 < columns[1] - columns[0]:
            sums = np.add.reduceat(sums, across[:-1] - columns[0], axis=1)
            sums /= np.diff(across).astype(np.float32)
        return np.ascontiguousarray(sums, dtype="<f4")


class Heads:
    """The heads that the page opened last. For several threads."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._kept: OrderedDict[str, Head] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: str) -> Head:
        """Give a head. Raises: RefusedError: it is kept no longer."""
        with self._lock:
            if name not in self._kept:
                raise RefusedError(404, "NOT_FOUND", "this head is kept no longer: choose it again under Head")
            self._kept.move_to_end(name)
            return self._kept[name]

    def keep(self, path: str, request: Any, has_left: Callable[[], bool]) -> tuple[str, Head]:
        """Stream a head, unless it is here.

        Args:
            path: of the model.
            request: to AttendStream, for one head of one dense map without negative weights; encoded as UINT8.
            has_left: whether nobody waits for the head any more, asked between chunks.
        Returns: the name by which `get` knows it, and the head.
        Raises:
            RefusedError: the server refuses, or the head has more weights than are kept.
            ConnectionAbortedError: nobody waits.
        """
        body = json.dumps(request).encode()
        name = hashlib.sha256(path.encode() + b"\n" + body).hexdigest()
        with self._lock:
            if name in self._kept:
                return name, self._kept[name]
        try:
            head = self._streamed(path, body, has_left)
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise RefusedError(502, "UNAVAILABLE", f"the server sent a head that cannot be read ({error})") from error
        except OSError as error:
            message = f"this head cannot be kept in {tempfile.gettempdir()}: {error.strerror}"
            raise RefusedError(507, "RESOURCE_EXHAUSTED", message) from error
        with self._lock:
            self._kept[name] = head
            while sum(each.values.size for each in self._kept.values()) > MOST_BYTES:
                self._kept.popitem(last=False)
        return name, head

    def _streamed(self, path: str, body: bytes, has_left: Callable[[], bool]) -> Head:
        with tempfile.TemporaryFile(prefix="limelight-") as file, closing(self._events(path, body)) as events:
            shape, scales = None, list[Floats]()
            for event, data in events:
                if has_left():
                    raise ConnectionAbortedError
                if event == "error":
                    told = read_error(502, data)
                    raise RefusedError(502, told.code.name, told.message)
                if event == "start" and shape is None:
                    (streamed,) = json.loads(data)["start"]["maps"]
                    shape = _shape(streamed["shape"])
                elif event == "chunk" and shape is not None:
                    scales.append(_add(data, shape[1], sum(map(len, scales)), file))
                elif event == "end" and shape is not None and sum(map(len, scales)) == shape[0]:
                    file.flush()
                    # Read alone: a full disk is an error of a write, and kills a program that writes through a map.
                    return Head(np.memmap(file, np.uint8, "r", shape=shape), np.concatenate(scales))
        raise RefusedError(502, "UNAVAILABLE", "the server ended the stream of this head early: run the input again")

    def _events(self, path: str, body: bytes) -> Generator[tuple[str, bytes], None, None]:
        """Yield names and data of server-sent events of the stream of a model, and "" for lines that are neither."""
        connection = self._upstream.connect()
        headers = {"Content-Type": "application/json", **self._upstream.headers}
        try:
            connection.request("POST", f"{path}:attendStream", body, headers)
            response = connection.getresponse()
            if response.status != 200:
                told = read_error(response.status, read_whole(response))
                raise RefusedError(response.status, told.code.name, told.message)
            event = ""
            while line := response.readline(MOST_OF_A_LINE + 1):
                if len(line) > MOST_OF_A_LINE:
                    raise RefusedError(502, "UNAVAILABLE", f"the server sent a line of over {MOST_OF_A_LINE} bytes")
                if line.startswith(b"event: "):
                    event = line[7:].strip().decode()
                elif line.startswith(b"data: "):
                    yield event, line[6:]
                else:
                    yield "", line
        except (OSError, http.client.HTTPException) as error:
            message = f"{self._upstream.address} did not send the head ({error or type(error).__name__})"
            raise RefusedError(502, "UNAVAILABLE", message) from error
        finally:
            connection.close()


def _shape(shape: list[int]) -> tuple[int, int]:
    """Return the rows and columns of a head that a stream announces."""
    if len(shape) != 3 or shape[0] != 1 or not all(isinstance(each, int) and each > 0 for each in shape):
        raise RefusedError(400, "INVALID_ARGUMENT", f"one head [1, query, key] can be kept, not {shape[:4]}")
    rows, columns = shape[1:]
    if rows * columns > MOST_BYTES:
        message = (
            f"a head of {rows} × {columns} weights is more than the page keeps: shorten the input, or read single rows "
            "with `limelight attend --query`"
        )
        raise RefusedError(413, "RESOURCE_EXHAUSTED", message)
    return rows, columns


def _add(data: bytes, columns: int, rows: int, file: IO[bytes]) -> Floats:
    """Write the weights of the chunk that follows so many rows, and return the scales of its rows."""
    chunk, values = _chunk(data)
    scales = np.array(chunk["scales"]["data"], np.float32).reshape(-1)
    if chunk.get("firstQuery", 0) != rows or not len(scales) or values.size != len(scales) * columns:
        raise ValueError(f"a chunk does not follow the {rows} rows before it")
    if not (np.isfinite(scales) & (scales >= 0)).all():
        raise ValueError("a scale is no number")
    file.write(values.data)
    return scales


def _chunk(data: bytes) -> tuple[dict[str, Any], npt.NDArray[np.uint8]]:
    """Read a chunk without its weights, and these: lists of Python would take five times as long."""
    weights = data.index(b'"weights":{')
    first = data.index(b'"data":', weights) + len(b'"data":')
    end = data.index(b"}", first)
    values = np.fromstring(data[first:end].translate(None, b"[]"), np.uint8, sep=",")
    chunk: dict[str, Any] = json.loads(data[:first] + b"0" + data[end:])["chunk"]
    return chunk, values
