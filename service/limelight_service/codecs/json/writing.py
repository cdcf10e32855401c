"""Answers of limelight.v1 as JSON: the names and forms of proto3 JSON, tensors as numbers or as bytes behind the JSON.

What has its default is left out, 64-bit integers are texts, and numbers of single precision are as short as they can be
told apart.
"""

import base64
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import orjson
from google.protobuf import json_format
from google.protobuf.message import Message

from limelight.v1 import attention_pb2, values_pb2
from limelight_bundle.rows import Labels
from limelight_bundle.values import Array
from limelight_bundle.wire import DTYPES
from limelight_service.attention.labels import planned_labels
from limelight_service.attention.options import HeadReduction
from limelight_service.attention.plan import AttentionPlan
from limelight_service.codecs.answers import MapHead, StreamSums, check_size, described_maps, map_head, streamed_head
from limelight_service.codecs.explanations import explanation_message
from limelight_service.codecs.json.numbers import json_of
from limelight_service.codecs.json.numbers import written as written
from limelight_service.codecs.json.results import kept, result_json, sequence_json, singles, top_json
from limelight_service.frontend.calls import (
    AnswerEncoder,
    CheckedCall,
    Hidden,
    Inference,
    Prediction,
    PreparedInstance,
    Tokenized,
)
from limelight_service.frontend.explaining.explanation import Explanations
from limelight_service.ipc.boundary import ChunkResult, GenerationBegun, MapResult, StreamBegun, TokenResult

LARGEST = 8 * 2**20  # bytes of the arrays of an answer as JSON
_TYPES = {dtype: values_pb2.DataType.Name(number) for number, dtype in DTYPES.items()}
_REDUCTIONS = {
    HeadReduction.NONE: "",
    HeadReduction.MEAN: "HEAD_REDUCTION_MEAN",
    HeadReduction.MAX: "HEAD_REDUCTION_MAX",
}
_OF_TENSORS = {"dataType", "shape", "data"}
_ARRAYS = {
    "weights": "weights",
    "scales": "scales",
    "queryIndex": "query_index",
    "keyIndex": "key_index",
    "leftOut": "left_out",
}


def _names(enum: Any) -> dict[int, str]:
    """Give the names of an enumeration's values; none for 0, which is left out."""
    return {number: name if number else "" for name, number in enum.items()}


_MAP_KINDS, _QUANTITIES = _names(attention_pb2.MapKind), _names(attention_pb2.Quantity)
_LABEL_KINDS = _names(attention_pb2.LabelKind)


class Body:
    """The body of an answer: JSON, and the bytes of arrays behind it. Its length is that of all of it."""

    def __init__(self, json: bytes, arrays: Sequence[Array] = ()) -> None:
        self.json = json
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.json) + sum([each.nbytes for each in self.arrays])


