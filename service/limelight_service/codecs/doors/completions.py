"""OpenAI's completions: a text that follows a prompt, or a translation of a source, whole or as it is written."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from limelight.v1 import service_pb2 as pb
from limelight_bundle.errors import InputError, Path
from limelight_service.codecs.doors import chat
from limelight_service.codecs.doors.asking import Answered, Doors, tokens_of, with_beside
from limelight_service.codecs.doors.beside import BESIDE
from limelight_service.codecs.doors.errors import SERVICE, error_body
from limelight_service.codecs.doors.fields import (
    ANYTHING,
    FLAG,
    MODEL,
    USER,
    Field,
    Form,
    Kind,
    number,
    object_of,
    one_of,
    text,
    unused,
    whole,
)
from limelight_service.codecs.doors.methods import predicting
from limelight_service.codecs.doors.rows import Gives, Late, Rows, Value, takes_texts, text_rows
from limelight_service.codecs.doors.transcripts import Echoes, Piece, Prompt, Transcript, columns
from limelight_service.codecs.json.numbers import shown
from limelight_service.codecs.json.writing import JsonWriter, written
from limelight_service.codecs.messages import LONGEST_STOP, MOST_LOGPROBS, MOST_STOPS, AskedGeneration
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CallRequest, CheckedCall, Prediction, PreparedInstance
from limelight_service.frontend.http.failures import Failure
from limelight_service.frontend.http.methods import HttpEvents, HttpMethod, HttpRequest, HttpResponse
from limelight_service.frontend.models import Model
from limelight_service.frontend.options import CallOptions
from limelight_service.ipc.boundary import FinishReason, GenerationBegun, TokenResult
from limelight_service.ipc.boundary import Sequence as Written

_MOST_TOKENS = 2**20
_MOST_CHOICES = 128
_DEFAULT_TOKENS = 16
_WHOLE_SEED = 2**64
_BYTES_OF_TOKEN = 96  # with its log-probability, and with each of the most probable ones
_WRITES = Gives("writes texts", lambda schema: schema.generates and takes_texts(schema))
_CHATS = Gives("has a chat template", lambda schema: schema.chat is not None and _WRITES.of(schema))


def _read_stop(value: Any, path: Path) -> Sequence[str]:
    stops = value if isinstance(value, list) else [value]
    if len(stops) > MOST_STOPS:
        raise InputError(path, f"has {len(stops)} entries; it takes up to {MOST_STOPS}")
    for place, each in enumerate(stops):
        own = (*path, place) if isinstance(value, list) else path
        if not isinstance(each, str) or not 1 <= len(each) <= LONGEST_STOP:
            raise InputError(own, f"is {shown(each)}; it takes a text of 1 to {LONGEST_STOP} characters")
    return stops


_STOP = {"type": "string", "minLength": 1, "maxLength": LONGEST_STOP}
# Of completions and of chats.
_GENERATION = (
    Field("temperature", number(0, 2), 1.0),
    Field("top_p", number(0, 1), 1.0),
    Field("n", whole(1, _MOST_CHOICES), 1),
    Field("stop", Kind(_read_stop, {"anyOf": [_STOP, {"type": "array", "items": _STOP, "maxItems": MOST_STOPS}]}), ()),
    Field("seed", whole(-(2**63), 2**63 - 1)),
    Field("stream", FLAG, False),
    Field("stream_options", object_of(Form(Field("include_usage", FLAG, False), Field("include_obfuscation", FLAG)))),
    Field("logit_bias", unused({})),
    Field("presence_penalty", unused(0, 0.0)),
    Field("frequency_penalty", unused(0, 0.0)),
    USER,
    *BESIDE,
)
_MAX_TOKENS = whole(1, _MOST_TOKENS)
_FORM = Form(
    MODEL,
    Field("prompt", text_rows(), is_required=True),
    Field("max_tokens", whole(0, _MOST_TOKENS), _DEFAULT_TOKENS),
    Field("logprobs", whole(0, MOST_LOGPROBS)),
    Field("echo", FLAG, False),
    Field("best_of", whole(1, _MOST_CHOICES)),
    Field("suffix", unused("")),
    *_GENERATION,
)

_CHAT_FORM = Form(
    MODEL,
    Field("messages", chat.MESSAGES, is_required=True),
    Field("max_tokens", _MAX_TOKENS),
    Field("max_completion_tokens", _MAX_TOKENS),
    Field("logprobs", FLAG, False),
    Field("top_logprobs", whole(0, MOST_LOGPROBS)),
    Field("response_format", object_of(Form(Field("type", one_of("text"), is_required=True)))),
    Field("tools", unused([])),
    Field("tool_choice", unused("none")),
    Field("functions", unused([])),
    Field("function_call", unused("none")),
    Field("parallel_tool_calls", FLAG),
    Field("modalities", unused(["text"])),
    Field("audio", unused()),
    Field("prediction", unused()),
    Field("reasoning_effort", unused("none")),
    Field("web_search_options", unused()),
    Field("store", unused(False)),
    Field("service_tier", one_of("auto", "default")),
    Field("metadata", ANYTHING),
    Field("safety_identifier", text()),
    Field("prompt_cache_key", text()),
    Field("chat_template", unused()),
    *_GENERATION,
)


@dataclass(frozen=True)
class Style:
    """How an API tells choices. identity: in front of ids. kind, part: the `object` of answers and of chunks.

    choice: of a whole text. delta: of a piece in a stream. first: what a stream begins with; None for nothing.
    """

    identity: str
    kind: str
    part: str
    choice: Callable[[int, Piece, bool], dict[str, Any]]
    delta: Callable[[int, Piece, bool], dict[str, Any]]
    first: Callable[[int], dict[str, Any]] | None = None


@dataclass(frozen=True)
class Asked:
    """A request that was read. values: prompts, each answered `n` times. top: number of most probable tokens to tell
    of; None for no log-probabilities. most: tokens of an answer; 0 for the model's limit. echo: the prompts come first.
    """

    given: Mapping[str, Any]
    model: Model
    values: Sequence[tuple[Value, Path]]
    most: int
    top: int | None
    style: Style
    echo: bool = False
    scored: bool = False  # whether the prompts' tokens are told of, too
    size: int = 0

    def rows(self, prompts: dict[int, Prompt]) -> Rows:
        """Make the rows: each prompt `n` times, with a seed each. prompts: filled with those that are repeated."""
        n, seed = self.given["n"], self.given["seed"]
        values = [each for each in self.values for _ in range(n)]
        rows = Rows.of(values, self.size * n)
        rows.seeds = () if seed is None else [(seed + place % n) % _WHOLE_SEED for place in range(len(values))]
        return Echoes(rows, prompts, scored=self.scored) if self.echo else rows

    def options(self) -> CallOptions:
        """Give the options of the calls, without attention."""
        given = self.given
        sampled = given["temperature"] > 0 and given["top_p"] > 0
        message = pb.GenerationOptions(
            strategy=pb.STRATEGY_SAMPLE if sampled else pb.STRATEGY_GREEDY,
            temperature=given["temperature"],
            top_p=given["top_p"],
            max_new_tokens=self.most,
            stop=given["stop"],
            continue_target=self.scored and self.most > 0,
            top_logprobs=self.top or 0,
        )
        return CallOptions(outputs=(), generation=AskedGeneration(message.SerializeToString()))

    def transcript(self, prompt: Prompt | None) -> Transcript:
        """Begin the text of a row."""
        stop = self.given["stop"]
        wants = self.top is not None
        return Transcript(self.model.schema, stop, wants_tokens=wants, prompt=prompt, scored=self.scored)

    def envelope(self, kind: str, call: Call) -> dict[str, Any]:
        """Give what every answer and chunk has."""
        return {
            "id": f"{self.style.identity}-{call.identity}",
            "object": kind,
            "created": int(time.time()),
            "model": self.given["model"],
            "system_fingerprint": f"fp_{self.model.schema.served.digest[:12]}",
        }


class Completions:
    """The methods that write texts. For one event loop."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def methods(self) -> Sequence[HttpMethod]:
        """List the methods with their paths."""
        method = partial(predicting, SERVICE, error_body)  # of a token that may Predict, and Generate where it streams
        summary = "Continues texts, as OpenAI's API does."
        of_chats = "Answers conversations, as OpenAI's API does."
        return [
            method("/v1/completions", "Completions", summary, _FORM, self.completions, _failed_event),
            method("/v1/chat/completions", "ChatCompletions", of_chats, _CHAT_FORM, self.chat, _failed_event),
        ]

    async def completions(self, request: HttpRequest, call: Call) -> HttpResponse | HttpEvents:
        """Answer every prompt."""
        given = await self._doors.read(_FORM, request, call)
        model = self._doors.model(given["model"], _WRITES, call)
        most, top, echo = given["max_tokens"], given["logprobs"], given["echo"]
        if given["best_of"] not in (None, given["n"]):
            raise InputError("best_of", f"is {given['best_of']}; every text comes back: it may be n, {given['n']}")
        if not most and not echo:
            raise InputError("max_tokens", "is 0; it may be so with echo alone")
        scored = echo and (top is not None or not most)
        schema = model.schema
        if echo and not schema.prompt_tensor:
            raise InputError("echo", f"is true; {schema.name} does not write on behind its prompt")
        if scored and not schema.target_tensor:
            raise InputError("echo", f"does not go with logprobs; no output of {schema.name} can be forced")
        if scored and given["explain"] is not None:
            raise InputError("explain", "does not go with echo and logprobs, which make the prompt an output")
        if (echo or top is not None) and schema.detokenizer is None:
            raise InputError("echo" if echo else "logprobs", f"is there; tokens of {schema.name} have no texts here")
        asked = Asked(given, model, given["prompt"], most, top, _COMPLETION, echo, scored, len(request.body))
        return await self.answer(asked, call)

    async def chat(self, request: HttpRequest, call: Call) -> HttpResponse | HttpEvents:
        """Answer a conversation."""
        call.operation = "chat"
        doors = self._doors
        given = await doors.read(_CHAT_FORM, request, call)
        model = doors.model(given["model"], _CHATS, call)
        top = (given["top_logprobs"] or 0) if given["logprobs"] else None
        if given["top_logprobs"] is not None and top is None:
            raise InputError("top_logprobs", "goes with logprobs true alone")
        most = given["max_completion_tokens"] or given["max_tokens"] or 0
        row = Late(partial(chat.prompt_of, given["messages"]))
        asked = Asked(given, model, [(row, ("messages",))], most, top, _CHAT, size=len(request.body))
        return await self.answer(asked, call)

    async def answer(self, asked: Asked, call: Call) -> HttpResponse | HttpEvents:
        """Answer with whole texts, or with a stream of pieces where the request says so."""
        given = asked.given
        if not given["stream"]:
            if given["stream_options"] is not None:
                raise InputError("stream_options", "goes with stream alone")
            return await self._whole(asked, call)
        call.caller.check_method("Generate")
        self._doors.check(given["attention"], None, call)
        if given["explain"] is not None:
            raise InputError("explain", "does not go with stream")
        count, most = len(asked.values) * given["n"], self._doors.core.settings.max_instances
        if count > most:
            raise InputError("n", f"times the prompts is {count}; at most {most} are streamed at once")
        return HttpEvents(self._stream(asked, call))

    async def _whole(self, asked: Asked, call: Call) -> HttpResponse:
        prompts: dict[int, Prompt] = {}
        answers = await self._doors.answers(
            asked.model, asked.rows(prompts), asked.given, _sequence, call, asked.options()
        )

        def body() -> bytes:
            choice, wants = asked.style.choice, asked.top is not None
            pieces = [asked.transcript(prompts.get(place)).whole(each.value) for place, each in enumerate(answers)]
            return with_beside(
                {
                    **asked.envelope(asked.style.kind, call),
                    "choices": [choice(place, each, wants) for place, each in enumerate(pieces)],
                    "usage": _usage(asked, prompts, answers),
                },
                answers,
            )

        is_small = asked.top is None and not asked.scored
        return HttpResponse([body() if is_small else await self._doors.core.on_thread(body, call)])

    async def _stream(self, asked: Asked, call: Call) -> AsyncGenerator[bytes, None]:
        core, prompts = self._doors.core, dict[int, Prompt]()
        rows, options = asked.rows(prompts), self._doors.options(asked.options(), asked.given["attention"])
        asks_usage = bool(asked.given["stream_options"] and asked.given["stream_options"]["include_usage"])
        envelope = asked.envelope(asked.style.part, call) | ({"usage": None} if asks_usage else {})
        answers: dict[int, Answered[Written]] = {}
        running: dict[int, _Running] = {}
        requests = [
            CallRequest(asked.model, 0, rows[place : place + 1], self._doors.encode_labels, options)
            for place in range(len(rows))
        ]
        async with aclosing(_merged([core.generate(each, call) for each in requests])) as events:
            async for place, event in events:
                if isinstance(event, tuple):
                    checked, prepared, begun = event
                    running[place] = one = _Running(asked, place, prompts.get(place), checked, prepared)
                    parts = one.begin(begun)
                elif isinstance(event, TokenResult):
                    parts = running[place].token(event)
                else:
                    parts = running[place].end(event)
                    answers[place] = running[place].answered(event)
                for part in parts:
                    yield _event({**envelope, **part})
        call.rows = len(rows)
        if asks_usage:
            ordered = [answers[place] for place in range(len(rows))]
            yield _event({**envelope, "choices": [], "usage": _usage(asked, prompts, ordered)})
        yield b"data: [DONE]\n\n"


