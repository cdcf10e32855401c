"""What every door asks of the core: a model by what it gives, and the answers of rows with what rides along."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Generic, TypeVar

import orjson
from google.protobuf import json_format

from limelight.v1 import attention_pb2
from limelight_bundle.errors import InputError, TooLargeError
from limelight_bundle.rows import Labels
from limelight_service.codecs.answers import LabelEncoder, check_size
from limelight_service.codecs.doors.fields import Form
from limelight_service.codecs.doors.rows import Gives, Rows
from limelight_service.codecs.explanations import explanation_message
from limelight_service.codecs.json.writing import LARGEST, JsonWriter, label_set, written
from limelight_service.codecs.messages import MOST_OPTIONS, Attention
from limelight_service.errors import WrongModelError
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import AnswerEncoder, CallRequest, CheckedCall, Inference, Prediction, Tokenized
from limelight_service.frontend.core import Core
from limelight_service.frontend.explaining.asked import Asked
from limelight_service.frontend.explaining.explain import explain
from limelight_service.frontend.explaining.explanation import Explanation
from limelight_service.frontend.http.methods import HttpRequest, HttpResponse
from limelight_service.frontend.models import Model
from limelight_service.frontend.options import CallOptions

T = TypeVar("T")

_TOKENS = attention_pb2.LABEL_KIND_TOKENS
_LARGE = 16 * 1024  # bytes from which a request is read on a thread
_MANY, _LARGE_ANSWER = 256, 2**18  # answers, and bytes of them, above which they are written on a thread


@dataclass(frozen=True)
class Answered(Generic[T]):
    """The answer to one row. value: what the door read of it. tokens: that the model read. size: bytes of all of it.
    attention, explanation: JSON; None where they are not asked for.
    """

    value: T
    tokens: int
    size: int = 0
    attention: bytes | None = None
    explanation: bytes | None = None


@dataclass(frozen=True)
class _Parts(Generic[T]):
    """Answers to the rows of a call, which is as long as their bytes."""

    answers: Sequence[Answered[T]]

    def __len__(self) -> int:
        return _size(self.answers)


def _size(answers: Sequence[Answered[Any]]) -> int:
    return sum([each.size for each in answers])


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
            fitting = self.fitting(gives, call)
            if len(fitting) != 1:
                several = f"is missing; it can be {', '.join(fitting)}"
                raise InputError("model", several) if fitting else WrongModelError(f"no model here {gives.what}")
            (named,) = fitting
        name, _, version = named.rpartition("@") if "@" in named else (named, "", "0")
        if not version.isdecimal() or len(version) > 9:
            raise InputError("model", f"states the version {version[:20]!r}; it is a whole number, as in {name[:64]}@1")
        model = self.core.find(name, int(version), call)
        if not gives.of(model.schema):
            fitting = self.fitting(gives, call)
            there = f"; those that do: {', '.join(fitting)}" if fitting else "; no model here does"
            raise WrongModelError(f"{model.schema.name} is no model that {gives.what}{there}")
        return model

    def preferred(self, named: str | None, best: Gives, gives: Gives, call: Call) -> Model:
        """Find the model of a request; without a name, of those that give the best where there are any. As `model`."""
        return self.model(named, best if named is None and self.fitting(best, call) else gives, call)

    def fitting(self, gives: Gives, call: Call) -> list[str]:
        """Name the models that give something, of those that the caller may know of."""
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
        wanted = options or _PLAIN
        if attention.options is not None:
            wanted = self.options(wanted, attention)
        request = CallRequest(model, 0, rows, self.encode_labels, wanted)
        call.limit = LARGEST
        encoder, most = _encoder(read), self.core.settings.max_instances
        try:
            if asked is not None:
                return await self._explained(request, asked, read, call)
            if len(rows) <= most:
                return (await self.core.answer(request, encoder, call)).answers
            return await self._in_parts(request, rows, most, encoder, call)
        except InputError as error:
            raise _told(error, rows, given) from error

    async def _in_parts(
        self, request: CallRequest, rows: Rows, most: int, encoder: "AnswerEncoder[_Parts[T]]", call: Call
    ) -> Sequence[Answered[T]]:
        """Have rows answered part by part, between which other calls get their turn; all are counted at first.

        Raises: LimelightError of every kind.
        """
        found, size, limit = list[Answered[T]](), 0, self.core.settings.max_response_bytes
        for start in range(0, len(rows), most):
            counted = 0 if start else len(rows)
            part = replace(request, instances=rows[start : start + most], counted=counted)
            before = call.durations
            call.durations = {}
            answered = await self.core.answer(part, encoder, call)
            call.durations = {name: before.get(name, 0) + each for name, each in call.durations.items()}
            found += answered.answers
            size += len(answered)
            if size > limit:
                needed = f"need an answer of {size} bytes or more; at most {limit} are allowed"
                raise TooLargeError(rows.paths[0][:1], needed)
        return found

    async def tokens(self, model: Model, rows: Rows, write: Callable[[Labels], bytes], call: Call) -> list[Tokenized]:
        """Have the text of every row cut into tokens. write: a label set of tokens. Raises: LimelightError."""
        found, most = list[Tokenized](), self.core.settings.max_instances
        try:
            for start in range(0, len(rows), most):
                part = rows[start : start + most]
                request = CallRequest(model.schema.name, model.schema.version, part, lambda _, labels: write(labels))
                found += await self.core.tokenize(request, call)
        except InputError as error:
            raise _told(error, rows, {}) from error
        return found

    def check(self, attention: Attention, asked: Asked | None, call: Call) -> None:
        """Check what rides along against the caller's rights. Raises: ForbiddenError, InputError."""
        if attention.options is not None:
            call.caller.check_method("Attend")
        if asked is not None:
            call.caller.check_method("Explain")
            if attention.options is not None:
                raise InputError("explain", "does not go with attention; send one of the two")

    async def response(self, answer: Any, answers: Sequence[Answered[Any]], call: Call) -> HttpResponse:
        """Give an answer with what rides along, which `with_beside` writes: a large one on a thread."""
        make = partial(with_beside, answer, answers)
        is_large = len(answers) > _MANY or sum([each.size for each in answers]) > _LARGE_ANSWER
        return HttpResponse([await self.core.on_thread(make, call) if is_large else make()])

    async def _explained(
        self, request: CallRequest, asked: Asked, read: Callable[[CheckedCall, Prediction], tuple[T, int]], call: Call
    ) -> list[Answered[T]]:
        found = await explain(self.core, request, asked, call)

        def one(explanation: Explanation) -> Answered[T]:
            answered, data = _answered(read, found.checked, explanation.prediction), _explanation(explanation)
            return replace(answered, explanation=data, size=answered.size + len(data))

        made: list[Answered[T]] = await self.core.made(
            found.checked, lambda: [one(each) for each in found.explanations], call
        )
        check_size(sum([len(each.explanation or b"") for each in made]), found.checked)
        self.core.hold_answer(2 * _size(made), call)
        return made


_PLAIN = CallOptions(outputs=())


def _told(error: InputError, rows: Rows, given: Mapping[str, Any]) -> InputError:
    """Make an error of instances one of the door's fields: a row is its value, and truncation may be no field."""
    path, message = error.path, error.message
    path = next((each for each in rows.paths if path[: len(each) + 1] == (*each, "inputs")), path)
    if path[:1] == ("instances",):
        path = rows.paths[0][:1]
    return type(error)(path, message if "truncate" in given else message.removesuffix(" or set truncate"))


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
    tokens = tokens_of(prediction)
    if checked.plan is None:
        return Answered(value, tokens, size)
    attention = attended(checked, prediction)
    return Answered(value, tokens, size + len(attention), attention)


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


def usage(answers: Sequence[Answered[Any]]) -> dict[str, int]:
    """Count the tokens that a model read."""
    tokens = sum([each.tokens for each in answers])
    return {"prompt_tokens": tokens, "total_tokens": tokens}
