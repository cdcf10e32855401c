"""The requests of Text Embeddings Inference, field by field."""

from collections.abc import Callable
from typing import Any

from limelight_bundle.errors import InputError, Path
from limelight_bundle.values import Pair, Text
from limelight_service.codecs.doors.beside import BESIDE
from limelight_service.codecs.doors.classes import FUNCTIONS
from limelight_service.codecs.doors.fields import (
    FLAG,
    OPTIONAL_MODEL,
    Field,
    Form,
    Kind,
    check_list,
    listed,
    object_of,
    one_of,
    one_or_more,
    text,
    unused,
    whole,
)
from limelight_service.codecs.doors.ranking import MOST_TEXTS
from limelight_service.codecs.doors.rows import Value, id_rows, text_rows
from limelight_service.codecs.doors.vectors import MOST_DIMENSIONS
from limelight_service.codecs.json.numbers import shown


def _predicted(value: Any, path: Path) -> tuple[list[tuple[Value, Path]], bool]:
    """Read a text, a pair of texts, or a list of lists of either; gives rows, and whether it is such a list."""
    if isinstance(value, str):
        return [(Text(value), path)], False
    check_list(value, path, MOST_TEXTS)
    if isinstance(value[0], str):
        return [(_one_or_pair(value, path), path)], False
    return [(_one_or_pair(each, (*path, place)), (*path, place)) for place, each in enumerate(value)], True


def _one_or_pair(value: Any, path: Path) -> Value:
    if not isinstance(value, list) or not 1 <= len(value) <= 2 or set(map(type, value)) != {str}:
        raise InputError(path, f"is {shown(value)}; it takes a list of one text, or of the two of a pair")
    return Pair(*value) if len(value) == 2 else Text(*value)


_ONE_OR_PAIR = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2}
_BATCH = {"type": "array", "items": _ONE_OR_PAIR, "minItems": 1, "maxItems": MOST_TEXTS}
_CUT = (Field("truncate", FLAG, False), Field("truncation_direction", unused("Right", "right")))
_PROMPT = Field("prompt_name", unused())
_TEXTS = Field("inputs", text_rows(MOST_TEXTS), is_required=True)
EMBED = Form(
    _TEXTS,
    Field("normalize", FLAG, True),
    Field("dimensions", whole(1, MOST_DIMENSIONS)),
    Field("encoding_format", unused("float")),
    *(*_CUT, _PROMPT, OPTIONAL_MODEL, *BESIDE),
)
EMBED_ALL = Form(_TEXTS, *_CUT, _PROMPT, OPTIONAL_MODEL, *BESIDE)
_PIPELINE = Form(Field("function_to_apply", one_of(*FUNCTIONS)), Field("top_k", whole(1, MOST_DIMENSIONS)))
PREDICT = Form(
    Field("inputs", Kind(_predicted, {"anyOf": [{"type": "string"}, _ONE_OR_PAIR, _BATCH]}), is_required=True),
    Field("raw_scores", FLAG, False),
    Field("parameters", object_of(_PIPELINE)),
    *(*_CUT, OPTIONAL_MODEL, *BESIDE),
)
RERANK = Form(
    Field("query", text(), is_required=True),
    Field("texts", listed(text(), MOST_TEXTS), is_required=True),
    Field("raw_scores", unused(False)),
    Field("return_text", FLAG, False),
    *(*_CUT, OPTIONAL_MODEL, *BESIDE),
)
_SENTENCES = Form(
    Field("source_sentence", text(), is_required=True),
    Field("sentences", listed(text(), MOST_TEXTS), is_required=True),
)
SIMILARITY = Form(
    Field("inputs", object_of(_SENTENCES), is_required=True),
    Field("parameters", object_of(Form(*_CUT, _PROMPT)), {"truncate": False}),
    *(OPTIONAL_MODEL, *BESIDE),
)
TOKENIZE = Form(
    Field("inputs", one_or_more(text(), MOST_TEXTS), is_required=True),
    Field("add_special_tokens", FLAG, True),
    *(_PROMPT, OPTIONAL_MODEL),
)
DECODE = Form(
    Field("ids", id_rows(MOST_TEXTS), is_required=True), Field("skip_special_tokens", FLAG, True), OPTIONAL_MODEL
)


class Either(Form):
    """A request of one of several forms. choose: tells which, of the JSON; None for the object as it is."""

    def __init__(self, *forms: Form, choose: Callable[[Any], Form] | None = None) -> None:
        super().__init__()
        self._forms = forms
        self._choose = choose

    @property
    def schema(self) -> dict[str, Any]:
        """Give the schema of the object."""
        return {"anyOf": [each.schema for each in self._forms]}

    def read(self, value: Any, path: Path) -> dict[str, Any]:
        """Give every field by its name. Raises: InputError."""
        if not isinstance(value, dict):
            raise InputError(path, f"is {shown(value)}; it takes an object")
        return value if self._choose is None else self._choose(value).read(value, path)


ROOT = Either(EMBED, PREDICT, RERANK, SIMILARITY)
