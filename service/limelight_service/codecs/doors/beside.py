"""What rides along with an answer: the fields `attention` and `explain`, in every request of a door."""

from typing import Any

import orjson

from limelight.v1 import attention_pb2
from limelight.v1 import service_pb2 as pb
from limelight_bundle.errors import InputError, Path
from limelight_service.codecs.doors.fields import Field, Kind
from limelight_service.codecs.explanations import asked_of
from limelight_service.codecs.json.reading import members, read_message
from limelight_service.codecs.messages import NO_ATTENTION, SMALL_OPTIONS, Attention, attention_of
from limelight_service.frontend.explaining.asked import Asked

_EXPLAIN = ("target", "units", "ways", "selections")


def _read_attention(value: Any, path: Path) -> Attention:
    is_large = len(orjson.dumps(value)) > SMALL_OPTIONS
    return attention_of(read_message(attention_pb2.AttentionOptions, value, path), is_large=is_large)


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
