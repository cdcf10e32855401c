"""Detokenization: generated tokens become text, label sets and stop checks."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from limelight_bundle.descriptions import (
    LABEL_KIND_INPUT_STEPS,
    LABEL_KIND_OUTPUT_STEPS,
    input_steps,
    sequence_description,
)
from limelight_bundle.detokenizing import Detokenizer, TextStream
from limelight_bundle.generation import end_tokens, generated_text, leading_tokens, read_steps, steps_to_come
from limelight_bundle.rows import Labels, Row
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_service.engine.decoding.search import Hypothesis
from limelight_service.engine.types import FinishReason, Sequence, TopTokens


class SequenceDetokenizer:
    """Turns the sequences of one model into text and labels; the description names the label set of output steps."""

    def __init__(self, bundle: bundle_pb2.Bundle, detokenizer: Detokenizer) -> None:
        self._label_set = sequence_description(bundle.description).label_set
        self._written = generated_text(bundle)
        self._input_sets = tuple(input_steps(bundle.description))
        self._leading = leading_tokens(bundle.generation)
        self._without_text = end_tokens(bundle.generation).union(self._leading)
        self._detokenizer = detokenizer
        self._special = lru_cache(maxsize=65536)(self._stands_for_no_text)

    def token(self, token_id: int) -> str:
        """Give a token as the vocabulary writes it; empty for a special token."""
        return "" if self._special(token_id) else self._detokenizer.token(token_id)

    def written(self, token_id: int) -> str:
        """Give a token as the vocabulary writes it, a special one by its name."""
        return self._detokenizer.token(token_id)

    def stream(self) -> TextStream:
        """Begin a text that is written token by token."""
        return self._detokenizer.stream()

    def stopped(self, stop: tuple[str, ...], target: tuple[int, ...]) -> Callable[[Hypothesis], bool] | None:
        """Make the check whether a stop text has appeared that ends behind a target; None without stop texts."""
        if not stop:
            return None

        def check(hypothesis: Hypothesis) -> bool:
            return self._first_stop(self._detokenizer.text(hypothesis.token_ids()), stop, target) is not None

        return check

    def sequence(
        self,
        hypothesis: Hypothesis,
        score: float,
        *,
        stop: tuple[str, ...] = (),
        target: tuple[int, ...] = (),
        forced: int = 0,
        top: TopTokens | None = None,
    ) -> Sequence:
        """Turn a hypothesis that ended into a sequence, without the stop text and anything behind it.

        Args:
            target: that it goes on behind. forced, top: as those of a `Sequence`.
        """
        chain = hypothesis.chain()
        token_ids = tuple(each.token for each in chain)
        text = self._detokenizer.text(token_ids)
        if hypothesis.finish is FinishReason.STOP:
            text = text[: self._first_stop(text, stop, target)]
        assert hypothesis.finish is not None
        log_probabilities = tuple(each.log_probability for each in chain)
        return Sequence(token_ids, log_probabilities, text, hypothesis.finish, score, min(forced, len(chain)), top)

    def top(self, likeliest: list[tuple[Array, Array]]) -> TopTokens | None:
        """Describe the most probable tokens of steps and their log-probabilities, [place] each; None for no steps."""
        if not likeliest:
            return None
        tokens, log_probabilities = (np.concatenate(each).tolist() for each in zip(*likeliest, strict=True))
        texts = tuple(map(self._detokenizer.token, tokens))
        return TopTokens(len(likeliest[0][0]), tuple(tokens), texts, tuple(log_probabilities))

    def _first_stop(self, text: str, stop: tuple[str, ...], target: tuple[int, ...]) -> int | None:
        """Find where the first stop text begins that ends behind a target's text."""
        behind = len(self._detokenizer.text(target)) if target else 0
        found = [text.find(each, max(0, behind + 1 - len(each))) for each in stop]
        return min((place for place in found if place >= 0), default=None)

    def labels(self, row: Row, sequence: Sequence) -> dict[str, Labels]:
        """Give the label sets that a sequence decides: those of output and input steps."""
        written = self._output_steps(sequence)
        steps = {self._label_set: written} if self._label_set else {}
        if not written.size:  # no step was run
            return steps | {each.name: Labels(each.name, LABEL_KIND_INPUT_STEPS, 0) for each in self._input_sets}
        return steps | self._read_steps(row, _without_last(written))

    def input_labels(self, row: Row) -> dict[str, Labels]:
        """Give the label sets of the input steps before anything is generated: the begin token and the prompt."""
        return self._read_steps(row, steps_to_come(self._written, 0))

    def _read_steps(self, row: Row, written: Labels) -> dict[str, Labels]:
        """Label the tokens that are read: those in front, the prompt, and generated ones."""
        leading, found = self._named(self._leading), {}
        for each in self._input_sets:
            parts = [leading, written]
            if each.tensor:
                known = row.tokens.get(each.tensor)
                parts.insert(1, known or self._named(row.tensors[each.tensor].tolist(), each.input))
            found[each.name] = read_steps(each.name, *parts)
        return found

    def _named(self, ids: tuple[int, ...] | list[int], *inputs: str) -> Labels:
        """Label tokens by the vocabulary alone."""
        texts, special = list(map(self._detokenizer.token, ids)), list(map(self._special, ids))
        return Labels("", LABEL_KIND_INPUT_STEPS, len(ids), texts, ids=ids, special=special, inputs=inputs)

    def _output_steps(self, sequence: Sequence) -> Labels:
        """Label the output steps: one token an entry, with its place in the sequence's text."""
        stream, places, last = self._detokenizer.stream(), [0], len(sequence.token_ids)
        for number, token in enumerate(sequence.token_ids, 1):
            places.append(min(places[-1] + len(stream.add(token, last=number == last)), len(sequence.text)))
        texts, starts, ends = [], [], []
        special = list(map(self._special, sequence.token_ids))
        for token, stands_for_no_text, start, end in zip(sequence.token_ids, special, places, places[1:], strict=False):
            piece = sequence.text[start:end]
            start += len(piece) - len(piece.lstrip())  # white space between words belongs to no token
            texts.append(self._detokenizer.token(token) if stands_for_no_text else piece.strip())
            starts.append(min(start, end))
            ends.append(end)
        return Labels(
            self._label_set,
            LABEL_KIND_OUTPUT_STEPS,
            len(texts),
            texts,
            starts,
            ends,
            sequence.token_ids,
            special if any(special) else (),
            inputs=(self._written,),
        )

    def _stands_for_no_text(self, token_id: int) -> bool:
        return token_id in self._without_text or not self._detokenizer.text([token_id])


def _without_last(written: Labels) -> Labels:
    """Leave out the last of the generated tokens, which is not read."""
    columns = {name: getattr(written, name)[:-1] for name in ("texts", "starts", "ends", "ids", "special")}
    return replace(written, size=written.size - 1, **columns)
