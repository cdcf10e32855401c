"""What Text Embeddings Inference tells of a model, and of the tokens of a text."""

from typing import Any

from limelight.base.version import version as installed
from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.rows import Labels
from limelight_service.codecs.doors.classes import class_result, label_names, pair_result
from limelight_service.codecs.doors.vectors import vector_result
from limelight_service.codecs.json.numbers import written
from limelight_service.frontend.schema import ModelSchema
from limelight_service.settings import Settings

_TYPES = {model_pb2.PRECISION_FLOAT16: "float16", model_pb2.PRECISION_INT8: "int8"}


def described(schema: ModelSchema, settings: Settings, most_texts: int) -> dict[str, Any]:
    """Describe a model. most_texts: of a request."""
    description, served = schema.description, schema.served
    (first, *_) = [each for each in description.inputs if not each.optional]
    longest = max([each.maximum for each in first.tensors[0].dimensions], default=0) if first.tensors else 0
    return {
        "model_id": schema.name,
        "model_sha": served.digest,
        "model_dtype": _TYPES.get(description.precision, "float32"),
        "model_type": _kind(schema),
        "max_concurrent_requests": settings.max_connections,
        "max_input_length": longest,
        "max_batch_tokens": served.max_tokens,
        "max_batch_requests": served.max_rows,
        "max_client_batch_size": most_texts,
        "auto_truncate": False,
        "tokenization_workers": settings.preprocess_count,
        "version": installed(),
        "sha": None,
        "docker_label": None,
    }


def _kind(schema: ModelSchema) -> dict[str, Any]:
    """Tell which of the three kinds a model is, with how it pools or its labels."""
    name = vector_result(schema)
    if name is not None:
        (output,) = [each.embedding.output for each in schema.results if each.name == name]
        (pooling,) = [each.summary for each in schema.description.outputs if each.name == output]
        return {"embedding": {"pooling": pooling}}
    result = class_result(schema)
    names = [] if result is None else label_names(result)
    labels = {
        "id2label": {str(place): each for place, each in enumerate(names)},
        "label2id": {each: place for place, each in enumerate(names)},
    }
    return {"reranker" if pair_result(schema) else "classifier": labels}


def tokens(labels: Labels, *, add_special_tokens: bool) -> bytes:
    """Write the tokens of a text; places in code points, which special tokens have none of."""
    if labels.kind != attention_pb2.LABEL_KIND_TOKENS:
        return b""
    special = labels.special or [False] * labels.size
    rows = zip(labels.ids, labels.texts, special, labels.starts, labels.ends, strict=True)
    return written(
        [
            {"id": id_, "text": text, "special": flag, "start": None if flag else start, "stop": None if flag else end}
            for id_, text, flag, start, end in rows
            if add_special_tokens or not flag
        ]
    )