class JsonWriter:
    """Makes what `written` takes of the parts of one answer.

    as_bytes: tensors have `offset` (from the end of the JSON) and `bytes` in place of `data`. arrays: those then.
    size: bytes of arrays and label sets so far.
    """

    def __init__(self, *, as_bytes: bool = False) -> None:
        self._as_bytes = as_bytes
        self.arrays: list[Array] = []
        self.size = self._end = 0

    def tensor(self, array: Array) -> dict[str, Any]:
        """Write an array."""
        name = _TYPES.get(array.dtype)
        if name is None:  # the bytes of its elements are turned
            array = array.astype(array.dtype.newbyteorder("<"))
            name = _TYPES[array.dtype]
        size = array.nbytes
        self.size += size
        if not self._as_bytes:
            return {"dataType": name, "shape": array.shape, "data": json_of(array)}
        self.arrays.append(array)
        self._end += size
        return {"dataType": name, "shape": array.shape, "offset": self._end - size, "bytes": size}

    def labels(self, labels: bytes | Labels) -> orjson.Fragment:
        """Write a label set, or take the JSON of one."""
        data = labels if isinstance(labels, bytes) else label_set(labels)
        self.size += len(data)
        return orjson.Fragment(data)

    def _hidden(self, hidden: Hidden) -> dict[str, Any]:
        it = hidden.description
        found: dict[str, Any] = {"name": it.name, "stack": it.stack}
        if it.layer:
            found["layer"] = it.layer
        found["labelSet"] = it.label_set
        if hidden.positions:
            found["positions"] = hidden.positions
        if hidden.vectors is not None:
            found["vectors"] = self.tensor(hidden.vectors)
        if (read := hidden.reading) is not None:
            found["tokensPerEntry"] = read.token_ids.shape[1]
            found["tokenIds"] = read.token_ids.ravel().tolist()
            found["tokens"] = read.texts
            found["logProbabilities"] = singles(read.log_probabilities.ravel().tolist())
        return found

    def prediction(self, prediction: Prediction, started: int, made: Iterable[Labels] = ()) -> dict[str, Any]:
        """Write a `Prediction`. made: further label sets. started: when encoding began, by `perf_counter_ns`."""
        result = prediction.result
        found: dict[str, Any] = {}
        if prediction.results:
            found["results"] = [
                {"name": name, **result_json(typed, self.tensor)} for name, typed in prediction.results.items()
            ]
        labels = [self.labels(each) for each in (*prediction.labels.values(), *made, *prediction.derived_labels)]
        if labels:
            found["labelSets"] = labels
        if prediction.outputs:
            found["outputs"] = {name: self.tensor(array) for name, array in prediction.outputs.items()}
        if prediction.hidden:
            found["hidden"] = [self._hidden(each) for each in prediction.hidden]
        if prediction.truncated:
            found["truncated"] = True
        if result.seed is not None:
            found["seed"] = str(result.seed)
        found["provenance"] = _provenance(prediction, started)
        return found

    def attended(self, checked: CheckedCall, prediction: Prediction) -> dict[str, Any]:
        """Write an `Attended`."""
        started, result, plan = time.perf_counter_ns(), prediction.result, checked.plan
        maps = self.maps(result.maps, plan)
        others = [
            kept({"sequence": number, "labelSets": list(map(self.labels, each.labels)), **self.maps(each.maps, plan)})
            for number, each in enumerate(result.other_sequences, 1)
        ]
        return {"prediction": self.prediction(prediction, started), **maps, **kept({"otherSequences": others})}

    def maps(self, maps: Iterable[MapResult], plan: AttentionPlan | None) -> dict[str, Any]:
        """Write the field of maps; empty where there are none."""
        found = []
        for each, description in described_maps(maps, plan):
            assert plan is not None
            head = map_head(each, description, plan.options.quantity)
            found.append({**_head(head), **self.map_arrays(each)})
        return {"maps": found} if found else {}

    def map_arrays(self, found: MapResult) -> dict[str, Any]:
        """Write the numbers of a map."""
        arrays = [(name, getattr(found, field)) for name, field in _ARRAYS.items()]
        return {name: self.tensor(array) for name, array in arrays if array is not None}


Encoders = tuple[AnswerEncoder[Body], AnswerEncoder[Body]]
"""With the numbers of tensors in the JSON, and with their bytes behind it."""


def _encoders(name: str, write: Callable[[JsonWriter, CheckedCall, Prediction], Any]) -> Encoders:
    """Make the encoders of a response whose field `name` has one entry an instance, which `write` makes."""

    def part(checked: CheckedCall, prediction: Prediction) -> tuple[bytes, int]:
        writer = JsonWriter()
        return written(write(writer, checked, prediction)), writer.size

    def whole(inference: Inference) -> Body:
        check_size(sum([size for _, size in inference.parts]), inference.checked)
        return Body(b'{"%s":[%s]}' % (name.encode(), b",".join([data for data, _ in inference.parts])))

    def whole_with_bytes(inference: Inference) -> Body:
        writer = JsonWriter(as_bytes=True)
        found = [write(writer, inference.checked, each) for each in inference.parts]
        check_size(writer.size, inference.checked)
        return Body(written({name: found}), writer.arrays)

    return AnswerEncoder(whole, part), AnswerEncoder(whole_with_bytes)


def _predicted(writer: JsonWriter, checked: CheckedCall, prediction: Prediction) -> dict[str, Any]:
    return writer.prediction(prediction, time.perf_counter_ns())


