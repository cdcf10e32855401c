"""Conversations as OpenAI's chats have them: read, written as a prompt by the model's chat template, and answered."""

from collections.abc import Mapping, Sequence
from typing import Any

from limelight_bundle.chat.failures import RefusedTemplate
from limelight_bundle.errors import InputError, Path
from limelight_bundle.values import Text
from limelight_service.codecs.doors.fields import Field, Form, Kind, listed, object_of, one_of, text, unused
from limelight_service.codecs.doors.transcripts import Piece, Token, rounded
from limelight_service.errors import WrongModelError
from limelight_service.frontend.schema import ModelSchema

_MOST_MESSAGES = 2_048
_MOST_PARTS = 256
_PARTS = listed(
    object_of(Form(Field("type", one_of("text"), is_required=True), Field("text", text(), is_required=True))),
    _MOST_PARTS,
)


def _read_content(value: Any, path: Path) -> str:
    if isinstance(value, list):
        return "\n".join([each["text"] for each in _PARTS.read(value, path)])
    return str(text().read(value, path))


_MESSAGE = Form(
    Field("role", one_of("system", "developer", "user", "assistant"), is_required=True),
    Field("content", Kind(_read_content, {"anyOf": [{"type": "string"}, dict(_PARTS.schema)]}), is_required=True),
    Field("name", text()),
    Field("refusal", unused("")),
    Field("annotations", unused([])),
    Field("audio", unused()),
    Field("tool_calls", unused([])),
    Field("function_call", unused()),
)
MESSAGES = listed(object_of(_MESSAGE), _MOST_MESSAGES)


def prompt_of(messages: Sequence[Mapping[str, Any]], schema: ModelSchema) -> Text:
    """Write a conversation as a prompt.

    Raises: InputError for a content that holds a special token, whose author could write turns of others;
        WrongModelError for a template that is refused.
    """
    special = {each for encoder in schema.preprocessor.encoders.values() for each in encoder.special_texts}
    told = []
    for place, each in enumerate(messages):
        said = {name: each[name] for name in ("content", "name") if each[name] is not None}
        for name, value in said.items():
            if token := next((one for one in special if one in value), ""):
                raise InputError(("messages", place, name), f"holds {token!r}, a special token of the model")
        told.append({"role": "system" if each["role"] == "developer" else each["role"], **said})
    assert schema.chat is not None
    try:
        return Text(schema.chat.render(told), complete=True)
    except RefusedTemplate as error:
        raise WrongModelError(f"{schema.name} takes no conversations: {error.message}") from error


def choice(place: int, piece: Piece, wants_tokens: bool) -> dict[str, Any]:
    """Tell a whole answer."""
    message = {"role": "assistant", "content": piece.text, "refusal": None}
    return _of_piece(place, {"message": message}, piece, wants_tokens)


def delta(place: int, piece: Piece, wants_tokens: bool) -> dict[str, Any]:
    """Tell a piece of an answer; the last one of a stream has no text."""
    if piece.finish:
        return _of_piece(place, {"delta": {}}, piece, False)
    return _of_piece(place, {"delta": {"content": piece.text}}, piece, wants_tokens)


def first(place: int) -> dict[str, Any]:
    """Tell whose answer begins."""
    return _of_piece(place, {"delta": {"role": "assistant", "content": ""}}, Piece(), False)


def _of_piece(place: int, said: dict[str, Any], piece: Piece, wants_tokens: bool) -> dict[str, Any]:
    logprobs = {"content": [_token(each) for each in piece.tokens], "refusal": None} if wants_tokens else None
    return {"index": place, **said, "logprobs": logprobs, "finish_reason": piece.finish or None}


def _token(token: Token) -> dict[str, Any]:
    own = (token.data, token.log_probability or 0.0)
    return {**_alternative(*own), "top_logprobs": [_alternative(*each) for each in token.top]}


def _alternative(data: bytes, log_probability: float) -> dict[str, Any]:
    return {"token": data.decode(errors="replace"), "logprob": rounded(log_probability), "bytes": list(data)}
