"""The models of the serving benchmark, with random weights: a Transformer encoder of MiniLM's size, the same without
maps, and a tiny one that computes about 50 µs.
"""

from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.encoder_sizes import MODELS, NAME, VOCABULARY, EncoderConfig
from limelight_bundle.names import BUNDLE_FILE
from limelight_bundle.values import TensorValue
from limelight_export import export_model
from limelight_models.attention import Attention, masks
from limelight_models.attention.align.soft import Softmax
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score.dot import ScaledDot
from limelight_models.attention.token_packing import Packing
from limelight_models.cards.card import Card, TrainedModel, TrainingData
from limelight_models.cards.describe import describe
from limelight_models.cards.inputs import TensorInput, TensorSpec
from limelight_models.cards.labels import LabelSet
from limelight_models.cards.maps import map_of
from limelight_models.cards.results import Classes
from limelight_models.cards.taxonomy import Taxonomy
from limelight_models.network import Answer, Network


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each with residual, then normalised (Vaswani et al. 2017, §3.1)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        attention = Attention(score=ScaledDot(), align=Softmax())
        self.attention = MultiHead(attention=attention, d_model=config.width, heads=config.heads)
        self.attention_norm = nn.LayerNorm(config.width)
        self.inner = nn.Linear(config.width, config.inner)
        self.outer = nn.Linear(config.inner, config.width)
        self.output_norm = nn.LayerNorm(config.width)

    def forward(self, features: Tensor, packing: Packing, mask: Tensor) -> tuple[Tensor, Tensor]:
        attended, weights = self.attention.over_itself(features, packing, mask)
        features = self.attention_norm(features + attended)
        inner = nn.functional.gelu(self.inner(features))
        return self.output_norm(features + self.outer(inner)), weights


class Encoder(Network):
    """Tokens and positions -> layers -> mean -> two classes."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.has_maps, self.packs = config.maps, config.packs
        self.tokens = nn.Embedding(VOCABULARY, config.width)
        self.longest = config.longest
        self.positions = nn.Embedding(config.longest, config.width)
        self.norm = nn.LayerNorm(config.width)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.classes = nn.Linear(config.width, 2)

    def forward(self, *, token_ids: Tensor, token_mask: Tensor) -> Answer:
        """Shapes: token_ids and token_mask [batch, token] -> logits [batch, class], maps [batch, head, query, key]."""
        positions = torch.arange(token_ids.shape[1], device=token_ids.device)
        packing = Packing(token_mask if self.packs else None)
        features = self.norm(packing.pack(self.tokens(token_ids) + self.positions(positions)))
        mask = masks.valid(token_mask).build(query=token_ids.shape[1], key=token_ids.shape[1])
        maps = {}
        for number, layer in enumerate(self.layers):
            features, weights = layer(features, packing, mask)
            if self.has_maps:
                maps[f"encoder.{number}.self"] = weights
        features = packing.unpack(features)
        real = token_mask.unsqueeze(-1).to(features.dtype)
        return Answer({"logits": self.classes((features * real).sum(1) / real.sum(1))}, maps)


def card(network: Encoder, name: str = NAME) -> Card:
    """The description: the input is a tensor of token ids, so that only serving is measured and no tokenizer."""
    ids = TensorSpec(
        name="token_ids",
        data_type="int64",
        dimensions={"token": network.longest},
        mask="token_mask",
        minimum=1,
        maximum=VOCABULARY - 1,
    )
    tokens = LabelSet(name="tokens", kind="tokens", input="token_ids", tensor="token_ids", dimension="token")
    return describe(
        name=name,
        title="Transformer encoder",
        summary="Random weights; made to measure serving.",
        inputs=[TensorInput(name="token_ids", summary="Ids of tokens.", tensor=ids)],
        results=[Classes(labels=["no", "yes"])],
        maps={
            f"encoder.{number}.self": map_of(layer.get_submodule("attention"), "self", queries=tokens, keys=tokens)
            for number, layer in enumerate(network.layers)
            if network.has_maps
        },
        taxonomy=Taxonomy(scoring="scaled multiplicative", query="self-attentive", multiplicity="multi-head"),
    )


def make_repository(folder: Path) -> Path:
    """Export the missing models into `folder`; give the folder of the encoder's first version."""
    for name, config in MODELS.items():
        export_encoder(folder, name, config)
    return folder / NAME / "1"


def export_encoder(
    folder: Path,
    name: str,
    config: EncoderConfig,
    *,
    version: int = 1,
    precision: str = "float32",
    interventions: bool = False,
) -> Path:
    """Export a model into `folder` unless it is there; give the folder of that version."""
    made = folder / name / str(version)
    if not (made / BUNDLE_FILE).is_file():
        torch.manual_seed(0)
        model = Encoder(config).eval().requires_grad_(False)
        examples = tuple({"token_ids": TensorValue(torch.randint(1, VOCABULARY, (size,)).numpy())} for size in (5, 12))
        data = TrainingData(name="none", summary="Random weights.")
        trained = TrainedModel(model, card(model, name), examples, data, ())
        export_model(trained, folder, version=version, precision=precision, interventions=interventions)
    return made
