"""Answers as serialized `ModelInferResponse` messages: one tensor for each output, with the rows as its first axis.

Rows that differ in size are filled up to the largest with zeros (BYTES: with empty strings), and the parameter
`limelight_shapes` of the output states the shape of each.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from limelight_bundle.maps import SCORES
from limelight_bundle.rows import Labels
from limelight_bundle.values import Array
from limelight_service.attention.plan import rollout_description
from limelight_service.codecs.answers import check_size
from limelight_service.codecs.framing import Frame
from limelight_service.codecs.oip.datatypes import BYTES, DataType, of_dtype
from limelight_service.codecs.oip.outputs import Output, Source
from limelight_service.codecs.oip.parameters import Value, set_parameters
from limelight_service.codecs.oip.requests import InferCall
from limelight_service.frontend.calls import CheckedCall, Inference, Prediction
from limelight_service.frontend.results import (
    Boxes,
    Classes,
    Embedding,
    Numbers,
    Spans,
    Tags,
    TokenVectors,
    TypedResult,
)
from limelight_service.ipc.boundary import MapResult, TokenResult
from limelight_service.open_inference import open_inference_pb2 as pb

SHAPES = "limelight_shapes"
FINAL = "triton_final_response"
_LENGTH = 4
# Numbers of a map beside its weights, as outputs `<map>.scales` and so on.
_MAP_PARTS = ("scales", "key_index", "left_out")


@dataclass(frozen=True)
class Tensor:
    """An output of an answer. rows: one array for each row, of the same type."""

    name: str
    rows: Sequence[Array]

    @property
    def type(self) -> DataType:
        """The type of its elements."""
        return of_dtype(self.rows[0].dtype)

    def whole(self) -> tuple[Sequence[Array], dict[str, Value]]:
        """Give the rows filled up to the largest, and the parameter that tells where each ends."""
        rows = self.rows
        if all(each.shape == rows[0].shape for each in rows):
            return rows, {}
        shapes = json.dumps([list(each.shape) for each in rows], separators=(",", ":"))
        return list(filled(rows)), {SHAPES: shapes}


@dataclass(frozen=True)
class InferAnswer:
    """An answer, whatever form it is sent in."""

    model: str
    version: int
    id: str
    parameters: Mapping[str, Value] = field(default_factory=dict)
    outputs: Sequence[Tensor] = ()


def infer_answer(inference: Inference, call: InferCall) -> InferAnswer:
    """Make the answer to a request."""
    head = _head(inference.checked, inference.parts, call.asked.id)
    return replace(head, outputs=list(_tensors(inference, call.wanted)))


def infer_response(inference: Inference, call: InferCall) -> bytes:
    """Serialize the answer to a request. Raises: TooLargeError."""
    frame = framed(infer_answer(inference, call), call.asked.is_raw)
    check_size(frame.size, inference.checked, "outputs")
    return frame.joined()


def stream_response(inference: Inference, call: InferCall) -> bytes:
    """Serialize the one answer of a stream to a request. Raises: TooLargeError."""
    answer = infer_answer(inference, call)
    frame = framed(replace(answer, parameters={**answer.parameters, FINAL: True}), call.asked.is_raw)
    check_size(frame.size, inference.checked, "outputs")
    return _of_stream(frame)


class TokenResponses:
    """The answers of a stream to a request that generates: one for each token, and a last one.

    labels: sets that the inputs decide.
    """

    def __init__(self, checked: CheckedCall, labels: Mapping[str, Labels], call: InferCall) -> None:
        self._checked = checked
        self._labels = labels
        self._call = call
        self._tokens = 0
        self._sequence = next(each.name for each in checked.schema.results if each.HasField("sequence"))

    def token(self, token: TokenResult) -> bytes:
        """Serialize the answer for one token: the text that it adds, its id, its row of each map."""
        self._tokens += 1
        served = self._checked.schema.served
        head = InferAnswer(served.name, served.version, self._call.asked.id, {FINAL: False})
        values = {
            "": _strings([token.delta]),
            ".token_ids": np.array([[token.token_id]], np.int32),
            ".log_probabilities": np.array([[token.log_probability]], np.float32),
        }
        return self._framed(head, values, token.maps)

    def end(self, prediction: Prediction) -> bytes:
        """Serialize the last answer: what no token brought, which for beam search is everything."""
        head, sequence = _head(self._checked, [prediction], self._call.asked.id), prediction.result.sequences[0]
        told: dict[str, Value] = {
            FINAL: True,
            "limelight_text": sequence.text,
            "limelight_finish_reason": sequence.finish_reason.value,
        }
        head = replace(head, parameters={**head.parameters, **told})
        values: dict[str, Array] = {
            "": _strings([""]),
            ".token_ids": np.zeros((1, 0), np.int32),
            ".log_probabilities": np.zeros((1, 0), np.float32),
        }
        if not self._tokens:
            values = result_values(prediction.results[self._sequence])
        return self._framed(head, values, prediction.result.maps, prediction)

    def _framed(
        self,
        head: InferAnswer,
        values: Mapping[str, Array],
        maps: Iterable[MapResult],
        last: Prediction | None = None,
    ) -> bytes:
        """Frame an answer. values: of the sequence. last: for the last one, which alone has other results."""
        axes = self._labels if last is None else last.axes
        by_name = {each.name: each for each in maps}
        tensors: list[Tensor] = []
        for output in self._call.wanted:
            if output.source is Source.RESULT and output.of == self._sequence:
                tensors.append(Tensor(output.name, [values[output.name.removeprefix(output.of)]]))
            elif output.source is Source.RESULT and last is not None:
                of_result = result_values(last.results[output.of])
                tensors.append(Tensor(output.name, [of_result[output.name.removeprefix(output.of)]]))
            elif output.source is Source.MAP and output.of in by_name:
                quantity = self._checked.wanted.attention.quantity
                tensors += _map_tensors(output.name, [(by_name[output.of], axes)], quantity)
            elif output.source is Source.LABEL_SET and last is not None:
                tensors.append(Tensor(output.name, [label_texts(axes[output.of])]))
        return _of_stream(framed(replace(head, outputs=tensors), self._call.asked.is_raw))


def error_response(request: pb.ModelInferRequest, code: str, message: str) -> pb.ModelStreamInferResponse:
    """Make the answer of a stream to a request that is refused."""
    response = pb.ModelStreamInferResponse(error_message=f"[{code}] {message}")
    response.infer_response.id = request.id
    return response


def result_values(result: TypedResult) -> dict[str, Array]:
    """Give the arrays of a typed result, by what its outputs add to its name."""
    match result:
        case Classes():
            names = [name or str(index) for name, index in zip(result.names, result.indices, strict=True)]
            return {"": _strings(names), ".probability": np.array(result.probabilities, np.float32)}
        case Tags():
            names = [name or str(index) for name, index in zip(result.names, result.indices, strict=True)]
            shape = (-1, max(1, result.per_entry))
            probability = np.array(result.probabilities, np.float32)
            return {"": _strings(names).reshape(shape), ".probability": probability.reshape(shape)}
        case Embedding():
            return {"": np.asarray(result.vector, np.float32)}
        case TokenVectors():
            return {"": result.vectors}
        case Numbers():
            return {"": np.array([each.value for each in result.numbers], np.float64)}
        case Spans():
            spans = result.spans
            none = {} if result.none is None else {".none_probability": np.array([result.none], np.float32)}
            return {
                "": _strings([each.text for each in spans]),
                ".start": np.array([each.start for each in spans], np.int32),
                ".end": np.array([each.end for each in spans], np.int32),
                ".probability": np.array([each.probability for each in spans], np.float32),
                **none,
            }
        case Boxes():
            boxes = result.boxes
            return {
                "": _strings([each.name or str(each.index) for each in boxes]),
                ".box": np.array([each.edges for each in boxes], np.float32).reshape(-1, 4),
                ".probability": np.array([each.probability for each in boxes], np.float32),
                ".query": np.array([each.query for each in boxes], np.int32),
            }
    sequences = result.sequences
    return {
        "": _strings([each.text for each in sequences]),
        ".token_ids": filled([np.array(each.token_ids, np.int32) for each in sequences]),
        ".log_probabilities": filled([np.array(each.log_probabilities, np.float32) for each in sequences]),
    }


def label_texts(labels: Labels) -> Array:
    """Give the texts of a label set [entry]: of a grid and of sentences, the places that `starts` and `ends` state."""
    if len(labels.texts):
        return _strings(labels.texts)
    if len(labels.starts):
        return _strings([f"{start}:{end}" for start, end in zip(labels.starts, labels.ends, strict=True)])
    return _strings([str(each) for each in range(labels.size)])


def dense(found: MapResult, axes: Mapping[str, Labels], absent: float = 0.0) -> Array:
    """Give a map's weights [head, query, key] (or […, feature]), where it has edges as where it has none.

    absent: stands where there is no edge.
    """
    if found.query_index is None or found.key_index is None or found.weights.ndim < 2:
        return found.weights
    queries = found.queries if found.queries is not None else np.arange(axes[found.query_labels].size)
    keys = found.keys if found.keys is not None else np.arange(axes[found.key_labels].size)
    shape = (found.weights.shape[0], len(queries), len(keys), *found.weights.shape[2:])
    whole = np.full(shape, absent, found.weights.dtype)
    rows, columns = np.searchsorted(queries, found.query_index), np.searchsorted(keys, found.key_index)
    whole[:, rows, columns] = found.weights
    return whole


def filled(rows: Sequence[Array]) -> Array:
    """Stack arrays of one rank, each filled up to the largest along every axis with zeros, or with empty strings."""
    shape = tuple(max(sizes) for sizes in zip(*(each.shape for each in rows), strict=True))
    empty: object = b"" if rows[0].dtype == object else 0
    whole = np.full((len(rows), *shape), empty, rows[0].dtype)
    for place, each in zip(whole, rows, strict=True):
        place[tuple(map(slice, each.shape))] = each
    return whole


def _tensors(inference: Inference, wanted: Sequence[Output]) -> Iterator[Tensor]:
    predictions, quantity = inference.parts, inference.checked.wanted.attention.quantity
    results = [{name: result_values(typed) for name, typed in each.results.items()} for each in predictions]
    maps = [{found.name: found for found in each.result.maps} for each in predictions]
    plan = inference.checked.plan
    stacks = () if plan is None else plan.stacks.values()
    replaced = {each.description.name: rollout_description(members).name for members in stacks for each in members}
    done: set[str] = set()  # rollouts, of which one replaces several maps
    for output in wanted:
        match output.source:
            case Source.RAW:
                yield Tensor(output.name, [each.outputs[output.of] for each in predictions])
            case Source.RESULT:
                part = output.name.removeprefix(output.of)
                yield Tensor(output.name, [each[output.of][part] for each in results])
            case Source.LABEL_SET:
                yield Tensor(output.name, [label_texts(each.axes[output.of]) for each in predictions])
            case Source.MAP:
                name = replaced.get(output.of, output.of)
                if name not in done:
                    done.add(name)
                    found = [(of[name], each.axes) for of, each in zip(maps, predictions, strict=True)]
                    yield from _map_tensors(name, found, quantity)


def _map_tensors(name: str, found: Sequence[tuple[MapResult, Mapping[str, Labels]]], quantity: int) -> list[Tensor]:
    """Give a map's weights, and what belongs to them: scales of UINT8, keys of top k and the sum of the others."""
    first, _ = found[0]
    absent = float(np.finfo(first.weights.dtype).min) if quantity == SCORES else 0.0
    tensors = [Tensor(name, [dense(each, axes, absent) for each, axes in found])]
    for part in _MAP_PARTS:
        if getattr(first, part) is not None and not (part == "key_index" and first.query_index is not None):
            tensors.append(Tensor(f"{name}.{part}", [getattr(each, part) for each, _ in found]))
    return tensors


