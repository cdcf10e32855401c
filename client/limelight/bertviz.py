"""Conversion of maps to the arguments of bertviz (Vig 2019, https://github.com/jessevig/bertviz)."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limelight.maps import AttentionMap


def arguments(maps: Sequence[AttentionMap], names: str = "*") -> dict[str, Any]:
    """Return arguments of bertviz's `head_view` and `model_view` for the maps that match the glob `names`.

    Self attention of one sequence gives `attention` (one float32 array [1, head, query, key] for each layer) and
    `tokens`. Attention across two sequences gives `encoder_attention`, `decoder_attention`, `cross_attention`,
    `encoder_tokens` and `decoder_tokens`. Any other map (sentences that pool their words) is drawn as cross attention
    from its queries ("decoder") to its keys ("encoder"). The arrays are copies. bertviz takes PyTorch tensors:

        drawn = answer.to_bertviz()
        head_view([torch.from_numpy(layer) for layer in drawn["attention"]], drawn["tokens"])

    Raises:
        ValueError: the maps do not fit into one drawing; the message names them.
    """
    chosen = [each for each in maps if fnmatchcase(each.name, names)]
    if not chosen:
        raise ValueError(f"no map matches {names!r}; there are {', '.join(each.name for each in maps) or 'none'}")
    decoder = [each for each in chosen if each.key.kind == "input_steps"]
    encoder = [each for each in chosen if _is_square(each)]
    cross = [each for each in chosen if not _is_square(each) and each.key.kind != "input_steps"]
    for each in decoder:
        if each.weights.shape[1] != each.weights.shape[2]:
            raise ValueError(f"{each.name!r} attends to a prompt too, which bertviz cannot draw; choose by name")
    if encoder and not decoder and not cross:
        return {"attention": _layers(encoder), "tokens": list(encoder[0].key.labels)}
    drawn: dict[str, Any] = {}
    if encoder:
        drawn |= {"encoder_attention": _layers(encoder), "encoder_tokens": list(encoder[0].key.labels)}
    if decoder:
        drawn |= {"decoder_attention": _layers(decoder), "decoder_tokens": list(decoder[0].query.labels)}
    if cross:
        drawn["cross_attention"] = _layers(cross)
        _same_tokens(drawn, "encoder_tokens", list(cross[0].key.labels), cross[0])
        _same_tokens(drawn, "decoder_tokens", list(cross[0].query.labels), cross[0])
    return drawn


def _is_square(each: AttentionMap) -> bool:
    return each.query.name == each.key.name and each.query.labels == each.key.labels


def _layers(maps: Sequence[AttentionMap]) -> list[NDArray[np.float32]]:
    first = maps[0]
    layers = []
    for each in maps:
        weights = each.dense()
        if weights.ndim != 3:
            raise ValueError(f"{each.name!r} is multi-dimensional, which bertviz cannot draw")
        same = each.query.labels == first.query.labels and each.key.labels == first.key.labels
        if not same or len(weights) != len(first.weights):
            both = f"{first.name!r} and {each.name!r}"
            raise ValueError(f"{both} have different tokens or numbers of heads; choose by name maps that fit")
        layers.append(weights[None].copy())
    return layers


def _same_tokens(drawn: dict[str, Any], key: str, tokens: list[str], each: AttentionMap) -> None:
    if drawn.setdefault(key, tokens) != tokens:
        other = key.replace("_", " ")
        raise ValueError(f"{each.name!r} has other {other} than the self attention; choose by name maps that fit")
