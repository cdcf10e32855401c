"""Descriptions of maps, as short as a test can read them."""

from collections.abc import Mapping

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.maps import WEIGHTS, MapWeights
from limelight_bundle.rows import Labels
from limelight_service.codecs.framing import Frame
from limelight_service.codecs.v1.maps import frame_map
from limelight_service.engine.attention.part import Finished
from limelight_service.engine.reduction import map_result


def map_of(name: str, **fields: object) -> model_pb2.MapDescription:
    """Describe a map; the stack is what stands before the first dot, the layer a number after it."""
    stack, _, rest = name.partition(".")
    layer = rest.split(".")[0]
    values: dict[str, object] = {
        "name": name,
        "stack": stack,
        "kind": attention_pb2.MAP_KIND_SELF,
        "normalised": True,
        "heads": 2,
        "query_labels": "tokens",
        "key_labels": "tokens",
        "form": model_pb2.MAP_FORM_DENSE,
    }
    if layer.isdigit():
        values["layer"] = int(layer)
    return model_pb2.MapDescription(**(values | fields))  # type: ignore[arg-type]


def encoder(layers: int = 3, heads: int = 2) -> list[model_pb2.MapDescription]:
    """Describe an encoder's maps and one layer of a decoder's cross attention."""
    maps = [map_of(f"encoder.{layer}.self", heads=heads) for layer in range(layers)]
    cross = attention_pb2.MAP_KIND_CROSS
    return [*maps, map_of("decoder.0.cross", heads=heads, kind=cross, query_labels="output")]


def labels_of(sizes: Mapping[str, int]) -> dict[str, Labels]:
    """Label sets of so many entries each, of which nothing else is known."""
    return {name: Labels(name, attention_pb2.LABEL_KIND_TOKENS, size) for name, size in sizes.items()}


def keyed(maps: Mapping[str, MapWeights], quantity: int = WEIGHTS) -> dict[tuple[str, int], MapWeights]:
    """Maps as an answer has them: by name and quantity."""
    return {(name, quantity): weights for name, weights in maps.items()}


def framed(finished: Finished) -> Frame:
    """Frame a finished map as it is sent."""
    return frame_map(map_result(finished), finished.part.description, finished.part.quantity)
