"""Reading of saved answers (`limelight.archive`). A file is not trusted: every part is checked before it is used."""

import errno
import json
import math
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields
from io import BytesIO
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from limelight import predictions
from limelight.archive import DOCUMENT, FORMAT
from limelight.attended import Attended, SequenceAttention
from limelight.explanations import Agreement, ExplainedTarget, Explanation, WayValues
from limelight.labels import Grid, LabelSet, Region, check_columns
from limelight.maps import AttentionMap, Edges
from limelight.predictions import HiddenState, Prediction, Tagging
from limelight.records import FrozenMapping, Record

_RESULTS = (
    "Box Boxes Classification ClassProbability Embedding GeneratedSequence Number Provenance Regression Sequences Span "
    "Spans TokenVectors"
)
_TYPES: dict[str, type[Record]] = {
    **{each.__name__: each for each in (Attended, SequenceAttention, Prediction, AttentionMap, Edges, LabelSet)},
    **{each.__name__: each for each in (Grid, Region, Tagging, HiddenState)},
    **{each.__name__: each for each in (Agreement, ExplainedTarget, Explanation, WayValues)},
    **{name: getattr(predictions, name) for name in _RESULTS.split()},
}
# What reading the header of an array, JSON or a record of hostile content can raise.
_FAULTS = (
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    MemoryError,
    OverflowError,
    RecursionError,
    SyntaxError,
    NotImplementedError,
    tokenize.TokenError,
    zlib.error,
    struct.error,
)


Saved: TypeAlias = Attended | Prediction | AttentionMap | Explanation


def load(file: str | os.PathLike[str]) -> Saved:
    """Read an answer, a prediction, a map or an explanation that `save` wrote. It equals the saved one.

    Nothing of the file is run.

    Raises:
        ValueError: the file is no such file, is damaged, or was written by a newer version; the message says which.
        OSError: the file cannot be read.
    """
    path = Path(file)
    try:
        with zipfile.ZipFile(path) as archive:
            return _answer(_Members(archive, path.stat().st_size))
    except (zipfile.BadZipFile, RuntimeError) as error:
        raise ValueError(f"{path} is not an answer that Limelight saved: {error}") from None
    except (*_FAULTS, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # a place before the file's start
            raise
        what = error if isinstance(error, ValueError) else f"{type(error).__name__} while it was read"
        raise ValueError(f"{path} is not an answer that Limelight saved: {what}") from None


class _Members:
    """The arrays of an archive. Members are stored uncompressed, so that a small file stays small in memory."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self._archive = archive
        self._read: dict[str, NDArray[Any]] = {}
        self._infos = {each.filename.removesuffix(".npy"): each for each in archive.infolist()}
        if any(each.compress_type != zipfile.ZIP_STORED for each in archive.infolist()):
            raise ValueError("its members are compressed")
        if sum(each.file_size for each in archive.infolist()) > size:
            raise ValueError("its members are larger than the file")

    def array(self, name: str) -> NDArray[Any]:
        """Read an array, once, whose data must be as long as its header says."""
        if name in self._read:
            return self._read[name]
        if name not in self._infos:
            raise ValueError(f"member {name!r} is missing")
        stored = self._archive.read(self._infos[name])
        data = BytesIO(stored)
        if np.lib.format.read_magic(data) != (1, 0):
            raise ValueError(f"member {name!r} is not an array of format 1.0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that Python 2 wrote
            shape, in_columns, dtype = np.lib.format.read_array_header_1_0(data)
        if dtype.hasobject or dtype.kind not in "biuf":
            raise ValueError(f"member {name!r} has elements of type {dtype}")
        rest = memoryview(stored)[data.tell() :]
        if math.prod(shape) * dtype.itemsize != len(rest) or min(shape, default=0) < 0:
            raise ValueError(f"member {name!r} has {len(rest)} bytes for the shape {list(shape)} of {dtype}")
        array: NDArray[Any] = np.frombuffer(rest, dtype).reshape(shape, order="F" if in_columns else "C")
        array.flags.writeable = False
        self._read[name] = array
        return array


def _answer(members: _Members) -> Saved:
    document = json.loads(members.array(DOCUMENT).tobytes())
    if not isinstance(document, dict) or "format" not in document:
        raise ValueError("its document is not one of Limelight")
    if document["format"] != FORMAT:
        raise ValueError(f"it has format {document['format']!r}, and this version reads format {FORMAT}")
    if not isinstance(document.get("records"), list):
        raise ValueError("its document has no records")
    records: list[Record] = []
    for number, stored in enumerate(document["records"]):
        try:
            records.append(_record(stored, records, members))
        except _FAULTS as error:
            what = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            raise ValueError(f"records[{number}]: {what}") from error
    if not records or not isinstance(last := records[-1], Saved):
        raise ValueError("its last record is not an answer, a prediction, a map or an explanation")
    return last


def _record(stored: Any, before: list[Record], members: _Members) -> Record:
    """Build a record, whose fields have the types that its class states.

    Raises:
        ValueError: names what is wrong.
    """
    if not isinstance(stored, dict) or not isinstance(values := stored.get("fields"), dict):
        raise ValueError("it has no type and fields")
    kind = _TYPES.get(str(stored.get("type")))
    if kind is None:
        raise ValueError(f"its type {stored.get('type')!r} is unknown")
    known: Iterable[Field[Any]] = fields(kind)  # type: ignore[arg-type]
    names = {each.name: each.default is MISSING and each.default_factory is MISSING for each in known}
    if unknown := sorted(set(values) - set(names)):
        raise ValueError(f"its field {unknown[0]!r} is unknown; it may be of a newer version")
    if missing := [name for name, is_required in names.items() if is_required and name not in values]:
        raise ValueError(f"its field {missing[0]!r} is missing")
    read = {name: _value(value, before, members) for name, value in values.items()}
    for name, value in read.items():
        if not _conforms(value, _HINTS[kind][name]):
            raise ValueError(f"its field {name!r} has a value of another type")
    record = kind(**read)
    _check(record)
    return record


def _value(stored: Any, before: list[Record], members: _Members) -> Any:
    match stored:
        case {"record": int(number)} if 0 <= number < len(before):
            return before[number]
        case {"array": str(name)}:
            return members.array(name)
        case {"mapping": list(pairs)}:
            return FrozenMapping({key: _value(value, before, members) for key, value in pairs})
        case dict():
            raise ValueError(f"{str(stored)[:60]} refers to nothing before it")
        case list():
            return tuple(_value(each, before, members) for each in stored)
    return stored


_HINTS = {kind: get_type_hints(kind) for kind in _TYPES.values()}


def _conforms(value: Any, hint: Any) -> bool:
    """Return whether a value has the type of an annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_conforms(value, each) for each in arguments)
    if origin in (np.ndarray, NDArray):  # from NumPy 2.5 on, an alias is its own origin
        (element,) = arguments if origin is NDArray else get_args(arguments[1])
        return isinstance(value, np.ndarray) and (element is Any or value.dtype.kind == np.dtype(element).kind)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if arguments[-1] is ...:
            return all(_conforms(each, arguments[0]) for each in value)
        return len(value) == len(arguments) and all(map(_conforms, value, arguments))
    if origin is not None and issubclass(origin, Mapping):
        pairs = value.items() if isinstance(value, FrozenMapping) else ()
        return isinstance(value, FrozenMapping) and all(
            _conforms(key, arguments[0]) and _conforms(each, arguments[1]) for key, each in pairs
        )
    if hint is NoneType:
        return value is None
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, hint) and (hint is not int or not isinstance(value, bool))


