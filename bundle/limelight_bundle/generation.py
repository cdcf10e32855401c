"""Generated sequences: their first and last tokens, and the labels of the tokens that a model reads step by step."""

from collections.abc import Sequence
from typing import Any

from limelight_bundle.descriptions import LABEL_KIND_INPUT_STEPS, LABEL_KIND_OUTPUT_STEPS, sequence_description
from limelight_bundle.rows import Labels
from limelight_bundle.v1 import bundle_pb2


def leading_tokens(generation: bundle_pb2.Generation) -> tuple[int, ...]:
    """Give the tokens that stand in front of a prompt, or of the first output token."""
    return () if generation.starts_with_prompt else (generation.begin_token,)


def end_tokens(generation: bundle_pb2.Generation) -> frozenset[int]:
    """Give the tokens that end a sequence."""
    return frozenset({generation.end_token, *generation.more_end_tokens})


def generated_text(bundle: bundle_pb2.Bundle) -> str:
    """Name the generated text as the input of its tokens: as the label set of the output steps."""
    return sequence_description(bundle.description).label_set or "output"


def steps_to_come(name: str, count: int) -> Labels:
    """Label generated tokens, of which nothing is known yet but their number. name: of the generated text."""
    return Labels(name, LABEL_KIND_OUTPUT_STEPS, count, inputs=(name,))


def read_steps(name: str, *parts: Labels) -> Labels:
    """Join label sets of tokens to one of input steps: the tokens in front, the prompt, generated ones.

    A token without a place in a text gets an empty one at 0. The last part names the input of the generated tokens,
    also where there are none yet.
    """
    size = sum(each.size for each in parts)
    inputs = tuple(dict.fromkeys(source for each in parts for source in each.inputs))
    indices: list[int] = []
    for each in parts:
        places = [inputs.index(source) for source in each.inputs] or [0]
        own = each.input_indices if len(each.input_indices) else [0] * each.size
        indices += [places[index] for index in own]
    return Labels(
        name,
        LABEL_KIND_INPUT_STEPS,
        size,
        _joined("texts", parts, ""),
        _joined("starts", parts, 0),
        _joined("ends", parts, 0),
        _joined("ids", parts, 0),
        _joined("special", parts, False),
        inputs=inputs,
        input_indices=indices if len(inputs) > 1 else (),
    )


def _joined(column: str, parts: Sequence[Labels], absent: Any) -> list[Any]:
    """Join a column; the entries of a part without it have the value `absent`."""
    columns = [(getattr(each, column), each.size) for each in parts]
    return [value for values, size in columns for value in (values if len(values) else [absent] * size)]
