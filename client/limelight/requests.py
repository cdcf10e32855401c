"""Construction of requests from Python values, for both clients."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

from limelight.base.counts import counted
from limelight.base.enums import number_of
from limelight.base.errors import InputError
from limelight.base.strings import check_string, check_strings
from limelight.base.suggestions import check_keywords
from limelight.base.values import Inputs, to_instance
from limelight.groups import Grouping, Groupings, Groups, Pool, TextSpan, grouping_messages
from limelight.interventions import Intervention, with_interventions
from limelight.predictions import Span
from limelight.v1 import attention_pb2, service_pb2, values_pb2

_Attending = TypeVar("_Attending", service_pb2.AttendRequest, service_pb2.AttendStreamRequest)

Strings = str | Sequence[str]
Integers = int | Sequence[int]
Seeds = int | Sequence[int | None] | None


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Selects maps and parts of maps; an empty field selects all. Negative indices count from the end."""

    maps: Strings = ()
    """Names; `*` matches any characters, dots included."""
    layers: Integers = ()
    heads: Integers = ()
    queries: Integers = ()
    keys: Integers = ()

    def message(self) -> attention_pb2.MapSelection:
        """Build the protocol message."""
        return attention_pb2.MapSelection(
            names=_strings(self.maps, "maps"),
            layers=_integers(self.layers),
            heads=_integers(self.heads),
            queries=_integers(self.queries),
            keys=_integers(self.keys),
        )


