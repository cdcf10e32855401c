"""What a model writes, as OpenAI's API tells it: pieces of text with the tokens behind them, up to a stop text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limelight_bundle.errors import InputError
from limelight_bundle.values import Instance, TensorValue, Text
from limelight_service.codecs.doors.rows import Ids, Rows
from limelight_service.codecs.json.results import singles
from limelight_service.frontend.schema import ModelSchema
from limelight_service.ipc.boundary import FinishReason, TopTokens
from limelight_service.ipc.boundary import Sequence as Written

_NEVER = -9999.0
# A target is used up where nothing more was asked for.
_FINISH = {FinishReason.END: "stop", FinishReason.STOP: "stop"}


@dataclass(frozen=True)
class Token:
    """A token of a text. data: the bytes that it stands for. start: of the token in the text, in code points.
    log_probability: None for the first of a prompt. top: the most probable ones in its place, best first.
    """

    data: bytes
    start: int
    log_probability: float | None
    top: Sequence[tuple[bytes, float]] = ()


@dataclass(frozen=True)
class Piece:
    """A piece of a text. finish: why the text ends with it; empty where it goes on."""

    text: str = ""
    tokens: Sequence[Token] = ()
    finish: str = ""


@dataclass(frozen=True)
class Prompt:
    """A prompt that is repeated in front of what is written. starts: of each token in its text."""

    text: str
    ids: Sequence[int]
    starts: Sequence[int]


class Echoes(Rows):
    """Prompts that are repeated, kept by their places once they are read.

    With `scored`, all tokens of a prompt but the first are forced as the model's output, which tells how probable each
    is.
    """

    scored = False
    first = 0  # place of its first row among those of the request

    def __init__(self, rows: Rows, prompts: dict[int, Prompt], *, scored: bool, first: int = 0) -> None:
        super().__init__(rows.values, rows.paths, rows.size, rows.seeds)
        self.prompts, self.scored, self.first = prompts, scored, first

    def __getitem__(self, part: slice) -> "Echoes":
        return Echoes(super().__getitem__(part), self.prompts, scored=self.scored, first=self.first + (part.start or 0))

    def read(self, place: int, schema: ModelSchema) -> Instance:
        """See `Rows.read`. Raises: InputError too for a prompt that is too long, or too short, to be scored."""
        instance, value, path = super().read(place, schema), self.values[place], self.paths[place]
        row = schema.preprocessor.row(instance, field=path)
        ids = row.tensors[schema.prompt_tensor].tolist()
        detokenizer = schema.detokenizer
        assert detokenizer is not None  # the door has checked it
        if isinstance(value, Ids):
            stream, starts = detokenizer.stream(), [0]
            for number, each in enumerate(ids, 1):
                starts.append(starts[-1] + len(stream.add(each, last=number == len(ids))))
            prompt = Prompt(detokenizer.text(ids), ids, starts[:-1])
        else:
            assert isinstance(value, Text)
            prompt = Prompt(value.text, ids, list(row.tokens[schema.prompt_tensor].starts))
        self.prompts[self.first + place] = prompt
        if not self.scored:
            return instance
        if not 2 <= len(ids) <= schema.max_new_tokens + 1:
            most = schema.max_new_tokens + 1
            raise InputError(path, f"has {len(ids)} tokens; of 2 to {most} it can be told how probable they are")
        forced = {schema.prompt_tensor: ids[:1], schema.target_tensor: ids[1:]}
        return {name: TensorValue(np.array(each, np.int64)) for name, each in forced.items()}


class Transcript:
    """The text of one row, told piece by piece.

    Args:
        wants_tokens: whether pieces come with their tokens.
        prompt: that is repeated in front; None for none.
        scored: whether its tokens come as those of the output.
    """

    def __init__(
        self,
        schema: ModelSchema,
        stop: Sequence[str],
        *,
        wants_tokens: bool = False,
        prompt: Prompt | None = None,
        scored: bool = False,
    ) -> None:
        self._detokenizer = schema.detokenizer
        self._ends, self._stop = schema.ends, stop
        self._wants_tokens, self._prompt, self._scored = wants_tokens, prompt, scored
        self._base = len(prompt.text) if prompt else 0
        self._text = ""  # behind the prompt, as far as it is known
        self._told = 0  # characters of it
        self._forced = 0  # tokens of the prompt that were told
        self._forced_text = 0  # characters of the sequence's text that the prompt takes
        self._waiting: list[tuple[int, Token]] = []  # with their ends

    def begin(self) -> Piece:
        """Give the prompt, or its first token where the others come as output."""
        if self._prompt is None:
            return Piece()
        return self._of_prompt(0, None, None) if self._scored else Piece(self._prompt.text)

    def add(
        self, token: int, log_probability: float, delta: str, top: TopTokens | None = None, *, forced: bool = False
    ) -> Piece:
        """Add a token; gives what can be told, which is less where a stop text may have begun. top: of its step."""
        if forced:
            self._forced += 1
            self._forced_text += len(delta)
            return self._of_prompt(self._forced, log_probability, top)
        start = len(self._text)
        self._text += delta
        if self._wants_tokens and token not in self._ends:
            made = Token(self._data(token), self._base + start, log_probability, self._likeliest(top))
            self._waiting.append((len(self._text), made))
        return self._up_to(self._safe())

    def end(self, sequence: Written) -> Piece:
        """Give the rest. sequence: all of it, in which the stop text is left out."""
        self._text = sequence.text[self._forced_text :]
        size = len(self._text)
        if sequence.finish_reason is FinishReason.STOP:
            self._waiting = [each for each in self._waiting if each[1].start - self._base < size]
        rest = Piece(self._text[self._told :], [each for _, each in self._waiting])
        self._told, self._waiting = size, []
        return Piece(rest.text, rest.tokens, _FINISH.get(sequence.finish_reason, "length"))

    def whole(self, sequence: Written) -> Piece:
        """Give a whole text at once."""
        pieces = [self.begin()]
        if (self._wants_tokens or self._scored) and self._detokenizer is not None:
            stream, last, top = self._detokenizer.stream(), len(sequence.token_ids) - 1, sequence.top
            for place, (token, each) in enumerate(zip(sequence.token_ids, sequence.log_probabilities, strict=True)):
                delta = stream.add(token, last=place == last)
                pieces.append(self.add(token, each, delta, _step(top, place), forced=place < sequence.forced))
        pieces.append(self.end(sequence))
        tokens = [token for each in pieces for token in each.tokens]
        return Piece("".join([each.text for each in pieces]), tokens, pieces[-1].finish)

    def _of_prompt(self, place: int, log_probability: float | None, top: TopTokens | None) -> Piece:
        assert self._prompt is not None
        starts, ids = self._prompt.starts, self._prompt.ids
        end = starts[place + 1] if place + 1 < len(starts) else self._base
        token = Token(self._data(ids[place]), starts[place], log_probability, self._likeliest(top))
        return Piece(self._prompt.text[starts[place] : end], [token] if self._wants_tokens else ())

    def _safe(self) -> int:
        """Count the characters that no stop text can take back."""
        found = [place for each in self._stop if (place := self._text.find(each, self._told)) >= 0]
        if found:
            return min(found)
        longest = max(map(len, self._stop), default=0)
        for size in range(min(longest - 1, len(self._text) - self._told), 0, -1):
            if any(each.startswith(self._text[-size:]) for each in self._stop):
                return len(self._text) - size
        return len(self._text)

    def _up_to(self, end: int) -> Piece:
        text = self._text[self._told : end]
        self._told = max(self._told, end)
        ready = [each for until, each in self._waiting if until <= end]
        self._waiting = self._waiting[len(ready) :]
        return Piece(text, ready)

    def _data(self, token: int) -> bytes:
        return b"" if self._detokenizer is None else self._detokenizer.data(token)

    def _likeliest(self, top: TopTokens | None) -> Sequence[tuple[bytes, float]]:
        if top is None or not self._wants_tokens:
            return ()
        return list(zip(map(self._data, top.token_ids), top.log_probabilities, strict=True))


def _step(top: TopTokens | None, place: int) -> TopTokens | None:
    """Give the most probable tokens of one step."""
    if top is None:
        return None
    part = slice(place * top.per_step, (place + 1) * top.per_step)
    return TopTokens(top.per_step, top.token_ids[part], top.texts[part], top.log_probabilities[part])


def shown(data: bytes) -> str:
    """Write a token as a text; one that is a part of a character as its bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join([f"\\x{each:02x}" for each in data])


def rounded(log_probability: float) -> Any:
    """Give a log-probability as JSON writes a single-precision number; as OpenAI has it for what never comes."""
    return singles([max(log_probability, _NEVER)])[0]


def columns(tokens: Iterable[Token]) -> dict[str, Any]:
    """Write tokens as `logprobs` of a completion; each step has the token itself among the most probable ones."""
    tokens = list(tokens)
    return {
        "tokens": [shown(each.data) for each in tokens],
        "token_logprobs": [None if each.log_probability is None else rounded(each.log_probability) for each in tokens],
        "top_logprobs": [
            None
            if each.log_probability is None
            else {shown(data): rounded(value) for data, value in (*each.top, (each.data, each.log_probability))}
            for each in tokens
        ],
        "text_offset": [each.start for each in tokens],
    }
