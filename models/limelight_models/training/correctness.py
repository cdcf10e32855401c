"""Correctness of attention: weight on gold places, measured on every map whose axes have them.

The share of weight on the right places is the attention correctness of Liu et al. (2017); the alignment error rate is
that of Och and Ney (2003), over words, each word of the output being linked to the one that has most of its weight.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.maps import canonical, cut, nested_mask_name
from limelight_bundle.rows import Labels, Row
from limelight_bundle.text import Encoder
from limelight_bundle.values import Array, Text
from limelight_models.cards.by_example import ratios
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import Example
from limelight_models.data.gold import Gold, Span, covered, of_the_whole, word_spans
from limelight_models.network import Network
from limelight_models.tasks.task import HeldOut, answers

_OUTPUT = (attention_pb2.LABEL_KIND_OUTPUT_STEPS, attention_pb2.LABEL_KIND_INPUT_STEPS)

WEIGHT = "weight on the right place"
_EQUAL = 1e-6  # of the largest weight: what rounding leaves between equal ones


@dataclass
class Tally:
    """Sums of one map over all gold, by head where they are arrays.

    even: what equal weights would have of them. agreed: links that are sure, and those that are not wrong. links: of
    the map, and sure ones.
    """

    count: int = 0
    shares: Array | float = 0.0
    hits: Array | float = 0.0
    even: float = 0.0
    agreed: Array | float = 0.0
    links: int = 0

    def add(self, weights: Array, right: Array, there: Array) -> None:
        """Add queries that ask for the same: weights [head, query, key], which keys are right, bool [key], and which
        there are for each query, bool [query, key].
        """
        sizes = np.abs(weights)
        total = sizes.sum(-1)
        share = np.divide(sizes[..., right].sum(-1), total, out=np.zeros_like(total), where=total > 0)
        self.count += 1
        self.shares = self.shares + share.mean(-1)
        # Of keys that are equally strong, none is the strongest: each is with the same chance.
        strongest = sizes >= (1 - _EQUAL) * sizes.max(-1, keepdims=True)
        self.hits = self.hits + (strongest[..., right].sum(-1) / strongest.sum(-1)).mean(-1)
        self.even += float(((right & there).sum(-1) / np.maximum(there.sum(-1), 1)).mean())

    def link(self, weights: Array, sure: Array, possible: Array) -> None:
        """Add a word of the output: weights [head, word], and which words are right, bool [word]."""
        best = np.abs(weights).argmax(-1)
        self.agreed = self.agreed + sure[best] + (possible | sure)[best]
        self.links += 1 + int(sure.sum())

    @property
    def weight(self) -> Array:
        """The share of weight on the right places, by head."""
        return np.atleast_1d(np.asarray(self.shares)) / self.count


def metrics(name: str, tallies: Mapping[int, Tally]) -> Iterator[Metric]:
    """The mean over the heads of a map and the best head's own; of weight every head's, as they may share the work.

    tallies: of each example, by its index.
    """
    whole = Tally(*map(sum, zip(*map(astuple, tallies.values()), strict=True)))
    if not whole.count:
        return
    weight = ratios({index: (float(np.mean(each.shares)), each.count) for index, each in tallies.items()})
    for what, sums in ((WEIGHT, whole.shares), ("strongest on the right place", whole.hits)):
        heads = np.atleast_1d(np.asarray(sums)) / whole.count
        named = {f"{what}, {name}": float(heads.mean())}
        if len(heads) > 1:
            named[f"{what}, {name}, best head"] = float(heads.max())
            if what == WEIGHT:
                named |= {f"{what}, {name}, head {number}": float(each) for number, each in enumerate(heads)}
        for full, value in named.items():
            yield Metric(
                name=full,
                value=value,
                baseline=whole.even / whole.count,
                baseline_name="equal weights",
                by_example=weight if full == f"{WEIGHT}, {name}" else None,
            )
    if whole.links:
        heads = np.atleast_1d(whole.agreed)
        best = int(heads.argmax())
        agreed = {index: float(np.broadcast_to(each.agreed, heads.shape)[best]) for index, each in tallies.items()}
        wrong = ratios({index: (each.links - agreed[index], each.links) for index, each in tallies.items()})
        head = ", best head" if len(heads) > 1 else ""
        yield Metric.over(wrong, name=f"alignment error rate, {name}{head}")


def correctness(network: Network, card: Card, held_out: HeldOut) -> list[Metric]:
    """Measure every map on examples of which it is known where to look; nothing where none is.

    Gold counts on a map where its `of` lies on the queries (or is None, and a query stands for no part of an input) and
    its places on the keys. What was cut off with the end of a text is not asked for.
    """
    if not any(example.gold for example in held_out.examples):
        return []
    maps = [each for each in card.description.maps if each.name not in card.edges]
    tallies: dict[str, dict[int, Tally]] = {each.name: {} for each in maps}
    for index, row, found in looks(network, card, held_out, maps):
        for each in maps:
            if each.name in found:
                queries, keys = row.labels[each.query_labels], row.labels[each.key_labels]
                one = Tally()
                add(one, *found[each.name], queries, keys, held_out.examples[index])
                tallies[each.name][index] = one
    return [metric for name, each in tallies.items() if each for metric in metrics(name, each)]


def looks(
    network: Network, card: Card, held_out: HeldOut, maps: Sequence[model_pb2.MapDescription]
) -> Iterator[tuple[int, Row, dict[str, tuple[Array, Array]]]]:
    """Each example's index, what its axes count, and of these maps, where there are any, the weights
    [head, query, key] and which of them there are, bool [query, key].
    """
    reader = Reader(card)
    for batch, answer in answers(network, held_out):
        whole = {
            each.name: canonical(answer.maps[each.name].numpy(), card.map_axes[each.name])
            for each in maps
            if each.name in answer.maps
        }
        for place, index in enumerate(batch.indices):
            row = reader.row(held_out.examples[index])
            shown = (each for each in maps if each.name in whole)
            yield index, row, {each.name: dense(whole[each.name][place], card, each, row) for each in shown}


def add(tally: Tally, weights: Array, there: Array, queries: Labels, keys: Labels, example: Example) -> None:
    """Add what one map [head, query, key] has of an example's gold; there: which weights there are [query, key]."""
    words = None
    for gold in example.gold:
        asking, right = asked(gold, queries, keys)
        if len(asking):
            tally.add(weights[:, asking], right, there[asking])
            if gold.possible and isinstance(gold.right[0], Span):
                words = gold.right[0].input
    if words is not None:
        _link(tally, weights, queries, keys, example, words)


