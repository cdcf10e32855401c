"""Results: how a model's outputs become what a caller reads."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from limelight.base.enums import number_of
from limelight.v1 import model_pb2, values_pb2
from limelight_bundle.chat.template import CHAT_TEMPLATE_FILE, ChatTemplate
from limelight_bundle.v1 import bundle_pb2
from limelight_models.cards.inputs import TextInput, Tokenizer
from limelight_models.cards.labels import LabelSet, output_steps

# Score of a token that is never put out: far below those of models, and within the range of float16.
NEVER = -1e4


class Result(ABC):
    """One result, by its name in an answer. Each kind is a frozen dataclass."""

    @property
    @abstractmethod
    def task(self) -> model_pb2.Task:
        """The task of a model with this result."""

    @property
    @abstractmethod
    def output(self) -> model_pb2.OutputDescription:
        """The raw output that it is read from."""

    @property
    def outputs(self) -> Sequence[model_pb2.OutputDescription]:
        """Every raw output that it is read from."""
        return [self.output]

    @abstractmethod
    def describe(self) -> model_pb2.ResultDescription:
        """As a description has it."""

    @property
    def label_sets(self) -> Sequence[LabelSet]:
        """Label sets of its own."""
        return ()

    @property
    def files(self) -> Mapping[str, str]:
        """Files of its own."""
        return {}

    @property
    def written(self) -> "Written | None":
        """Itself, where it is put out step by step."""
        return None


@dataclass(frozen=True, kw_only=True)
class Classes(Result):
    """Scores of classes -> probabilities: of the instance, or of each entry of the label set `over` (tagging a
    text, segmenting a picture).

    activation: softmax for one of the classes, sigmoid for any number of them, identity where the model itself gives
    probabilities. scores: name of the output. words: of tokens, whether each word has the classes of its first token.
    token_id: only tokens with this id have classes. entries: the label set whose entries are the classes, where the
    model points at its input. distinct: whether no two of `over` point at one entry; one that does ends the answer.
    """

    labels: Sequence[str] = ()
    name: str = "class"
    scores: str = "logits"
    activation: Literal["softmax", "sigmoid", "identity"] = "softmax"
    over: LabelSet | None = None
    words: bool = False
    token_id: int | None = None
    entries: LabelSet | None = None
    distinct: bool = False

    @property
    def task(self) -> model_pb2.Task:
        if self.over is not None:
            return model_pb2.TASK_TAGGING
        return model_pb2.TASK_MULTI_LABEL if self.activation == "sigmoid" else model_pb2.TASK_CLASSIFICATION

    @property
    def output(self) -> model_pb2.OutputDescription:
        rows = [] if self.over is None else [self.over.axis]
        classes = self.entries.axis if self.entries else model_pb2.Dimension(name="class", size=len(self.labels))
        return model_pb2.OutputDescription(
            name=self.scores,
            data_type=values_pb2.DATA_TYPE_FLOAT32,
            dimensions=[*rows, classes],
            summary=f"Scores of the {'entries' if self.entries else 'classes'}, before {self.activation}.",
        )

    def describe(self) -> model_pb2.ResultDescription:
        activation = number_of(model_pb2.Activation, self.activation, what="an activation")
        over = "" if self.over is None else self.over.name
        classes = model_pb2.ClassesDescription(
            output=self.scores,
            labels=self.labels,
            activation=activation,
            label_set=over,
            words=self.words,
            token_id=self.token_id,
            class_label_set=self.entries.name if self.entries else "",
            distinct=self.distinct,
        )
        return model_pb2.ResultDescription(name=self.name, classes=classes)

    @property
    def label_sets(self) -> Sequence[LabelSet]:
        return [each for each in (self.over, self.entries) if each]


@dataclass(frozen=True, kw_only=True)
class Numbers(Result):
    """Numbers of a regression. targets: name -> unit, in order; an empty unit for none. values: name of the output."""

    targets: Mapping[str, str]
    name: str = "numbers"
    values: str = "values"

    @property
    def task(self) -> model_pb2.Task:
        return model_pb2.TASK_REGRESSION

    @property
    def output(self) -> model_pb2.OutputDescription:
        return model_pb2.OutputDescription(
            name=self.values,
            data_type=values_pb2.DATA_TYPE_FLOAT32,
            dimensions=[model_pb2.Dimension(name="number", size=len(self.targets))],
            summary="The numbers.",
        )

    def describe(self) -> model_pb2.ResultDescription:
        targets = [model_pb2.Target(name=name, unit=unit) for name, unit in self.targets.items()]
        regression = model_pb2.RegressionDescription(output=self.values, targets=targets)
        return model_pb2.ResultDescription(name=self.name, regression=regression)


@dataclass(frozen=True, kw_only=True)
class Vector(Result):
    """A vector of `size` features. vector: name of the output."""

    size: int
    summary: str = "The vector."
    name: str = "embedding"
    vector: str = "vector"

    @property
    def task(self) -> model_pb2.Task:
        return model_pb2.TASK_EMBEDDING

    @property
    def output(self) -> model_pb2.OutputDescription:
        return model_pb2.OutputDescription(
            name=self.vector,
            data_type=values_pb2.DATA_TYPE_FLOAT32,
            dimensions=[model_pb2.Dimension(name="feature", size=self.size)],
            summary=self.summary,
        )

    def describe(self) -> model_pb2.ResultDescription:
        return model_pb2.ResultDescription(name=self.name, embedding=model_pb2.EmbeddingDescription(output=self.vector))


@dataclass(frozen=True, kw_only=True)
class TokenVectors(Result):
    """A vector of `size` features and length 1 for each token of the label set `over`. vectors: name of the output."""

    over: LabelSet
    size: int
    name: str = "token_vectors"
    vectors: str = "vectors"

    @property
    def task(self) -> model_pb2.Task:
        return model_pb2.TASK_EMBEDDING

    @property
    def output(self) -> model_pb2.OutputDescription:
        return model_pb2.OutputDescription(
            name=self.vectors,
            data_type=values_pb2.DATA_TYPE_FLOAT32,
            dimensions=[self.over.axis, model_pb2.Dimension(name="feature", size=self.size)],
            summary="A vector of length 1 for each token.",
        )

    @property
    def label_sets(self) -> Sequence[LabelSet]:
        return [self.over]

    def describe(self) -> model_pb2.ResultDescription:
        described = model_pb2.TokenVectorsDescription(output=self.vectors, label_set=self.over.name)
        return model_pb2.ResultDescription(name=self.name, token_vectors=described)


@dataclass(frozen=True, kw_only=True)
class Spans(Result):
    """Spans of a text, from scores of their first and of their last token.

    over: the tokens. part: of a pair, the text that holds the spans. start, end: names of the outputs.
    first_token_is_none: whether the first token of the row stands for "no span answers".
    """

    over: LabelSet
    part: Literal["", "first", "second"] = ""
    name: str = "answer"
    start: str = "start_scores"
    end: str = "end_scores"
    first_token_is_none: bool = False

    @property
    def task(self) -> model_pb2.Task:
        return model_pb2.TASK_SPANS

    @property
    def output(self) -> model_pb2.OutputDescription:
        return self._scores(self.start, "first")

    @property
    def outputs(self) -> Sequence[model_pb2.OutputDescription]:
        return [self.output, self._scores(self.end, "last")]

    def _scores(self, name: str, which: str) -> model_pb2.OutputDescription:
        return model_pb2.OutputDescription(
            name=name,
            data_type=values_pb2.DATA_TYPE_FLOAT32,
            dimensions=[self.over.axis],
            summary=f"The score of each token as the {which} token of a span, before softmax.",
        )

    def describe(self) -> model_pb2.ResultDescription:
        spans = model_pb2.SpansDescription(
            start_output=self.start,
            end_output=self.end,
            label_set=self.over.name,
            part=self.part,
            first_token_is_none=self.first_token_is_none,
        )
        return model_pb2.ResultDescription(name=self.name, spans=spans)

    @property
    def label_sets(self) -> Sequence[LabelSet]:
        return [self.over]


@dataclass(frozen=True, kw_only=True)
class Boxes(Result):
    """Objects in a picture: each query finds one, or none (Carion et al. 2020).

    labels: of the classes; the scores have one more, that of no object. over: the queries, by name. grid: cells of the
    picture that the model reads. scores, boxes: names of the outputs. threshold: a box has a probability above it.
    """

    labels: Sequence[str]
    over: LabelSet
    grid: LabelSet
    name: str = "objects"
    scores: str = "logits"
    boxes: str = "boxes"
    threshold: float = 0.5

    @property
    def task(self) -> model_pb2.Task:
        return model_pb2.TASK_DETECTION

    @property
    def output(self) -> model_pb2.OutputDescription:
        return self._of_queries(self.scores, "class", len(self.labels) + 1, "Scores of the classes, before softmax.")

    @property
    def outputs(self) -> Sequence[model_pb2.OutputDescription]:
        summary = "Centre x, centre y, width and height, as parts of the picture's."
        return [self.output, self._of_queries(self.boxes, "number", 4, summary)]

    def _of_queries(self, name: str, axis: str, size: int, summary: str) -> model_pb2.OutputDescription:
        return model_pb2.OutputDescription(
            name=name,
            data_type=values_pb2.DATA_TYPE_FLOAT32,
            dimensions=[
                model_pb2.Dimension(name=self.over.name, size=len(self.over.names)),
                model_pb2.Dimension(name=axis, size=size),
            ],
            summary=summary,
        )

    def describe(self) -> model_pb2.ResultDescription:
        boxes = model_pb2.BoxesDescription(
            scores_output=self.scores,
            boxes_output=self.boxes,
            labels=self.labels,
            label_set=self.over.name,
            grid=self.grid.name,
            threshold=self.threshold,
        )
        return model_pb2.ResultDescription(name=self.name, boxes=boxes)

    @property
    def label_sets(self) -> Sequence[LabelSet]:
        return [self.over, self.grid]


@dataclass(frozen=True, kw_only=True)
class State:
    """A decoder's state, read as `input` and returned as `output`; the encoder's `start` comes first.

    cache: instead of a start, heads and size of what is kept of each token: `input` is [batch, head, token, size],
    `output` the newest token's own [batch, head, 1, size].
    """

    input: str
    output: str
    start: str = ""
    cache: tuple[int, int] | None = None

    def describe(self) -> bundle_pb2.State:
        """As a bundle has it."""
        if self.cache is None:
            return bundle_pb2.State(input=self.input, output=self.output, encoder_output=self.start)
        heads, size = self.cache
        axes = [model_pb2.Dimension(name="head", size=heads), model_pb2.Dimension(name="entry")]
        zeros = model_pb2.TensorDescription(
            data_type=values_pb2.DATA_TYPE_FLOAT32, dimensions=[*axes, model_pb2.Dimension(name="size", size=size)]
        )
        return bundle_pb2.State(input=self.input, output=self.output, zeros=zeros, growing_axis=2)


def carried_states(*names: str) -> list[State]:
    """States that go from step to step as `<name>` and `next_<name>`, and begin as the encoder's `initial_<name>`."""
    return [State(input=name, output=f"next_{name}", start=f"initial_{name}") for name in names]