def _check(record: Record) -> None:
    """Check that the parts of a record fit together. Raises ValueError."""
    match record:
        case LabelSet():
            check_columns(record, len(record))
            if record.indices is not None and len(record.indices) != len(record):
                raise ValueError(f"a label set has {len(record)} entries and {len(record.indices)} indices")
        case AttentionMap():
            _check_map(record)
        case Explanation():
            if any(len(each.values) != len(record.units) or name != each.way for name, each in record.ways.items()):
                raise ValueError("its ways are not of its units")
        case Tagging():
            sizes = {len(record.names), *(len(each) for each in (record.indices, record.probabilities))}
            if len(sizes) > 1 or record.indices.ndim != 2 or record.indices.shape != record.probabilities.shape:
                raise ValueError("its columns differ in length")


def _check_map(each: AttentionMap) -> None:
    heads, queries, keys = (1 if each.head_reduction else len(each.heads)), len(each.query), len(each.key)
    shape = each.weights.shape
    if each.quantity == "values":
        fits = len(shape) == 3 and shape[:2] == (heads, keys) and each.key_index is None and each.edges is None
    elif each.key_index is not None:
        fits = len(shape) == 3 and each.key_index.shape == shape and shape[:2] == (heads, queries)
        fits = fits and _within(each.key_index, -1, keys)
    elif each.edges is not None:
        edges = each.edges
        fits = len(shape) in (2, 3) and shape[0] == heads
        fits = fits and edges.query_index.shape == edges.key_index.shape == shape[1:2]
        fits = fits and _within(edges.query_index, 0, queries) and _within(edges.key_index, 0, keys)
    else:
        fits = len(shape) in (3, 4) and shape[:3] == (heads, queries, keys)
    if each.left_out is not None:
        fits = fits and each.left_out.shape == (heads, queries)
    if not fits or each.weights.dtype != np.float32:
        raise ValueError(
            f"map {each.name!r} has weights {list(shape)} for {heads} heads, {queries} queries, {keys} keys"
        )


def _within(index: NDArray[np.int64], low: int, high: int) -> bool:
    return not index.size or bool(low <= index.min() and index.max() < high)
