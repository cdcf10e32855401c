"""The recipe of models that put out a sequence."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bundle.text import Detokenizer
from limelight.v1 import model_pb2
from models.cards.card import Card
from models.data import dates, rows, tokenizers
from models.data.dataset import Dataset
from models.network import GeneratingNetwork, Network
from models.training.batches import Batch, Batches
from models.training.decode import greedy
from models.training.recipe import Plan, Recipe
from models.training.settings import Preset
from models.zoo.rnn_search.bahdanau import Bahdanau, BahdanauConfig
from models.zoo.rnn_search.bahdanau_card import SOURCE_TOKENIZER, TARGET_TOKENIZER, card


class Sequences(Recipe[BahdanauConfig]):
    """RNNsearch over pairs of texts; `make` can be a variant."""

    config_type = BahdanauConfig
    data_kind = rows.PAIRS
    preset = "bahdanau"

    def __init__(self, make: Callable[[BahdanauConfig], Bahdanau]) -> None:
        self._make = make

    def builtin(self, seed: int) -> Dataset:
        return dates.dataset(seed=seed)

    def plan(self, dataset: Dataset, preset: Preset) -> Plan[BahdanauConfig]:
        sources = tokenizers.texts_of([example.instance["text"] for example in dataset.train])
        targets = tokenizers.texts_of([example.instance["target"] for example in dataset.train])
        if preset.vocabulary:
            source = tokenizers.pieces(sources, vocabulary=preset.vocabulary, output=False)
            target = tokenizers.pieces(targets, vocabulary=preset.vocabulary, output=True)
        else:
            source = tokenizers.characters(sources, lower=True, output=False)
            target = tokenizers.characters(targets, lower=False, output=True)
        begin, end = tokenizers.special_ids(target)
        config = BahdanauConfig(
            source_vocabulary=tokenizers.size(source),
            target_vocabulary=tokenizers.size(target),
            begin=begin,
            end=end,
            **preset.sizes,
        )
        return Plan(config, (), {SOURCE_TOKENIZER: source, TARGET_TOKENIZER: target})

    def build(self, config: BahdanauConfig) -> Network:
        return self._make(config)

    def card(self, plan: Plan[BahdanauConfig]) -> Card:
        with torch.device("meta"):  # only asked for the shape of its weights
            by_feature = self._make(plan.config).attention.score.multidimensional
        return card(
            plan.config,
            source_tokenizer=plan.files[SOURCE_TOKENIZER],
            target_tokenizer=plan.files[TARGET_TOKENIZER],
            features=2 * plan.config.d_encoder if by_feature else 0,
        )

    def loss(self, model: Network, batch: Batch) -> tuple[Tensor, int]:
        mask = batch.tensors["target_mask"]
        scores = model(**batch.tensors).outputs["scores"]
        return cross_entropy(scores[mask], batch.tensors["target_ids"][mask], reduction="sum"), int(mask.sum())

    def judge(self, model: Network, card: Card, batches: Batches, dataset: Dataset) -> list[model_pb2.Metric]:
        """Greedy output: share that is exactly right, BLEU; with the target forced: share of tokens that are right."""
        assert isinstance(model, GeneratingNetwork) and card.generation is not None
        right = total = 0
        answers: dict[int, str] = {}
        detokenizer = Detokenizer(card.files[TARGET_TOKENIZER])
        with torch.no_grad():
            for batch in batches.in_order():
                mask = batch.tensors["target_mask"]
                best = model(**batch.tensors).outputs["scores"].argmax(-1)
                right += int((best == batch.tensors["target_ids"])[mask].sum())
                total += int(mask.sum())
                for index, tokens in zip(batch.indices, greedy(model, card.generation, batch.tensors), strict=True):
                    answers[index] = detokenizer.text(tokens)
        written = [answers[index] for index in range(len(answers))]
        wanted = tokenizers.texts_of([example.instance["target"] for example in batches.examples])
        exact = sum(a == b for a, b in zip(written, wanted, strict=True)) / len(wanted)
        metrics = [
            model_pb2.Metric(name="exact match", value=exact, split="held-out"),
            model_pb2.Metric(name="token accuracy", value=right / total, split="held-out"),
        ]
        by_words = any(" " in text for text in wanted)
        return [*metrics, *(bleu(written, wanted) if by_words else [])]


def bleu(written: Sequence[str], wanted: Sequence[str]) -> list[model_pb2.Metric]:
    """Corpus BLEU by sacrebleu's defaults, from 0 to 100; nothing where sacrebleu is not installed."""
    try:
        import sacrebleu
    except ImportError:
        print("BLEU is left out: sacrebleu is not installed (pip install sacrebleu)")
        return []
    score = sacrebleu.corpus_bleu(list(written), [list(wanted)]).score
    return [model_pb2.Metric(name="bleu", value=score, split="held-out")]
