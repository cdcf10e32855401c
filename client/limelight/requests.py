"""Requests built from Python values: plain functions, the same for both clients."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict

from limelight.enums import number_of
from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight.values import Inputs, to_instance

Strings = str | Sequence[str]
Integers = int | Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Chooses maps and parts of maps; an empty field means all. Negative indices count from the end."""

    maps: Strings = ()
    """Names; `*` stands for any characters, dots too."""
    layers: Integers = ()
    heads: Integers = ()
    queries: Integers = ()
    keys: Integers = ()

    def message(self) -> attention_pb2.MapSelection:
        """The protocol's message."""
        return attention_pb2.MapSelection(
            names=_strings(self.maps),
            layers=_integers(self.layers),
            heads=_integers(self.heads),
            queries=_integers(self.queries),
            keys=_integers(self.keys),
        )


@dataclass(frozen=True, kw_only=True)
class Attention(Selection):
    """Which weights to return, and in which form: a selection, then reduction over heads, rollout, top k, encoding."""

    selections: Sequence[Selection] = ()
    """Several selections, of which the union is returned; in place of the fields for one."""
    reduce: Literal["mean", "max"] | None = None
    """Over heads."""
    rollout: bool = False
    """One map `<stack>.rollout` in place of the self maps of each stack."""
    top_k: int = 0
    """Keeps the k largest weights of each row, as edges; 0 for all."""
    encoding: Literal["float32", "float16", "uint8"] = "float32"
    """On the wire; the client's arrays are float32 whatever this is."""
    max_response_bytes: int = 0
    """Refuses a larger answer before it is computed; 0 for the server's own limit, which it cannot raise."""

    def options(self) -> attention_pb2.AttentionOptions:
        """The protocol's message."""
        one, selections = Selection.message(self), [selection.message() for selection in self.selections]
        if one.ByteSize():
            if selections:
                raise ValueError("either `selections`, or the fields of one selection")
            selections = [one]
        reduction = number_of(attention_pb2.HeadReduction, self.reduce, what="reduce") if self.reduce else None
        encoding = number_of(attention_pb2.Encoding, self.encoding, what="encoding")
        return attention_pb2.AttentionOptions(
            selections=selections,
            reduce_heads=reduction,
            rollout=self.rollout,
            top_k=self.top_k,
            encoding=encoding,
            max_response_bytes=self.max_response_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class Generation:
    """How a generating model puts out a sequence; what is not set is the server's default."""

    strategy: Literal["greedy", "sample", "beam"] = "greedy"
    temperature: float = 0.0
    """Divides the scores before sampling; 0 means 1."""
    top_k: int = 0
    """Samples among the k most probable tokens; 0 for all."""
    top_p: float = 0.0
    """Samples among the most probable tokens that together have this probability; 0 means 1."""
    max_new_tokens: int = 0
    """0 for the model's own limit."""
    stop: Strings = ()
    """Ends the sequence once its text ends with one of these."""
    beams: int = 0
    """0 means 4."""
    length_penalty: float | None = None
    hypotheses: int = 0
    """Returned by beam search; 0 means 1."""

    def message(self) -> service_pb2.GenerationOptions:
        """The protocol's message."""
        same = {field.name: getattr(self, field.name) for field in fields(self)}
        same |= {"stop": _strings(self.stop)}
        same |= {"strategy": number_of(service_pb2.Strategy, self.strategy, what="strategy")}
        return service_pb2.GenerationOptions(**same)


class CallOptions(TypedDict, total=False):
    """What every call for predictions takes by name.

    version: of the model; 0 for the default, which is the highest that loaded.
    truncate: cuts inputs over the model's limits instead of refusing them.
    outputs: which raw outputs to return; empty for all.
    seed: for models that draw at random.
    """

    version: int
    truncate: bool
    seed: int | None


class PredictOptions(CallOptions, total=False):
    """Those of `predict`; `generation` is for models that generate."""

    outputs: Strings
    generation: Generation | None


class AttendOptions(PredictOptions, total=False):
    """Those of `attend`: the fields of `Attention` as well."""

    maps: Strings
    layers: Integers
    heads: Integers
    queries: Integers
    keys: Integers
    selections: Sequence[Selection]
    reduce: Literal["mean", "max"] | None
    rollout: bool
    top_k: int
    encoding: Literal["float32", "float16", "uint8"]
    max_response_bytes: int


class GenerateOptions(CallOptions, total=False):
    """Those of `generate`: the fields of `Generation`, and `attention` for weights with each token."""

    attention: Attention | None
    strategy: Literal["greedy", "sample", "beam"]
    temperature: float
    top_k: int
    top_p: float
    max_new_tokens: int
    stop: Strings
    beams: int
    length_penalty: float | None
    hypotheses: int


Instances = Inputs | values_pb2.Instance | Sequence[Inputs | values_pb2.Instance]


def predict_request(
    model: str,
    inputs: Instances,
    *,
    version: int = 0,
    truncate: bool = False,
    outputs: Strings = (),
    seed: int | None = None,
    generation: Generation | None = None,
) -> service_pb2.PredictRequest:
    """A request for predictions."""
    return service_pb2.PredictRequest(
        model=model_message(model, version),
        instances=_instances(inputs),
        truncate=truncate,
        outputs=_strings(outputs),
        generation=generation.message() if generation else None,
        seed=seed,
    )


def attend_request(
    model: str,
    inputs: Instances,
    *,
    version: int = 0,
    truncate: bool = False,
    outputs: Strings = (),
    seed: int | None = None,
    generation: Generation | None = None,
    **attention: Any,
) -> service_pb2.AttendRequest:
    """A request for predictions with attention; `attention` are fields of `Attention`."""
    return service_pb2.AttendRequest(
        model=model_message(model, version),
        instances=_instances(inputs),
        truncate=truncate,
        outputs=_strings(outputs),
        generation=generation.message() if generation else None,
        seed=seed,
        attention=Attention(**attention).options(),
    )


def generate_request(
    model: str,
    inputs: Inputs | values_pb2.Instance,
    *,
    version: int = 0,
    truncate: bool = False,
    seed: int | None = None,
    attention: Attention | None = None,
    **generation: Any,
) -> service_pb2.GenerateRequest:
    """A request for one sequence; `generation` are fields of `Generation`."""
    return service_pb2.GenerateRequest(
        model=model_message(model, version),
        instance=to_instance(inputs),
        truncate=truncate,
        generation=Generation(**generation).message(),
        seed=seed,
        attention=attention.options() if attention else None,
    )


def model_message(name: str, version: int = 0) -> values_pb2.Model:
    """Which model a call is for."""
    return values_pb2.Model(name=name, version=version)


def is_one(inputs: Instances) -> bool:
    """Whether these are the inputs of a single instance, rather than a list of instances."""
    return not isinstance(inputs, Sequence)


def _instances(inputs: Instances) -> list[values_pb2.Instance]:
    if isinstance(inputs, str | bytes):
        raise TypeError('inputs go by name: {"text": …}; `Client.model` says which a model takes')
    if isinstance(inputs, Sequence):
        return [to_instance(each) for each in inputs]
    return [to_instance(inputs)]


def _strings(value: Strings) -> Sequence[str]:
    return [value] if isinstance(value, str) else value


def _integers(value: Integers) -> Sequence[int]:
    return [value] if isinstance(value, int) else value