PREDICT = _encoders("predictions", _predicted)
ATTEND = _encoders("results", JsonWriter.attended)


def tokenized(results: Iterable[Tokenized]) -> bytes:
    """Write a `TokenizeResponse`."""
    found = [
        kept({"labelSets": list(map(orjson.Fragment, each.labels)), "truncated": each.truncated}) for each in results
    ]
    return written({"results": found})


def explained(found: Explanations, *, as_bytes: bool) -> Body:
    """Write an `ExplainResponse`. Raises: TooLargeError."""
    writer = JsonWriter(as_bytes=as_bytes)
    entries = [
        {
            "prediction": writer.prediction(each.prediction, time.perf_counter_ns()),
            "units": writer.labels(each.units),
            **json_format.MessageToDict(explanation_message(each)),
        }
        for each in found.explanations
    ]
    check_size(writer.size, found.checked)
    return Body(written({"explanations": entries}), writer.arrays)


class MapStreamEvents:
    """The events of AttendStream for one instance, a `MapStream`. place: of the instance."""

    def __init__(self, checked: CheckedCall, place: int) -> None:
        assert checked.plan is not None
        self._checked, self._plan = checked, checked.plan
        self._place = {"instance": place} if place else {}
        self.sums = StreamSums()

    def begin(self, prediction: Prediction, begun: StreamBegun) -> bytes:
        """Write the first event. Raises: TooLargeError; InputError for keys that the instance lacks."""
        writer, maps = JsonWriter(), []
        predicted = writer.prediction(prediction, time.perf_counter_ns(), planned_labels(self._plan.key_groups))
        for selected, streamed in zip(self._plan.selected, begun.maps, strict=True):
            head, shape = streamed_head(self._plan, selected, streamed)
            maps.append({"map": _head(head), "shape": shape})
        check_size(writer.size, self._checked, what="need a message")
        return event("start", {"prediction": predicted, **kept({"maps": maps})}, self._place)

    def chunk(self, chunk: ChunkResult) -> bytes:
        """Write a chunk. Raises: TooLargeError."""
        started, writer, found = time.perf_counter_ns(), JsonWriter(), chunk.map
        small = {
            "map": chunk.place,
            "firstHead": chunk.first_head,
            "heads": found.weights.shape[0],
            "firstQuery": chunk.first_query,
            "queries": chunk.queries,
            "normalised": found.normalised,
        }
        arrays = writer.map_arrays(found)
        check_size(writer.size, self._checked, "attention", "needs a message")
        data = event("chunk", kept(small) | arrays, self._place)
        self.sums.add(chunk, started)
        return data

    def end(self) -> bytes:
        """Write the last event."""
        sums = self.sums
        found = {
            "chunks": sums.chunks,
            "weightsBytes": sums.weights_bytes,
            "queueNanoseconds": sums.queue_nanoseconds,
            "computeNanoseconds": sums.compute_nanoseconds,
            "encodeNanoseconds": sums.encode_nanoseconds,
        }
        return event("end", {name: str(each) for name, each in found.items() if each}, self._place)


class GenerationEvents:
    """The events of one Generate call, a `Generation`."""

    def __init__(self, checked: CheckedCall, prepared: PreparedInstance) -> None:
        self._checked, self._prepared = checked, prepared

    def begin(self, begun: GenerationBegun) -> bytes:
        """Write the first event, with the label sets that are known before the first token."""
        wanted, writer = self._checked.wanted, JsonWriter()
        put_in = [each for each in begun.labels if each.name in wanted.labels]
        made = () if wanted.plan is None else planned_labels(wanted.plan.key_groups)
        labels = [writer.labels(each) for each in (*self._prepared.labels.values(), *put_in, *made)]
        seed = "" if begun.seed is None else str(begun.seed)
        return event("start", kept({"labelSets": labels, "truncated": self._prepared.row.truncated, "seed": seed}))

    def token(self, token: TokenResult) -> bytes:
        """Write one token, with its row of every map."""
        small = {
            "index": token.index,
            "id": token.token_id,
            "text": token.text,
            "logProbability": singles([token.log_probability])[0],
            **JsonWriter().maps(token.maps, self._checked.plan),
            "delta": token.delta,
            "forced": token.forced,
            "top": top_json(token.top),
        }
        return event("token", kept(small))

    def end(self, prediction: Prediction) -> bytes:
        """Write the last event: the whole sequence, and the maps that no token brought."""
        started, result, writer = time.perf_counter_ns(), prediction.result, JsonWriter()
        steps = next(each for each in result.labels if each.name == self._checked.schema.steps_label)
        maps = writer.maps(result.maps, self._checked.plan)
        found = {
            "sequences": [sequence_json(each) for each in result.sequences],
            "labelSet": writer.labels(steps),
            **maps,
            "provenance": _provenance(prediction, started),
        }
        return event("end", found)