@dataclass(frozen=True, kw_only=True)
class Attention(Selection):
    """Weights to return, and their form. Order of operations: selection, head reduction, rollout, groups or pool,
    top-k, encoding.
    """

    selections: Sequence[Selection] = ()
    """Union of several selections, in place of the fields of one."""
    quantity: Literal["weights", "scores", "norms", "values"] = "weights"
    """Weights, scores before alignment, norms of the weighted, transformed values, or the values themselves [head, key,
    feature], to which no other options than selections and encodings apply. `MapInfo.quantities` of a model's
    description lists what a map has beside weights."""
    reduce: Literal["mean", "max"] | None = None
    """Reduction over heads."""
    rollout: bool = False
    """Replaces the self maps of each stack by one map `<stack>.rollout`."""
    key_groups: Groupings = ()
    """Groups of keys, summed (see `limelight.groups`): `{"subject": TextSpan(0, 12), "rest": slice(5, None)}`,
    or a `Grouping` for each of several label sets. The new label set is `<label set>.key_groups`."""
    query_groups: Groupings = ()
    """Groups of queries, averaged. The new label set is `<label set>.query_groups`."""
    pool: int | Pool | None = None
    """Pools maps for display to at most this many queries and keys; a cell holds the largest weight, or as the `Pool`
    states. Excludes groups and selected queries or keys."""
    top_k: int = 0
    """Keeps the k largest weights of each row, for each head separately; 0 for all. `AttentionMap.left_out` is the sum
    of the others."""
    encoding: Literal["float32", "float16", "uint8"] = "float32"
    """Encoding of the message; the client's arrays are float32 in any case."""
    sequences: int = 0
    """For generating models: number of sequences with maps, best first; 0 means 1."""
    max_response_bytes: int = 0
    """Refuses a larger answer before computing it; 0 for the server's limit, which always applies."""

    def options(self) -> attention_pb2.AttentionOptions:
        """Build the protocol message."""
        selections = _selections(Selection.message(self), self.selections)
        reduction = number_of(attention_pb2.HeadReduction, self.reduce, what="reduce") if self.reduce else None
        pool = Pool(self.pool) if isinstance(self.pool, int) else self.pool
        return attention_pb2.AttentionOptions(
            selections=selections,
            quantity=number_of(attention_pb2.Quantity, self.quantity, what="quantity"),
            reduce_heads=reduction,
            rollout=self.rollout,
            query_groups=grouping_messages(self.query_groups, "query_groups"),
            key_groups=grouping_messages(self.key_groups, "key_groups"),
            pool=pool.message() if pool else None,
            top_k=self.top_k,
            encoding=number_of(attention_pb2.Encoding, self.encoding, what="encoding"),
            sequences=self.sequences,
            max_response_bytes=self.max_response_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """Hidden states to return; an empty field selects all. Negative indices count from the end."""

    layers: Integers = ()
    """0 for the embeddings, -1 for the last layer of each stack."""
    stacks: Strings = ()
    """Parts of the model: `encoder`, `prompt`, `decoder`."""
    positions: Integers = ()
    """Entries: tokens, patches, output steps."""
    pooling: Literal["mean", "first", "last"] | None = None
    """One vector in place of those of the entries."""
    top_tokens: int = 0
    """Tokens to read in place of each vector, most probable first (the logit lens of a decoder); 0 for vectors."""

    def message(self) -> service_pb2.HiddenOptions:
        """Build the protocol message."""
        pooling = number_of(service_pb2.VectorPooling, self.pooling, what="pooling") if self.pooling else None
        return service_pb2.HiddenOptions(
            stacks=_strings(self.stacks, "stacks"),
            layers=_integers(self.layers),
            positions=_integers(self.positions),
            pooling=pooling,
            top_tokens=self.top_tokens,
        )


@dataclass(frozen=True, kw_only=True)
class Generation:
    """Options of generation; fields that are not set take the server's defaults."""

    strategy: Literal["greedy", "sample", "beam"] = "greedy"
    temperature: float | None = None
    """Divisor of the scores before sampling; None means 1, 0 takes the most probable token."""
    top_k: int = 0
    """Samples from the k most probable tokens; 0 for all."""
    top_p: float | None = None
    """Samples from the fewest most probable tokens whose probabilities sum to at least this: None means 1, 0 takes
    the most probable token."""
    max_new_tokens: int = 0
    """Without the end token; 0 for the model's limit, which always applies."""
    stop: Strings = ()
    """Ends the sequence when one of these texts appears, and cuts the text there."""
    beams: int = 0
    """Number of beams; 0 means 4."""
    length_penalty: float | None = None
    """Beam search ranks hypotheses by log-probability divided by length to this power: None means 1, 0
    leaves the log-probability as it is."""
    hypotheses: int = 0
    """Number of hypotheses that beam search returns; 0 means 1."""
    continue_target: bool = False
    """Goes on behind the target (`Model.target_input`) instead of ending with it. `max_new_tokens` and `stop` are then
    of what is behind it."""
    top_logprobs: int = 0
    """Number of most probable tokens of each step to return, at most 20."""

    def message(self) -> service_pb2.GenerationOptions:
        """Build the protocol message."""
        same = {field.name: getattr(self, field.name) for field in fields(self)}
        same |= {"stop": _strings(self.stop, "stop")}
        same |= {"strategy": number_of(service_pb2.Strategy, self.strategy, what="strategy")}
        return service_pb2.GenerationOptions(**same)


@dataclass(frozen=True, kw_only=True)
class Target:
    """What `explain` explains; without a field the model's own answer."""

    label: str | None = None
    """Name of a class, or of a number of a regression."""
    index: int | None = None
    """Index of a class in the model."""
    text: str | None = None
    """For generating models: an output, which is forced."""
    span: TextSpan | Span | None = None
    """A span of the text, for models that find spans."""
    similar_to: Any = None
    """For models that give vectors: the instance to whose vector the similarity is explained, as in a call."""
    entry: int | None = None
    """For tagging and boxes the entry, for generating models the output step; negative numbers count from the end."""
    result: str = ""
    """Name of the result; empty for the main one."""

    def message(self) -> service_pb2.ExplainTarget:
        """Build the protocol message. Raises ValueError for two targets."""
        kinds = {name: getattr(self, name) for name in ("label", "index", "text", "span", "similar_to")}
        given = {name: value for name, value in kinds.items() if value is not None}
        if len(given) > 1:
            raise ValueError(f"a target has one of {', '.join(kinds)}, not {' and '.join(given)}")
        if self.span is not None:
            part = check_string(self.span.part, "target.span.part")
            given["span"] = values_pb2.TextSpan(
                start=self.span.start, end=self.span.end, sentence=self.span.sentence, part=part
            )
        if self.similar_to is not None:
            given["similar_to"] = to_instance(self.similar_to, "target.similar_to")
        for name in ("label", "text"):
            if name in given:
                check_string(given[name], f"target.{name}")
        return service_pb2.ExplainTarget(result=check_string(self.result, "target.result"), entry=self.entry, **given)


Explained: TypeAlias = str | int | TextSpan | Span | Target | None
"""A target: the name or the index of a class, a span, or a `Target`; None for the model's own answer."""


class CallOptions(TypedDict, total=False):
    """Options of every call for predictions.

    Attributes:
        version: version of the model; 0 for the default, the highest that is loaded.
        truncate: truncate inputs over the model's limits instead of refusing them.
        interventions: changes of attention, for every instance of the call; `scale_heads` and `replace` make them.
    """

    version: int
    truncate: bool
    interventions: Sequence[Intervention]


class PredictOptions(CallOptions, total=False):
    """Options of `predict`.

    Attributes:
        outputs: raw outputs to return; empty for all.
        seed: seed of random choices: one for all instances, or a list with one for each instance. None keeps an
            instance's own seed.
        generation: options for generating models.
        max_classes: maximum number of classes of an instance (for tagging: of an entry; for boxes: of boxes), most
            probable first; 0 for all.
        hidden: hidden states to return as `Prediction.hidden`; None for none.
    """

    outputs: Strings
    seed: Seeds
    generation: Generation | None
    max_classes: int
    hidden: Hidden | None


class AttendOptions(PredictOptions, total=False):
    """Options of `attend`: those of `predict`, and the fields of `Attention`."""

    maps: Strings
    layers: Integers
    heads: Integers
    queries: Integers
    keys: Integers
    selections: Sequence[Selection]
    quantity: Literal["weights", "scores", "norms", "values"]
    reduce: Literal["mean", "max"] | None
    rollout: bool
    key_groups: Groupings
    query_groups: Groupings
    pool: int | Pool | None
    top_k: int
    encoding: Literal["float32", "float16", "uint8"]
    sequences: int
    max_response_bytes: int


class ExplainOptions(CallOptions, total=False):
    """Options of `explain`.

    Attributes:
        target: what is explained: the name or the index of a class, a span, or a `Target`; None for the model's own
            answer.
        units: "words", "sentences", "lines", "tokens", "patches", "nodes" or "frames", or given units: groups by name
            (`limelight.groups`), or a `Grouping` for groups of one label set. Empty for those that fit the input.
        unit_size: cells along a side of a patch, or frames of a part; 0 for the smallest that gives at most 64 units.
        unit_inputs: only units of these inputs, such as "pair.first"; empty for all.
        ways: "attention", "rollout", "look_away", "look_only", "erase" and "erase_others"; empty for attention and
            look_away, or erase where no map takes a factor.
        maps, layers, heads, queries, selections: whose attention counts, and maps and heads that look away; empty for
            all.
        seed, generation, max_classes: as of `predict`, for the model's own answer.
    """

    target: Explained
    units: str | Groups | Grouping
    unit_size: int
    unit_inputs: Strings
    ways: Strings
    maps: Strings
    layers: Integers
    heads: Integers
    queries: Integers
    selections: Sequence[Selection]
    seed: Seeds
    generation: Generation | None
    max_classes: int


class ManyOptions(TypedDict, total=False):
    """Options of `predict_many` and `attend_many`.

    Attributes:
        batch_size: largest number of instances of a call, 32 by default.
        concurrency: number of calls at the same time, 4 by default.
        progress: True for a bar (tqdm); or a function of the number of finished instances and of all, None if unknown.
        timeout: time limit of each call in seconds.
    """

    batch_size: int
    concurrency: int
    progress: bool | Callable[[int, int | None], object]
    timeout: float | None


class PredictManyOptions(PredictOptions, ManyOptions, total=False):
    """Options of `predict_many`: those of `predict`, and of `ManyOptions`."""


class AttendManyOptions(AttendOptions, ManyOptions, total=False):
    """Options of `attend_many`: those of `attend`, and of `ManyOptions`."""


class GenerateOptions(CallOptions, total=False):
    """Options of `generate`: the fields of `Generation`, `seed`, and `attention` for weights with each token."""

    seed: int | None
    attention: Attention | None
    strategy: Literal["greedy", "sample", "beam"]
    temperature: float | None
    top_k: int
    top_p: float | None
    max_new_tokens: int
    stop: Strings
    beams: int
    length_penalty: float | None
    hypotheses: int
    continue_target: bool
    top_logprobs: int


class TokenizeOptions(TypedDict, total=False):
    """Options of `tokenize`.

    Attributes:
        version: version of the model; 0 for the default, the highest that is loaded.
        truncate: truncate texts over the model's limits instead of refusing them.
    """

    version: int
    truncate: bool


_GENERATION = frozenset(field.name for field in fields(Generation))
_OPTIONS = {
    "predict": PredictOptions.__optional_keys__,
    "attend": AttendOptions.__optional_keys__,
    "attend_stream": AttendOptions.__optional_keys__ - {"hidden"},
    "explain": ExplainOptions.__optional_keys__,
    "generate": GenerateOptions.__optional_keys__,
    "predict_many": PredictManyOptions.__optional_keys__,
    "attend_many": AttendManyOptions.__optional_keys__,
    "tokenize": TokenizeOptions.__optional_keys__,
}


def check_options(method: str, given: Iterable[str]) -> None:
    """Refuse options that a method lacks.

    Raises:
        TypeError: names the first of them, and where it belongs or what it is most similar to.
    """
    known = _OPTIONS[method]
    for name in given:
        if name in known:
            continue
        if name in _GENERATION and "generation" in known:
            raise TypeError(f"{method}() has no option {name!r}; pass generation=limelight.Generation({name}=…)")
        if name in _OPTIONS["attend"] - _OPTIONS["predict"]:
            where = f"pass attention=limelight.Attention({name}=…)" if "attention" in known else "attend() has it"
            raise TypeError(f"{method}() has no option {name!r}; {where}")
        check_keywords([name], [*known, "timeout"], f"{method}()")


Instances = Inputs | values_pb2.Instance | Sequence[Inputs | values_pb2.Instance]


def predict_request(
    model: str,
    inputs: Instances,
    *,
    version: int = 0,
    truncate: bool = False,
    interventions: Sequence[Intervention] = (),
    outputs: Strings = (),
    seed: Seeds = None,
    generation: Generation | None = None,
    max_classes: int = 0,
    hidden: Hidden | None = None,
) -> service_pb2.PredictRequest:
    """Build a request for predictions."""
    return service_pb2.PredictRequest(
        model=model_message(model, version),
        instances=_instances(inputs, seed, interventions),
        truncate=truncate,
        outputs=_strings(outputs, "outputs"),
        generation=generation.message() if generation else None,
        max_classes=max_classes,
        hidden=hidden.message() if hidden else None,
    )


def attend_request(
    kind: type[_Attending],
    model: str,
    inputs: Instances,
    *,
    version: int = 0,
    truncate: bool = False,
    interventions: Sequence[Intervention] = (),
    outputs: Strings = (),
    seed: Seeds = None,
    generation: Generation | None = None,
    max_classes: int = 0,
    hidden: Hidden | None = None,
    **attention: Any,
) -> _Attending:
    """Build a request for predictions with attention, in one answer or in chunks.

    Args:
        attention: fields of `Attention`.
    """
    return kind(
        model=model_message(model, version),
        instances=_instances(inputs, seed, interventions),
        truncate=truncate,
        outputs=_strings(outputs, "outputs"),
        generation=generation.message() if generation else None,
        max_classes=max_classes,
        attention=Attention(**attention).options(),
        **({"hidden": hidden.message()} if hidden else {}),
    )


def explain_request(
    model: str,
    inputs: Instances,
    *,
    version: int = 0,
    truncate: bool = False,
    interventions: Sequence[Intervention] = (),
    seed: Seeds = None,
    generation: Generation | None = None,
    max_classes: int = 0,
    target: Explained = None,
    units: str | Groups | Grouping = "",
    unit_size: int = 0,
    unit_inputs: Strings = (),
    ways: Strings = (),
    selections: Sequence[Selection] = (),
    **selection: Any,
) -> service_pb2.ExplainRequest:
    """Build a request for explanations; `selection` are fields of one `Selection`."""
    options = service_pb2.UnitOptions(size=unit_size, inputs=_strings(unit_inputs, "unit_inputs"))
    if isinstance(units, str) and units:
        options.kind = number_of(service_pb2.UnitKind, units, what="units")
    elif not isinstance(units, str):
        for grouping in grouping_messages(units, "units"):
            options.groups.extend(grouping.groups)
            options.label_set = grouping.label_set
    if target is not None and not isinstance(target, Target):
        kind = "label" if isinstance(target, str) else "index" if isinstance(target, int) else "span"
        target = Target(**{kind: target})  # type: ignore[arg-type]
    return service_pb2.ExplainRequest(
        model=model_message(model, version),
        instances=_instances(inputs, seed, interventions),
        truncate=truncate,
        generation=generation.message() if generation else None,
        max_classes=max_classes,
        target=target.message() if target is not None else None,
        units=options,
        ways=[number_of(service_pb2.Way, each, what="a way") for each in _strings(ways, "ways")],
        selections=_selections(Selection(**selection).message(), selections),
    )


def generate_request(
    model: str,
    inputs: Inputs | values_pb2.Instance,
    *,
    version: int = 0,
    truncate: bool = False,
    interventions: Sequence[Intervention] = (),
    seed: int | None = None,
    attention: Attention | None = None,
    **generation: Any,
) -> service_pb2.GenerateRequest:
    """Build a request for one sequence; `generation` are fields of `Generation`."""
    return service_pb2.GenerateRequest(
        model=model_message(model, version),
        instance=with_interventions(_seeded(to_instance(inputs, "instance"), seed), interventions),
        truncate=truncate,
        generation=Generation(**generation).message(),
        attention=attention.options() if attention else None,
    )


def tokenize_request(
    model: str, inputs: Instances, *, version: int = 0, truncate: bool = False
) -> service_pb2.TokenizeRequest:
    """Build a request for tokens."""
    return service_pb2.TokenizeRequest(
        model=model_message(model, version), instances=_instances(inputs, None, ()), truncate=truncate
    )


def model_message(name: str, version: int = 0) -> values_pb2.Model:
    """Build the model reference of a call. Raises InputError for a name that cannot be sent."""
    return values_pb2.Model(name=check_string(name, "model.name"), version=version)


def _instances(inputs: Instances, seed: Seeds, interventions: Sequence[Intervention]) -> list[values_pb2.Instance]:
    several = inputs if isinstance(inputs, Sequence) else [inputs]
    instances = [to_instance(each, f"instances[{number}]") for number, each in enumerate(several)]
    seeds = seed if isinstance(seed, Sequence) else [seed] * len(instances)
    if len(seeds) != len(instances):
        raise InputError(
            f"{counted(len(seeds), 'seed')} for {counted(len(instances), 'instance')}: give one, or as many as there "
            "are instances"
        )
    seeded = [_seeded(*each) for each in zip(instances, seeds, strict=True)]
    return [with_interventions(each, interventions) for each in seeded]


def _seeded(instance: values_pb2.Instance, seed: int | None) -> values_pb2.Instance:
    """Set the seed of an instance unless `seed` is None. The caller's message is not changed."""
    if seed is None:
        return instance
    if not 0 <= seed < 1 << 64:
        raise InputError(f"a seed is from 0 to 2**64 - 1, not {seed}")
    seeded = values_pb2.Instance()
    seeded.CopyFrom(instance)
    seeded.seed = seed
    return seeded


def _selections(one: attention_pb2.MapSelection, several: Sequence[Selection]) -> list[attention_pb2.MapSelection]:
    """Return several selections, or the one whose fields are given instead."""
    selections = [each.message() for each in several]
    if one.ByteSize():
        if selections:
            raise ValueError("give either `selections` or the fields of one selection")
        return [one]
    return selections


def _strings(value: Strings, field: str) -> Sequence[str]:
    return [check_string(value, field)] if isinstance(value, str) else check_strings(value, field)


def _integers(value: Integers) -> Sequence[int]:
    return [value] if isinstance(value, int) else value