def asked(gold: Gold, queries: Labels, keys: Labels) -> tuple[Array, Array]:
    """Which queries ask for it, int [query], and which keys are right, bool [key]; no query where no key is."""
    asking = of_the_whole(queries) if gold.of is None else covered(queries, (gold.of,))
    right = covered(keys, gold.right)
    return np.flatnonzero(asking & right.any()), right


def _link(tally: Tally, weights: Array, queries: Labels, keys: Labels, example: Example, source: str) -> None:
    """Link each word of the output to the word of the source with most weight."""
    known = {gold.of: gold for gold in example.gold if gold.of is not None}
    output = next(of.input for of in known if isinstance(of, Span))
    words = [covered(keys, (word,)) for word in _words(example, source)]
    for word in _words(example, output):
        asking = covered(queries, (word,))
        if asking.any():
            mean = weights[:, asking].mean(1)  # [head, key]
            by_word = np.stack([mean[:, each].sum(-1) for each in words], -1)
            gold = known.get(word)
            sure, possible = (
                np.array([any((covered(keys, (place,)) & each).any() for place in places) for each in words], bool)
                for places in ((gold.keys, gold.possible) if gold else ((), ()))
            )
            tally.link(by_word, sure, possible)


def _words(example: Example, name: str) -> Sequence[Span]:
    value = example.instance[name]
    return word_spans(name, value.text) if isinstance(value, Text) else ()


def dense(array: Array, card: Card, description: model_pb2.MapDescription, row: Row) -> tuple[Array, Array]:
    """One instance's weights [head, query, key], from a batch's [head, query, key(, feature)], cut to its own sizes.

    And where there are any, bool [query, key]: of edges, a query has some keys only.
    """
    found = cut(array, description, row.labels, row, nested_mask_name(card.description, description, card.bound()))
    weights = np.abs(found.weights).mean(-1) if description.features else found.weights
    if found.query_index is None:
        return weights, np.ones(weights.shape[1:], bool)
    sizes = row.labels[description.query_labels].size, row.labels[description.key_labels].size
    whole, there = np.zeros((len(weights), *sizes), weights.dtype), np.zeros(sizes, bool)
    whole[:, found.query_index, found.key_index] = weights
    there[found.query_index, found.key_index] = True
    return whole, there


class Reader:
    """Reads an example as the card's preprocessing does, with what its output steps are when its target is forced."""

    def __init__(self, card: Card) -> None:
        self._card, self._preprocessor = card, card.preprocessor()
        self._steps = [each for each in card.description.label_sets if each.kind in _OUTPUT]
        self._encoder: Encoder | None = None
        if card.written is not None:
            text, most = card.written.tokenizer.text, card.written.max_new_tokens
            self._encoder = Encoder(text, special_tokens=True, maximum=most)

    def row(self, example: Example) -> Row:
        """The tensors, sizes and label sets of an example."""
        row = self._preprocessor.row(example.instance, truncate=True)
        return Row(row.tensors, row.sizes, {**row.labels, **self._put_out(example, row.labels)})

    def _put_out(self, example: Example, labels: Mapping[str, Labels]) -> dict[str, Labels]:
        written = self._card.written
        if written is None or self._encoder is None:
            return {}
        value = example.instance[written.target]
        assert isinstance(value, Text)
        (found,) = self._encoder.encode([value.text])
        special = list(found.special) or [False] * len(found.ids)
        output = Labels(
            written.steps.name,
            attention_pb2.LABEL_KIND_OUTPUT_STEPS,
            len(found.ids),
            starts=found.starts,
            ends=found.ends,
            special=special,
            inputs=(written.target,),
        )
        return {
            each.name: output
            if each.kind == attention_pb2.LABEL_KIND_OUTPUT_STEPS
            else self._put_in(each, example, output)
            for each in self._steps
        }

    def _put_in(self, description: model_pb2.LabelSetDescription, example: Example, output: Labels) -> Labels:
        """The begin token, the prompt's, and those put out but for the last."""
        starts, ends, special = [0], [0], [True]
        prompt = self._card.written.prompt if self._card.written else None
        if prompt is not None:
            value = example.instance[prompt.name]
            assert isinstance(value, Text)
            encoder = Encoder(prompt.tokenizer.text, special_tokens=prompt.special_tokens, maximum=prompt.max_tokens)
            (found,) = encoder.encode([value.text])
            starts, ends = [*starts, *found.starts], [*ends, *found.ends]
            special += list(found.special) or [False] * len(found.ids)
        before = len(starts)
        return Labels(
            description.name,
            description.kind,
            before + output.size - 1,
            starts=[*starts, *output.starts[:-1]],
            ends=[*ends, *output.ends[:-1]],
            special=[*special, *output.special[:-1]],
            inputs=(*((prompt.name,) if prompt else ()), *output.inputs),
            input_indices=[0] * before + [1 if prompt else 0] * (output.size - 1),
        )
