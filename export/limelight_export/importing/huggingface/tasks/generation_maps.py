"""The maps of models that generate."""

from limelight_export.importing.huggingface.architectures.architecture import Sizes
from limelight_export.importing.huggingface.imported_decoder import output_map, prompt_map
from limelight_export.importing.huggingface.imported_encoder_decoder import cross_map, source_map
from limelight_models.attention.weights import Weights
from limelight_models.cards.labels import LabelSet, input_steps
from limelight_models.cards.maps import Map


def decoder_maps(layers: int, weights: Weights, *, prompt: LabelSet, steps: LabelSet) -> dict[str, Map]:
    """Describe the maps of a decoder: over its prompt, and from each output token.

    Args:
        prompt, steps: label sets of the prompt's tokens and of the output.
    """
    over_prompt = {
        prompt_map(layer): Map(
            weights=weights,
            kind="self",
            queries=prompt,
            keys=prompt,
            summary=f"What each token of the prompt attends to in layer {layer}.",
        )
        for layer in range(layers)
    }
    from_output = {
        output_map(layer): Map(
            weights=weights,
            kind="self",
            queries=steps,
            keys=input_steps(prompt=prompt),
            summary=f"What is attended to in layer {layer} before each output token.",
        )
        for layer in range(layers)
    }
    return over_prompt | from_output


def encoder_decoder_maps(sizes: Sizes, *, source: LabelSet, steps: LabelSet, entry: str, whole: str) -> dict[str, Map]:
    """Describe the maps of an encoder–decoder: within its source, within its output, and between the two.

    Args:
        source, steps: label sets of the source's entries and of the output.
        entry, whole: words for one of the source's entries and for all of it, such as "token" and "source".
    """
    of_source, of_output = Weights(heads=sizes.heads), Weights(heads=sizes.decoder_heads)
    maps = {
        source_map(layer): Map(
            weights=of_source,
            kind="self",
            queries=source,
            keys=source,
            summary=f"What each {entry} of the {whole} attends to in layer {layer}.",
        )
        for layer in range(sizes.layers)
    }
    put_in = input_steps()
    for layer in range(sizes.decoder_layers):
        maps[output_map(layer)] = Map(
            weights=of_output,
            kind="self",
            queries=steps,
            keys=put_in,
            summary=f"What is attended to of the output so far in layer {layer}, before each token.",
        )
        maps[cross_map(layer)] = Map(
            weights=of_output,
            kind="cross",
            queries=steps,
            keys=source,
            summary=f"What is attended to of the {whole} in layer {layer}, before each token.",
        )
    return maps