def event(name: str, value: Any, beside: dict[str, Any] | None = None) -> bytes:
    """Write a server-sent event, whose data are the field of its name. beside: fields before it."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), written({**(beside or {}), name: value}))


def label_set(labels: Labels) -> bytes:
    """Write a label set."""
    grid = labels.grid
    return written(
        kept(
            {
                "name": labels.name,
                "kind": _LABEL_KINDS[labels.kind],
                "size": labels.size,
                "texts": list(labels.texts),
                "starts": list(labels.starts),
                "ends": list(labels.ends),
                "ids": list(labels.ids),
                "special": list(labels.special),
                "parents": list(labels.parents),
                "parent": labels.parent,
                "inputs": labels.inputs,
                "inputIndices": list(labels.input_indices),
            }
        )
        | ({} if grid is None else {"grid": json_format.MessageToDict(grid)})
        | kept({"words": list(labels.words)})
    )


def described_json(message: Message, writer: JsonWriter) -> Any:
    """Give the JSON of a message whose content is a description, with the tensors of its examples."""
    return _with_tensors(json_format.MessageToDict(message), writer)


def _with_tensors(value: Any, writer: JsonWriter) -> Any:
    if isinstance(value, list):
        is_of_messages = bool(value) and isinstance(value[0], dict)
        return [_with_tensors(each, writer) for each in value] if is_of_messages else value
    if not isinstance(value, dict):
        return value
    if not isinstance(value.get("dataType"), str) or not value.keys() <= _OF_TENSORS:
        return {name: _with_tensors(each, writer) for name, each in value.items()}
    dtype = DTYPES[values_pb2.DataType.Value(value["dataType"])]
    shape = [int(each) for each in value.get("shape", ())]
    return writer.tensor(np.frombuffer(base64.b64decode(value.get("data", "")), dtype).reshape(shape))


def _head(head: MapHead) -> dict[str, Any]:
    """Write a map without its numbers."""
    description = head.description
    found: dict[str, Any] = {"name": description.name}
    if description.stack:
        found["stack"] = description.stack
    if description.HasField("layer"):
        found["layer"] = description.layer
    return found | kept(
        {
            "kind": _MAP_KINDS[description.kind],
            "quantity": _QUANTITIES[head.quantity],
            "normalised": head.normalised,
            "signed": head.signed,
            "queryLabels": head.query_labels,
            "keyLabels": head.key_labels,
            "headLabels": description.head_labels,
            "featureLabels": description.feature_labels,
            "headReduction": _REDUCTIONS[head.head_reduction],
            "heads": head.heads,
            "queries": head.queries,
            "keys": head.keys,
        }
    )


def _provenance(prediction: Prediction, started: int) -> dict[str, Any]:
    """Say what made an answer whose encoding began at `started`."""
    made = prediction.provenance
    nanoseconds = {
        "queueNanoseconds": made.queue,
        "computeNanoseconds": made.compute,
        "preprocessNanoseconds": made.preprocess,
        "encodeNanoseconds": prediction.result.reduce_nanoseconds + time.perf_counter_ns() - started,
    }
    return {
        "model": {"name": made.model, "version": made.version},
        "bundleDigest": made.digest,
        "provider": made.provider,
        "graph": made.graph,
        "batchRows": made.batch_rows,
        **{name: str(each) for name, each in nanoseconds.items() if each},
        **({"cached": True} if prediction.result.cached else {}),
    }
