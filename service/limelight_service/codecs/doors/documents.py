"""Reranking of documents, in the form that Cohere's API, Jina's and vLLM share."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from limelight_bundle.errors import InputError, Path
from limelight_service.codecs.doors.beside import BESIDE
from limelight_service.codecs.doors.fields import FLAG, OPTIONAL_MODEL, Field, Form, Kind, listed, text, unused, whole
from limelight_service.codecs.doors.ranking import MOST_TEXTS, Ranking, Scored
from limelight_service.codecs.json.numbers import shown
from limelight_service.frontend.call import Call

if TYPE_CHECKING:
    from limelight_service.codecs.doors.asking import Doors


def _document(value: Any, path: Path) -> Any:
    if not isinstance(value, str) and not (isinstance(value, dict) and isinstance(value.get("text"), str)):
        raise InputError(path, f"is {shown(value)}; it takes a text, or an object with a text as text")
    return value


_TEXT_OR_OBJECT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
DOCUMENTS = Form(
    OPTIONAL_MODEL,
    Field("query", text(), is_required=True),
    Field(
        "documents",
        listed(Kind(_document, {"anyOf": [{"type": "string"}, _TEXT_OR_OBJECT]}), MOST_TEXTS),
        is_required=True,
    ),
    Field("top_n", whole(1, MOST_TEXTS)),
    Field("return_documents", FLAG),
    Field("max_tokens_per_doc", unused(4096)),  # Cohere's own; documents are cut where the model's limit is
    Field("max_chunks_per_doc", unused(1)),
    Field("rank_fields", unused(["text"])),
    Field("relevant_spans", unused()),
    Field("priority", unused(0)),
    *BESIDE,
)


async def reranked(doors: "Doors", given: Mapping[str, Any], size: int, call: Call) -> Scored:
    """Score the documents of a request, cut where the model's limit is. size: bytes of the request.

    Raises: LimelightError of every kind.
    """
    documents = [
        (each if isinstance(each, str) else each["text"], ("documents", place))
        for place, each in enumerate(given["documents"])
    ]
    return await Ranking(given, (given["query"], ("query",)), documents, size, truncate=True).scored(doors, call)


def results(given: Mapping[str, Any], scored: Scored, *, with_documents: bool = False) -> list[dict[str, Any]]:
    """List the best documents. with_documents: where the request does not say."""
    stated = given["return_documents"]
    has_documents = with_documents if stated is None else stated
    found = []
    for place in scored.order[: given["top_n"]]:
        document = given["documents"][place]
        shown_document = {"document": {"text": document} if isinstance(document, str) else document}
        one = {"index": place, "relevance_score": scored.scores[place]}
        found.append(one | (shown_document if has_documents else {}))
    return found
