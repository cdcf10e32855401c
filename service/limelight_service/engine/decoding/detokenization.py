"""Detokenization: generated tokens become text, label sets and stop checks."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from limelight_bundle.descriptions import (
    LABEL_KIND_INPUT_STEPS,
    LABEL_KIND_OUTPUT_STEPS,
    input_steps,
    sequence_description,
)
from limelight_bundle.detokenizing import Detokenizer, TextStream
from limelight_bundle.generation import end_tokens, leading_tokens
from limelight_bundle.rows import Labels, Row
from limelight_bundle.v1 import bundle_pb2
from limelight_service.engine.decoding.search import Hypothesis
from limelight_service.engine.types import FinishReason, Sequence


class SequenceDetokenizer:
    """Turns the sequences of one model into text and labels; the description names the label set of output steps."""

    def __init__(self, bundle: bundle_pb2.Bundle, detokenizer: Detokenizer) -> None:
        self._label_set = sequence_description(bundle.description).label_set
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

    def stopped(self, stop: tuple[str, ...]) -> Callable[[Hypothesis], bool] | None:
        """Make the check whether a stop text has appeared; None without stop texts."""
        if not stop:
            return None

        def check(hypothesis: Hypothesis) -> bool:
            text = self._detokenizer.text(hypothesis.token_ids())
            return any(each in text for each in stop)

        return check

    def sequence(self, hypothesis: Hypothesis, score: float, stop: tuple[str, ...]) -> Sequence:
        """Turn a hypothesis that ended into a sequence, without the stop text and anything behind it."""
        chain = hypothesis.chain()
        token_ids = tuple(each.token for each in chain)
        text = self._detokenizer.text(token_ids)
        if hypothesis.finish is FinishReason.STOP:
            text = text[: min(place for place in map(text.find, stop) if place >= 0)]
        assert hypothesis.finish is not None
        return Sequence(token_ids, tuple(each.log_probability for each in chain), text, hypothesis.finish, score)

    def labels(self, row: Row, sequence: Sequence) -> dict[str, Labels]:
        """Give the label sets that a sequence decides: those of output and input steps."""
        output_steps = self._output_steps(sequence)
        steps = {self._label_set: output_steps} if self._label_set else {}
        return steps | {name: _joined(labels, output_steps) for name, labels in self.input_labels(row).items()}

    def input_labels(self, row: Row) -> dict[str, Labels]:
        """Give the label sets of the input steps before anything is generated: the begin token and the prompt."""
        found = {}
        for each in self._input_sets:
            ids = [*self._leading, *(row.tensors[each.tensor].tolist() if each.tensor else [])]
            found[each.name] = Labels(
                each.name,
                LABEL_KIND_INPUT_STEPS,
                len(ids),
                [self._detokenizer.token(each) for each in ids],
                ids=ids,
                special=[self._special(each) for each in ids],
            )
        return found

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
        )

    def _stands_for_no_text(self, token_id: int) -> bool:
        return token_id in self._without_text or not self._detokenizer.text([token_id])


def _joined(before: Labels, output_steps: Labels) -> Labels:
    """Label the input of each step of a whole sequence: the prompt, and all output tokens but the last."""
    more = max(output_steps.size - 1, 0)
    size = before.size + more if output_steps.size else 0
    special = [*before.special, *(output_steps.special or [False] * more)[:more]]
    return replace(
        before,
        size=size,
        texts=[*before.texts, *output_steps.texts[:more]][:size],
        ids=[*before.ids, *output_steps.ids[:more]][:size],
        special=special[:size],
    )
