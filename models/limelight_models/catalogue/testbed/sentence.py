"""A sentence, one attention mechanism, a class: the task model in which scores and alignments are compared."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from limelight_models.cards.card import Card
from limelight_models.cards.inputs import Noise
from limelight_models.cards.maps import Map
from limelight_models.catalogue.testbed.classifier import SmallModel
from limelight_models.catalogue.testbed.readers import Reader
from limelight_models.catalogue.testbed.taxonomy import classifier
from limelight_models.catalogue.testbed.text import Features, Texts, text_input
from limelight_models.network import Answer
from limelight_models.tasks.heads import Scores


class SentenceModel(SmallModel):
    """Feature model -> query and attention models (the reader) -> classes (BF Fig. 1).

    Shapes: token_ids int64 [batch, token], token_mask bool of the same, noise float [batch, (step,) token] where the
        mechanism draws -> logits [batch, class], the reader's maps.
    """

    def __init__(self, texts: Texts, reader: Reader) -> None:
        super().__init__()
        self.features = Features(texts)
        self.reader = reader
        width = reader.eval().width(texts.d)
        scores = Scores(d_in=width, d_out=len(texts.labels), dropout=texts.dropout)
        self.classify = nn.Identity() if reader.classifies else scores

    def forward(self, **tensors: Tensor) -> Answer:
        mask, noise = tensors["token_mask"], tensors.get("noise")
        features = self.features(tensors["token_ids"], mask)
        vector, maps = self.reader(features, mask, noise)
        signals = self.reader.signals(features, mask, noise) if self.training else {}
        return Answer({"logits": self.classify(vector)}, maps, signals)


def card(texts: Texts, maps: Mapping[str, Map], *, noise_steps: int | None = None, **more: Any) -> Card:
    """Describe the model. noise_steps: as a `Reader` has it. more: as `classifier` takes it."""
    looks = {"step": noise_steps} if noise_steps else {}
    noise = () if noise_steps is None else [Noise(axes={**looks, "token": 0}, most=texts.max_tokens)]
    return classifier("sentences", texts, [text_input(texts)], maps, noise=noise, **more)