class _Running:
    """A row of a stream: makes chunks, without what all of them have."""

    def __init__(
        self, asked: Asked, place: int, prompt: Prompt | None, checked: CheckedCall, prepared: PreparedInstance
    ) -> None:
        self._asked, self._place, self._checked, self._prepared = asked, place, checked, prepared
        self._transcript = asked.transcript(prompt)
        self._plan = checked.plan

    def begin(self, begun: GenerationBegun) -> Sequence[dict[str, Any]]:
        """Begin, with the label sets that are known before the first token."""
        piece, labels = self._transcript.begin(), list[Any]()
        first = self._asked.style.first
        found: list[dict[str, Any]] = [{"choices": [first(self._place)]}] if first else []
        if self._plan is not None:
            put_in = [each for each in begun.labels if each.name in self._checked.wanted.labels]
            writer = JsonWriter()
            labels = [*map(writer.labels, self._prepared.labels.values()), *map(writer.labels, put_in)]
        if piece.text or piece.tokens or labels:
            found.append(self._chunk(piece, {"labelSets": labels} if labels else None))
        return found

    def token(self, event: TokenResult) -> Sequence[dict[str, Any]]:
        """Write a token with its row of every map; nothing where no text comes of it yet."""
        piece = self._transcript.add(event.token_id, event.log_probability, event.delta, event.top, forced=event.forced)
        if self._plan is not None:
            maps = JsonWriter().maps(event.maps, self._plan)
            return [self._chunk(piece, {"index": event.index, "id": event.token_id, **maps})]
        return [self._chunk(piece)] if piece.text or piece.tokens else []

    def end(self, prediction: Prediction) -> Sequence[dict[str, Any]]:
        """Write what is left, and why it ends."""
        piece = self._transcript.end(prediction.result.sequences[0])
        found = [self._chunk(replace(piece, finish=""))] if piece.text or piece.tokens else []
        attention: dict[str, Any] | None = None
        if self._plan is not None:
            steps = [each for each in prediction.result.labels if each.name == self._checked.schema.steps_label]
            writer = JsonWriter()
            labels = [*map(writer.labels, steps)]
            attention = {"labelSets": labels, **writer.maps(prediction.result.maps, self._plan)}
        return [*found, self._chunk(Piece(finish=piece.finish), attention)]

    def answered(self, prediction: Prediction) -> Answered[Written]:
        """Give what is counted of it."""
        return Answered(prediction.result.sequences[0], tokens_of(prediction))

    def _chunk(self, piece: Piece, attention: Mapping[str, Any] | None = None) -> dict[str, Any]:
        choice = self._asked.style.delta(self._place, piece, self._asked.top is not None)
        return {"choices": [choice], **({} if attention is None else {"attention": attention})}


