"""A sentence in three parts, for what is said of a target in it: left of the target, the target, right of it."""

from collections.abc import Mapping

from limelight_models.cards.inputs import TextInput, Tokenizer

PARTS = {"left": "before the target", "target": "the target", "right": "after the target"}


def parts_of(tokenizer: Tokenizer, *, max_tokens: int) -> Mapping[str, TextInput]:
    """The inputs `left`, `target` and `right` -> `<part>_ids` [<part>] and `<part>_mask`, each."""
    return {
        name: TextInput(
            name=name,
            summary=f'The part of a sentence {what}; "." where there is none.',
            tokenizer=tokenizer,
            max_tokens=max_tokens,
            prefix=name,
            dimension=name,
        )
        for name, what in PARTS.items()
    }
