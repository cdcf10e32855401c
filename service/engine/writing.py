"""Turns tokens that a model put out into text, label sets and stop checks."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from bundle.rows import Labels, Row
from bundle.text import Detokenizer, TextStream
from bundle.v1 import bundle_pb2
from limelight.v1 import attention_pb2, model_pb2
from service.engine.search import Hypothesis
from service.engine.types import FinishReason, Sequence


def sequence_description(description: model_pb2.ModelDescription) -> model_pb2.SequenceDescription:
    """Find the result that is a token sequence; empty where the model does not generate."""
    for each in description.results:
        if each.HasField("sequence"):
            return each.sequence
    return model_pb2.SequenceDescription()


def input_steps(description: model_pb2.ModelDescription) -> list[model_pb2.LabelSetDescription]:
    """Find the label sets of what goes into a model that generates."""
    return [each for each in description.label_sets if each.kind == attention_pb2.LABEL_KIND_INPUT_STEPS]


class Writer:
    """Writes the sequences of one model. Its label set of output steps is the one that its description names."""

    def __init__(self, bundle: bundle_pb2.Bundle, detokenizer: Detokenizer) -> None:
        self._label_set = sequence_description(bundle.description).label_set
        self._input_sets = tuple(input_steps(bundle.description))
        self._begin = bundle.generation.begin_token
        self._ends = frozenset({bundle.generation.begin_token, bundle.generation.end_token})
        self._detokenizer = detokenizer
        self._special = lru_cache(maxsize=65536)(self._stands_for_no_text)

    def token(self, token_id: int) -> str:
        """Give a token as the vocabulary writes it; empty for a special token."""
        return "" if self._special(token_id) else self._detokenizer.token(token_id)

    def stream(self) -> TextStream:
        """Begin a text that is written token by token."""
        return self._detokenizer.stream()

    def stopped(self, stop: tuple[str, ...]) -> Callable[[Hypothesis], bool] | None:
        """Make the check whether a stop text has appeared; None where there is none to look for."""
        if not stop:
            return None

        def check(hypothesis: Hypothesis) -> bool:
            text = self._detokenizer.text(hypothesis.token_ids())
            return any(each in text for each in stop)

        return check

    def sequence(self, hypothesis: Hypothesis, score: float, stop: tuple[str, ...]) -> Sequence:
        """Write a hypothesis that ended. A stop text, and what the last token put behind it, is left out."""
        chain = hypothesis.chain()
        token_ids = tuple(each.token for each in chain)
        text = self._detokenizer.text(token_ids)
        if hypothesis.finish is FinishReason.STOP:
            text = text[: min(place for place in map(text.find, stop) if place >= 0)]
        assert hypothesis.finish is not None
        return Sequence(token_ids, tuple(each.log_probability for each in chain), text, hypothesis.finish, score)

    def labels(self, row: Row, sequence: Sequence) -> dict[str, Labels]:
        """Give the label sets that a sequence decides: those of output and input steps."""
        put_out = self._put_out(sequence)
        steps = {self._label_set: put_out} if self._label_set else {}
        return steps | {name: _joined(labels, put_out) for name, labels in self.put_in(row).items()}

    def put_in(self, row: Row) -> dict[str, Labels]:
        """Give the label sets of the input steps before anything is put out: the begin token, and the prompt's."""
        found = {}
        for each in self._input_sets:
            ids = row.tensors[each.tensor].tolist() if each.tensor else []
            found[each.name] = Labels(
                each.name,
                attention_pb2.LABEL_KIND_INPUT_STEPS,
                1 + len(ids),
                [self._detokenizer.token(each) for each in (self._begin, *ids)],
                ids=[self._begin, *ids],
                special=[self._special(each) for each in (self._begin, *ids)],
            )
        return found

    def _put_out(self, sequence: Sequence) -> Labels:
        """Label the output steps: one token an entry, with its place in the sequence's text."""
        stream, places = self._detokenizer.stream(), [0]
        for token in sequence.token_ids:
            places.append(min(places[-1] + len(stream.add(token)), len(sequence.text)))
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
            attention_pb2.LABEL_KIND_OUTPUT_STEPS,
            len(texts),
            texts,
            starts,
            ends,
            sequence.token_ids,
            special if any(special) else (),
        )

    def _stands_for_no_text(self, token_id: int) -> bool:
        return token_id in self._ends or not self._detokenizer.text([token_id])


def _joined(before: Labels, put_out: Labels) -> Labels:
    """Label what went in for each step of a whole sequence: of what was put out, the last token did not."""
    more = max(put_out.size - 1, 0)
    size = before.size + more if put_out.size else 0
    special = [*before.special, *(put_out.special or [False] * more)[:more]]
    return replace(
        before,
        size=size,
        texts=[*before.texts, *put_out.texts[:more]][:size],
        ids=[*before.ids, *put_out.ids[:more]][:size],
        special=special[:size],
    )
