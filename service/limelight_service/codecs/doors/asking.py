"""What every door asks of the core: a model by what it gives, and the answers of rows with what rides along."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Generic, TypeVar

import orjson
from google.protobuf import json_format

from limelight.v1 import attention_pb2
from limelight.v1 import service_pb2 as pb
from limelight_bundle.errors import InputError, Path
from limelight_service.codecs.answers import LabelEncoder, check_size
from limelight_service.codecs.doors.fields import Field, Form, Kind
from limelight_service.codecs.doors.rows import Rows
from limelight_service.codecs.explanations import asked_of, explanation_message
from limelight_service.codecs.json.reading import members, read_message
from limelight_service.codecs.json.writing import JsonWriter, label_set, written
from limelight_service.codecs.messages import MOST_OPTIONS, NO_ATTENTION, Attention, attention_of
from limelight_service.errors import WrongModelError
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import AnswerEncoder, CallRequest, CheckedCall, Inference, Prediction
from limelight_service.frontend.core import Core
from limelight_service.frontend.explaining.asked import Asked
from limelight_service.frontend.explaining.explain import explain
from limelight_service.frontend.explaining.explanation import Explanation
from limelight_service.frontend.http.methods import HttpRequest
from limelight_service.frontend.models import Model
from limelight_service.frontend.options import CallOptions
from limelight_service.frontend.schema import ModelSchema

T = TypeVar("T")

_TOKENS = attention_pb2.LABEL_KIND_TOKENS
_LARGE = 16 * 1024  # bytes from which a request is read on a thread
_EXPLAIN = ("target", "units", "ways", "selections")


def _read_attention(value: Any, path: Path) -> Attention:
    return attention_of(read_message(attention_pb2.AttentionOptions, value, path), is_large=True)


def _read_explain(value: Any, path: Path) -> Asked:
    given = members(pb.ExplainRequest.DESCRIPTOR, value, path)
    for name in given:
        if name not in _EXPLAIN:
            raise InputError((*path, name), f"is no field here; there are {', '.join(_EXPLAIN)}")
    return asked_of(read_message(pb.ExplainRequest, value, path), None)


_SCHEMA = "#/components/schemas/"
# What rides along: in every request of a door.
ATTENTION = Field("attention", Kind(_read_attention, {"$ref": f"{_SCHEMA}AttentionOptions"}), NO_ATTENTION)
EXPLAIN = Field(
    "explain",
    Kind(
        _read_explain,
        {
            "type": "object",
            "properties": {
                "target": {"$ref": f"{_SCHEMA}ExplainTarget"},
                "units": {"$ref": f"{_SCHEMA}UnitOptions"},
                "ways": {"type": "array", "items": {"type": "string"}},
                "selections": {"type": "array", "items": {"$ref": f"{_SCHEMA}MapSelection"}},
            },
            "additionalProperties": False,
        },
    ),
)
BESIDE = (ATTENTION, EXPLAIN)


@dataclass(frozen=True)
class Gives:
    """What a door needs of a model. what: in words, as "gives embeddings"."""

    what: str
    of: Callable[[ModelSchema], bool]


@dataclass(frozen=True)
class Answered(Generic[T]):
    """The answer to one row. value: what the door read of it. tokens: that the model read. attention, explanation:
    JSON; None where they are not asked for. size: bytes of the value.
    """

    value: T
    tokens: int
    size: int = 0
    attention: bytes | None = None
    explanation: bytes | None = None


class _Parts(list[Answered[T]]):
    """Answers whose length is that of their bytes."""

    def __len__(self) -> int:
        return sum([each.size + len(each.attention or b"") + len(each.explanation or b"") for each in self])


class Doors:
    """Asks the core for every door. For one event loop."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.options = lru_cache(MOST_OPTIONS)(_options)  # so that models find them again
        self.encode_labels = LabelEncoder(label_set)

    async def read(self, form: Form, request: HttpRequest, call: Call) -> dict[str, Any]:
        """Read the fields of a request, of a large one on a thread. Raises: InputError naming the field."""
        if len(request.body) < _LARGE:
            return form.parse(request.body)
        return await self.core.on_thread(partial(form.parse, request.body), call)

    def model(self, named: str | None, gives: Gives, call: Call) -> Model:
        """Find the model of a request, and keep it until the call ends.

        Args:
            named: `NAME` or `NAME@VERSION`; None for the only one that fits.

        Raises: ModelNotFoundError and its neighbours; WrongModelError for one that does not fit, naming those that do.
        """
        if named is None:
            fitting = self._fitting(gives, call)
            if len(fitting) != 1:
                several = f"is missing; it can be {', '.join(fitting)}"
                raise InputError("model", several) if fitting else WrongModelError(f"no model here {gives.what}")
            (named,) = fitting
        name, _, version = named.rpartition("@") if "@" in named else (named, "", "0")
        if not version.isdecimal() or len(version) > 9:
            raise InputError("model", f"states the version {version[:20]!r}; it is a whole number, as in {name[:64]}@1")
        model = self.core.find(name, int(version), call)
        if not gives.of(model.schema):
            fitting = self._fitting(gives, call)
            there = f"; those that do: {', '.join(fitting)}" if fitting else "; no model here does"
            raise WrongModelError(f"{model.schema.name} is no model that {gives.what}{there}")
        return model

    def _fitting(self, gives: Gives, call: Call) -> list[str]:
        found = self.core.list_models(call)
        return [each.name for each in found if each.is_default and each.model and gives.of(each.model.schema)]

    async def answers(
        self,
        model: Model,
        rows: Rows,
        given: Mapping[str, Any],
        read: Callable[[CheckedCall, Prediction], tuple[T, int]],
        call: Call,
        options: CallOptions | None = None,
    ) -> Sequence[Answered[T]]:
        """Have every row answered: as many at once as a call may have.

        Args:
            given: the fields of the request; `attention` and `explain` among them.
            read: makes a door's value of a prediction, and tells its bytes; on any thread.
            options: of the calls, without attention; None for those of a plain prediction.

        Raises: LimelightError of every kind.
        """
        attention, asked = given["attention"], given["explain"]
        self.check(attention, asked, call)
        wanted = self.options(options or _PLAIN, attention) if attention.options else options or _PLAIN
        most, found = self.core.settings.max_instances, list[Answered[T]]()
        encoder = _encoder(read)
        try:
            for start in range(0, len(rows), most):
                part = rows if len(rows) <= most else rows[start : start + most]
                request = CallRequest(model, 0, part, self.encode_labels, wanted)
                if asked is None:
                    found += await self.core.answer(request, encoder, call)
                else:
                    found += await self._explained(request, asked, read, call)
        except InputError as error:
            if "inputs" not in error.path:
                raise
            raise type(error)(error.path[: error.path.index("inputs")], error.message) from error  # a row is its value
        call.rows = max(call.rows, len(rows))
        return found

    def check(self, attention: Attention, asked: Asked | None, call: Call) -> None:
        """Check what rides along against the caller's rights. Raises: ForbiddenError, InputError."""
        if attention.options is not None:
            call.caller.check_method("Attend")
        if asked is not None:
            call.caller.check_method("Explain")
            if attention.options is not None:
                raise InputError("explain", "does not go with attention; send one of the two")

    async def _explained(
        self, request: CallRequest, asked: Asked, read: Callable[[CheckedCall, Prediction], tuple[T, int]], call: Call
    ) -> list[Answered[T]]:
        found = await explain(self.core, request, asked, call)

        def one(explanation: Explanation) -> Answered[T]:
            answered = _answered(read, found.checked, explanation.prediction)
            return replace(answered, explanation=_explanation(explanation))

        made: list[Answered[T]] = await self.core.made(
            found.checked, lambda: [one(each) for each in found.explanations], call
        )
        check_size(sum([len(each.explanation or b"") for each in made]), found.checked)
        self.core.hold_answer(2 * len(_Parts(made)), call)
        return made