async def _merged(streams: Sequence[AsyncGenerator[Any, None]]) -> AsyncGenerator[tuple[int, Any], None]:
    """Give the events of streams as they come, each with its stream's place. All end with the first that fails."""
    queue: asyncio.Queue[tuple[int, Any]] = asyncio.Queue(1)  # a reader who is slow holds up all

    async def pump(place: int) -> None:
        end: Exception | None = None
        try:
            async with aclosing(streams[place]) as events:
                async for event in events:
                    await queue.put((place, event))
        except Exception as error:
            end = error
        await queue.put((place, _Ended(end)))

    tasks = [asyncio.create_task(pump(place)) for place in range(len(streams))]
    try:
        left = len(tasks)
        while left:
            place, event = await queue.get()
            if not isinstance(event, _Ended):
                yield place, event
            elif event.error is not None:
                raise event.error
            else:
                left -= 1
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True)
class _Ended:
    error: Exception | None


def _failed_event(failure: Failure) -> bytes:
    return _event(error_body(failure))


def _event(value: Any) -> bytes:
    return b"data: %s\n\n" % written(value)


def _sequence(checked: CheckedCall, prediction: Prediction) -> tuple[Written, int]:
    sequence = prediction.result.sequences[0]
    told = 0 if sequence.top is None else len(sequence.top.token_ids)
    return sequence, len(sequence.text) + _BYTES_OF_TOKEN * (len(sequence.token_ids) + told)


def _usage(asked: Asked, prompts: Mapping[int, Prompt], answers: Sequence[Answered[Written]]) -> dict[str, int]:
    """Count tokens: of each prompt once, of what was written in every answer."""
    first = range(0, len(answers), asked.given["n"])
    read = sum([len(prompts[place].ids) if asked.scored else answers[place].tokens for place in first])
    made = sum([_written(each.value) for each in answers])
    return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}


def _written(sequence: Written) -> int:
    """Count the tokens that a model chose, without the one that ends a text: `max_tokens` bounds these."""
    return len(sequence.token_ids) - sequence.forced - (sequence.finish_reason is FinishReason.END)


def _choice(place: int, piece: Piece, wants_tokens: bool) -> dict[str, Any]:
    return {
        "text": piece.text,
        "index": place,
        "logprobs": columns(piece.tokens) if wants_tokens else None,
        "finish_reason": piece.finish or None,
    }


_COMPLETION = Style("cmpl", "text_completion", "text_completion", _choice, _choice)
_CHAT = Style("chatcmpl", "chat.completion", "chat.completion.chunk", chat.choice, chat.delta, chat.first)