def _head(checked: CheckedCall, predictions: Sequence[Prediction], identity: str) -> InferAnswer:
    """Begin an answer with what made it. Times are those of the slowest row."""
    served, made = checked.schema.served, [each.provenance for each in predictions]
    parameters: dict[str, Value] = {
        "limelight_digest": served.digest,
        "limelight_provider": served.provider,
        "limelight_batch_rows": max(each.batch_rows for each in made),
        "limelight_queue_ns": max(each.queue for each in made),
        "limelight_compute_ns": max(each.compute for each in made),
    }
    if any(each.truncated for each in predictions):
        parameters["limelight_truncated"] = json.dumps([each.truncated for each in predictions])
    if any(each.result.cached for each in predictions):
        parameters["limelight_cached"] = json.dumps([each.result.cached for each in predictions])
    seeds = [each.result.seed for each in predictions]
    if any(each is not None for each in seeds):
        parameters["limelight_seeds"] = json.dumps(seeds)
    return InferAnswer(served.name, served.version, identity, parameters)


def framed(answer: InferAnswer, raw: bool) -> Frame:
    """Frame an answer. raw: its contents; typed ones where a tensor has a type that they cannot hold become raw too."""
    head = pb.ModelInferResponse(model_name=answer.model, model_version=str(answer.version), id=answer.id)
    set_parameters(head.parameters, answer.parameters)
    raw = raw or not all(each.type.field for each in answer.outputs)
    contents: list[Sequence[Array]] = []
    for each in answer.outputs:
        kind, (rows, parameters) = each.type, each.whole()
        described = head.outputs.add(name=each.name, datatype=kind.name, shape=(len(rows), *rows[0].shape))
        set_parameters(described.parameters, parameters)
        if raw:
            contents.append(raw_contents(rows, kind))
            continue
        of_type = getattr(described.contents, kind.field)
        for one in rows:
            of_type.extend(one.reshape(-1).tolist())
    frame = Frame(head.SerializeToString())
    for arrays in contents:
        frame.put_contents(pb.ModelInferResponse.RAW_OUTPUT_CONTENTS_FIELD_NUMBER, arrays)
    return frame


def raw_contents(rows: Sequence[Array], kind: DataType) -> Sequence[Array]:
    """Give arrays whose bytes are the raw contents of rows."""
    if kind is not BYTES:
        return [np.ascontiguousarray(each, kind.dtype) for each in rows]
    parts = [len(each).to_bytes(_LENGTH, "little") + each for row in rows for each in row.reshape(-1)]
    return [np.frombuffer(b"".join(parts), np.uint8)]


def _of_stream(frame: Frame) -> bytes:
    whole = Frame()
    whole.put(pb.ModelStreamInferResponse.INFER_RESPONSE_FIELD_NUMBER, frame)
    return whole.joined()


def _strings(texts: Iterable[str]) -> Array:
    encoded = [each.encode() for each in texts]
    array = np.empty(len(encoded), object)
    array[:] = encoded
    return array