_PLAIN = CallOptions(outputs=())


def _options(options: CallOptions, attention: Attention) -> CallOptions:
    if attention.options is None:
        return options
    return replace(options, attention=attention.options, limit=attention.limit, is_large=attention.is_large)


def _encoder(read: Callable[[CheckedCall, Prediction], tuple[T, int]]) -> "AnswerEncoder[_Parts[T]]":
    def part(checked: CheckedCall, prediction: Prediction) -> Answered[T]:
        return _answered(read, checked, prediction)

    def whole(inference: Inference) -> "_Parts[T]":
        return _Parts(inference.parts)

    return AnswerEncoder(whole, part)


def _answered(
    read: Callable[[CheckedCall, Prediction], tuple[T, int]], checked: CheckedCall, prediction: Prediction
) -> Answered[T]:
    value, size = read(checked, prediction)
    attention = None if checked.plan is None else attended(checked, prediction)
    return Answered(value, tokens_of(prediction), size, attention)


def tokens_of(prediction: Prediction) -> int:
    """Count the tokens of the texts that a model read."""
    return sum([each.size for each in prediction.axes.values() if each.kind == _TOKENS])


def attended(checked: CheckedCall, prediction: Prediction) -> bytes:
    """Write the maps of a prediction with their label sets. Raises: TooLargeError."""
    writer = JsonWriter()
    labels = [writer.labels(each) for each in (*prediction.labels.values(), *prediction.derived_labels)]
    maps = writer.maps(prediction.result.maps, checked.plan)
    check_size(writer.size, checked, "attention", "needs an answer")
    return written({"labelSets": labels, **maps})


def _explanation(explanation: Explanation) -> bytes:
    writer = JsonWriter()
    return written(
        {"units": writer.labels(explanation.units), **json_format.MessageToDict(explanation_message(explanation))}
    )


def beside(answers: Sequence[Answered[Any]]) -> dict[str, Any]:
    """Give what rides along, an entry for each row: the fields `attention` or `explanations`; empty for neither."""
    if answers and answers[0].attention is not None:
        return {"attention": [orjson.Fragment(each.attention or b"null") for each in answers]}
    if answers and answers[0].explanation is not None:
        return {"explanations": [orjson.Fragment(each.explanation or b"null") for each in answers]}
    return {}


def with_beside(answer: Any, answers: Sequence[Answered[Any]]) -> bytes:
    """Write an answer, with what rides along; a list then is the field `answer` of an object."""
    along = beside(answers)
    if not along:
        return written(answer)
    return written({**(answer if isinstance(answer, dict) else {"answer": answer}), **along})