def cached_states(layers: int, heads: int, d_model: int) -> list[State]:
    """The cached keys and values of a decoder's layers: `keys.<layer>` and `values.<layer>`, by heads."""
    cache = (heads, d_model // heads)
    return cached(layers, keys=cache, values=cache)


def cached(layers: int, **kinds: tuple[int, int]) -> list[State]:
    """What a decoder's layers keep of each token as `<kind>.<layer>`: heads and size of each kind."""
    return [
        State(input=f"{kind}.{number}", output=f"next_{kind}.{number}", cache=cache)
        for number in range(layers)
        for kind, cache in kinds.items()
    ]


@dataclass(frozen=True, kw_only=True)
class Written(Result):
    """Tokens put out one by one: their scores, what goes from step to step, and where it begins and ends.

    steps: the label set of what is put out. target, target_tensor: the optional input that forces the output, and its
    tensor. position: what the decoder calls the place of the token that it takes, where it wants to know. prompt: the
    input that goes in before anything is put out, read at once; a decoder without one has an encoder.
    starts_with_prompt: the begin token is not put in front of the prompt. more_ends: tokens that end a sequence, beside
    `end`. steps_before_target: steps in front of a target, whose tokens the model chooses; `end` then follows it.
    has_lens: the network reads tokens from hidden states. chat: how conversations are written as prompts.
    """

    steps: LabelSet
    tokenizer: Tokenizer
    begin: int
    end: int
    max_new_tokens: int
    states: Sequence[State] = field(default_factory=tuple)
    target: str = "target"
    target_tensor: str = "target_ids"
    name: str = "text"
    scores: str = "scores"
    position: str = ""
    prompt: TextInput | None = None
    starts_with_prompt: bool = False
    more_ends: Sequence[int] = ()
    steps_before_target: int = 0
    has_lens: bool = False
    chat: ChatTemplate | None = None

    @classmethod
    def by(cls, config: Any, tokenizer: Tokenizer, **more: Any) -> "Written":
        """Output steps with the `begin`, `end` and `max_new_tokens` of a config. more: other fields."""
        limits = {name: getattr(config, name) for name in ("begin", "end", "max_new_tokens")}
        return cls(steps=output_steps(), tokenizer=tokenizer, **limits, **more)

    @property
    def task(self) -> model_pb2.Task:
        return model_pb2.TASK_GENERATION

    @property
    def written(self) -> "Written | None":
        return self

    @property
    def output(self) -> model_pb2.OutputDescription:
        return model_pb2.OutputDescription(
            name=self.scores,
            data_type=values_pb2.DATA_TYPE_FLOAT32,
            dimensions=[
                model_pb2.Dimension(name=self.steps.name),
                model_pb2.Dimension(name="token", size=self.tokenizer.vocabulary),
            ],
            summary="Scores of every token at each step, before softmax.",
        )

    @property
    def label_sets(self) -> Sequence[LabelSet]:
        return [self.steps]

    @property
    def files(self) -> Mapping[str, str]:
        chat = {CHAT_TEMPLATE_FILE: self.chat.source} if self.chat else {}
        return {self.tokenizer.file: self.tokenizer.text, **chat}

    def describe(self) -> model_pb2.ResultDescription:
        sequence = model_pb2.SequenceDescription(
            label_set=self.steps.name,
            target_input=self.target,
            max_new_tokens=self.max_new_tokens,
            chat=self.chat is not None,
        )
        return model_pb2.ResultDescription(name=self.name, sequence=sequence)

    def generation(self) -> bundle_pb2.Generation:
        """Its step-by-step generation, in the form of a bundle."""
        return bundle_pb2.Generation(
            encoder="" if self.prompt else "encoder",
            prefill="prefill" if self.prompt else "",
            step="step",
            lens="lens" if self.has_lens else "",
            token_input="token",
            scores_output=self.scores,
            states=[each.describe() for each in self.states],
            begin_token=self.begin,
            end_token=self.end,
            tokenizer=self.tokenizer.file,
            max_new_tokens=self.max_new_tokens,
            target_tensor=self.target_tensor,
            positions_input=self.position,
            lengths_input=self.position,
            prompt_tensor=self.prompt.tensor if self.prompt else "",
            starts_with_prompt=self.starts_with_prompt,
            more_end_tokens=self.more_ends,
            steps_before_target=self.steps_before_target,
            chat_template=CHAT_TEMPLATE_FILE if self.chat else "",
            chat_tokens=self.chat.tokens if self.chat else {},
        )
