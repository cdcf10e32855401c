"""The maps of layers, of models of every kind."""

from collections.abc import Callable
from typing import Any

from limelight_export.importing.huggingface.architectures.architecture import Sizes
from limelight_export.importing.huggingface.imported_decoder import output_map, prompt_map
from limelight_export.importing.huggingface.imported_encoder_decoder import cross_map, source_map
from limelight_models.attention.weights import Weights
from limelight_models.cards.hidden import HiddenStates
from limelight_models.cards.labels import LabelSet, input_steps
from limelight_models.cards.maps import Map


def layer_maps(
    layers: int, weights: Weights, *maps: tuple[Callable[[int], str], LabelSet, LabelSet, str]
) -> dict[str, Map]:
    """Describe the maps of layers, one layer after the other.

    Args:
        maps: for each, what makes its name of a layer's number, its queries, its keys, and its summary, in which `{}`
            stands for the number. A map is of the kind that its name ends with, self or cross.
    """
    found: dict[str, Map] = {}
    for layer in range(layers):
        for name_of, queries, keys, summary in maps:
            name = name_of(layer)
            found[name] = Map(
                weights=weights,
                kind="cross" if name.endswith(".cross") else "self",
                queries=queries,
                keys=keys,
                summary=summary.format(layer),
            )
    return found


def self_maps(layers: int, heads: int, labels: LabelSet, entry: str) -> dict[str, Map]:
    """Describe the maps of an encoder over itself. entry: a word for one of its entries, such as "token"."""
    about = f"What each {entry} attends to in layer {{}}."
    return layer_maps(layers, Weights(heads=heads), ("encoder.{}.self".format, labels, labels, about))


def decoder_maps(layers: int, weights: Weights, *, prompt: LabelSet, steps: LabelSet) -> dict[str, Map]:
    """Describe the maps of a decoder: over its prompt, and from each output token.

    Args:
        prompt, steps: label sets of the prompt's tokens and of the output.
    """
    own, put_in = "What each token of the prompt attends to in layer {}.", input_steps(prompt=prompt)
    later = "What is attended to in layer {} before each output token."
    return {
        **layer_maps(layers, weights, (prompt_map, prompt, prompt, own)),
        **layer_maps(layers, weights, (output_map, steps, put_in, later)),
    }


def encoder_decoder_states(sizes: Sizes, config: Any, *, source: LabelSet, steps: LabelSet) -> list[HiddenStates]:
    """Describe the hidden states of an encoder–decoder: of its source, and of its output steps."""
    stacks = ("encoder", source, sizes.layers), ("decoder", steps, sizes.decoder_layers)
    return [
        HiddenStates(stack=stack, labels=labels, layers=layers, size=int(config.hidden_size))
        for stack, labels, layers in stacks
    ]


def encoder_decoder_maps(sizes: Sizes, *, source: LabelSet, steps: LabelSet, entry: str, whole: str) -> dict[str, Map]:
    """Describe the maps of an encoder–decoder: within its source, within its output, and between the two.

    Args:
        source, steps: label sets of the source's entries and of the output.
        entry, whole: words for one of the source's entries and for all of it, such as "token" and "source".
    """
    read = f"What each {entry} of the {whole} attends to in layer {{}}."
    so_far = "What is attended to of the output so far in layer {}, before each token."
    looked_at = f"What is attended to of the {whole} in layer {{}}, before each token."
    written = ((output_map, steps, input_steps(), so_far), (cross_map, steps, source, looked_at))
    return {
        **layer_maps(sizes.layers, Weights(heads=sizes.heads), (source_map, source, source, read)),
        **layer_maps(sizes.decoder_layers, Weights(heads=sizes.decoder_heads), *written),
    }
