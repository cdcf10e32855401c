"""JSON form of answers. It is a public interface: releases add fields and never rename them."""

import json
import sys
from typing import Any

from limelight.base.printing import printable
from limelight.descriptions import ModelStatus
from limelight.events import GeneratedToken, GenerationEnd, GenerationEvent, GenerationStart
from limelight.records import json_types
from limelight.saving import SavedMap
from limelight.streams import StreamStart


def write(document: Any) -> None:
    """Print a JSON document on one line; characters outside the output's encoding are escaped."""
    whole = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(document, ensure_ascii=not whole, allow_nan=True)
    # Lone surrogates, from file names, and what controls a terminal are printed as JSON escapes.
    print(text if printable(text) == text else json.dumps(document, allow_nan=True), flush=True)


def models(statuses: list[ModelStatus]) -> dict[str, Any]:
    """Return `{"models": [...]}`."""
    return {"models": json_types(statuses)}


def saved(each: StreamStart | SavedMap) -> dict[str, Any]:
    """Return one line of a stream saved to files: `{"prediction": ...}`, then each map with its `file`."""
    if isinstance(each, StreamStart):
        return {"prediction": each.prediction.to_dict()}
    described = each.map
    return {
        "name": described.name,
        "stack": described.stack,
        "layer": described.layer,
        "kind": described.kind,
        "query": described.query.name,
        "key": described.key.name,
        "heads": list(described.heads),
        "queries": json_types(described.query.indices),
        "keys": json_types(described.key.indices),
        "shape": list(described.shape),
        "file": str(each.file),
    }


def event(each: GenerationEvent) -> dict[str, Any]:
    """Return an event of a generation: `{"event": "start" | "token" | "end", ...}`."""
    match each:
        case GenerationStart():
            sets = {name: labels.to_dict() for name, labels in each.label_sets.items()}
            return {"event": "start", "truncated": each.truncated, "seed": each.seed, "label_sets": sets}
        case GeneratedToken():
            maps = [map_.to_dict() for map_ in each.maps]
            token = {"index": each.index, "id": each.id, "text": each.text, "delta": each.delta}
            more = {"log_probability": each.log_probability, "maps": maps, "forced": each.forced}
            return {"event": "token", **token, **more, "top": json_types(each.top)}
        case GenerationEnd():
            return {
                "event": "end",
                "text": each.text,
                "probability": each.probability,
                "sequences": json_types(each.sequences),
                "output_steps": each.output_steps.to_dict() if each.output_steps else None,
                "maps": [map_.to_dict() for map_ in each.maps],
                "provenance": json_types(each.provenance),
            }
