"""Which tokens a text may have where: some are forced at its beginning, others are never put out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.checkpoint import CONFIG, Checkpoint

GENERATION_CONFIG = "generation_config.json"


@dataclass(frozen=True)
class OutputRules:
    """Rules of an output.

    Attributes:
        forced: tokens of which one follows, for each of the first positions.
        suppressed: tokens that are never put out, but where they are forced.
        suppressed_first: tokens that are not put out first, behind the forced ones.
    """

    forced: tuple[tuple[int, ...], ...] = ()
    suppressed: tuple[int, ...] = ()
    suppressed_first: tuple[int, ...] = ()

    def allowed(self, vocabulary: int) -> Tensor | None:
        """Tell which tokens may follow each position, BOOL [position, token]; the last row holds for later ones.

        Returns: None where every token may follow everywhere.
        """
        if not (self.forced or self.suppressed or self.suppressed_first):
            return None
        allowed = torch.ones((len(self.forced) + 2, vocabulary), dtype=torch.bool)
        for position, tokens in enumerate(self.forced):
            allowed[position] = False
            allowed[position, list(tokens)] = True
        allowed[len(self.forced) :, list(self.suppressed)] = False
        allowed[len(self.forced), list(self.suppressed_first)] = False
        return allowed


def read_output_rules(checkpoint: Checkpoint, config: Any) -> OutputRules:
    """Read the rules that hold for every output of an encoder–decoder of text.

    Of `bad_words_ids` only single tokens are rules here; callers decide how else a text is searched.

    Raises:
        CheckpointError: a file states a token that the model does not have.
    """
    vocabulary = int(config.vocab_size)
    first = _stated(checkpoint, config, "forced_bos_token_id")
    words = [each[0] for each in _stated(checkpoint, config, "bad_words_ids") or () if len(each) == 1]
    return OutputRules(
        forced=() if first is None else (_tokens([first], "forced_bos_token_id", vocabulary),),
        suppressed=(
            *_tokens(words, "bad_words_ids", vocabulary),
            *stated_tokens(checkpoint, config, "suppress_tokens"),
        ),
        suppressed_first=stated_tokens(checkpoint, config, "begin_suppress_tokens"),
    )


def stated_tokens(checkpoint: Checkpoint, config: Any, name: str) -> tuple[int, ...]:
    """Return the tokens of a field; none where nothing states it. Raises CheckpointError for one of another model."""
    return _tokens(_stated(checkpoint, config, name) or (), name, int(config.vocab_size))


def checked_token(value: Any, name: str, vocabulary: int) -> int:
    """Return a token that a field states. Raises CheckpointError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < vocabulary:
        raise CheckpointError(f"{GENERATION_CONFIG} or {CONFIG} states no token of the model as {name}")
    return value


def _tokens(values: Iterable[Any], name: str, vocabulary: int) -> tuple[int, ...]:
    return tuple(checked_token(each, name, vocabulary) for each in values)


def _stated(checkpoint: Checkpoint, config: Any, name: str) -> Any:
    """Return the value of a field; generation_config.json takes precedence."""
    return checkpoint.table(GENERATION_CONFIG).get(name, checkpoint.config.get(name, getattr(config, name, None)))
