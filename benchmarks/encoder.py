"""The model that serving is measured with: a Transformer encoder of MiniLM's size, with random weights."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from bundle.names import BUNDLE_FILE
from bundle.v1 import bundle_pb2
from bundle.values import TensorValue
from export import export_model
from limelight.v1 import attention_pb2, model_pb2, values_pb2
from models.attention import Attention, masks
from models.attention.align.soft import Softmax
from models.attention.queries.multi_head import MultiHead
from models.attention.score.dot import ScaledDot
from models.cards.card import Card, TrainedModel
from models.network import Answer, Network

NAME = "encoder"
VOCABULARY = 8_000
LONGEST = 512


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes: 6 layers, 384 wide, 12 heads, as the encoder that most sentence embedders are made of."""

    layers: int = 6
    width: int = 384
    heads: int = 12
    inner: int = 1536


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

    def forward(self, features: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        attended, weights = self.attention(features, features, mask=mask)
        features = self.attention_norm(features + attended)
        inner = nn.functional.gelu(self.inner(features))
        return self.output_norm(features + self.outer(inner)), weights


class Encoder(Network):
    """Tokens and positions -> layers -> mean -> two classes."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, config.width)
        self.positions = nn.Embedding(LONGEST, config.width)
        self.norm = nn.LayerNorm(config.width)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.classes = nn.Linear(config.width, 2)

    def forward(self, *, token_ids: Tensor, token_mask: Tensor) -> Answer:
        """Shapes: token_ids and token_mask [batch, token] -> logits [batch, class], maps [batch, head, query, key]."""
        positions = torch.arange(token_ids.shape[1], device=token_ids.device)
        features = self.norm(self.tokens(token_ids) + self.positions(positions))
        mask = masks.valid(token_mask).build(query=token_ids.shape[1], key=token_ids.shape[1])
        maps = {}
        for number, layer in enumerate(self.layers):
            features, maps[f"encoder.{number}.self"] = layer(features, mask)
        real = token_mask.unsqueeze(-1).to(features.dtype)
        return Answer({"logits": self.classes((features * real).sum(1) / real.sum(1))}, maps)


def card(config: EncoderConfig) -> Card:
    """The description: the input is a tensor of token ids, so that only serving is measured and no tokenizer."""
    tokens = model_pb2.TensorDescription(
        name="token_ids",
        data_type=values_pb2.DATA_TYPE_INT64,
        dimensions=[model_pb2.Dimension(name="token", maximum=LONGEST)],
        pad_value=0,
        mask="token_mask",
        minimum=1,
        maximum=VOCABULARY - 1,
    )
    maps = [
        model_pb2.MapDescription(
            name=f"encoder.{layer}.self",
            stack="encoder",
            layer=layer,
            kind=attention_pb2.MAP_KIND_SELF,
            normalised=True,
            heads=config.heads,
            query_labels="tokens",
            key_labels="tokens",
            form=model_pb2.MAP_FORM_DENSE,
        )
        for layer in range(config.layers)
    ]
    description = model_pb2.ModelDescription(
        name=NAME,
        title="Transformer encoder",
        summary="Random weights; made to measure serving.",
        task=model_pb2.TASK_CLASSIFICATION,
        inputs=[model_pb2.InputDescription(name="token_ids", kind=model_pb2.INPUT_KIND_TENSOR, tensors=[tokens])],
        outputs=[
            model_pb2.OutputDescription(
                name="logits",
                data_type=values_pb2.DATA_TYPE_FLOAT32,
                dimensions=[model_pb2.Dimension(name="class", size=2)],
            )
        ],
        result=model_pb2.ResultDescription(
            classes=model_pb2.ClassesDescription(
                output="logits", labels=["no", "yes"], activation=model_pb2.ACTIVATION_SOFTMAX
            )
        ),
        maps=maps,
        label_sets=[
            model_pb2.LabelSetDescription(
                name="tokens",
                kind=attention_pb2.LABEL_KIND_TOKENS,
                input="token_ids",
                tensor="token_ids",
                dimension="token",
            )
        ],
    )
    axes = (bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_HEAD, bundle_pb2.AXIS_QUERY, bundle_pb2.AXIS_KEY)
    return Card(description=description, map_axes={each.name: axes for each in maps})


def make_repository(folder: Path) -> Path:
    """Export the encoder into `folder` unless it is there; give its first version's folder."""
    version = folder / NAME / "1"
    if not (version / BUNDLE_FILE).is_file():
        torch.manual_seed(0)
        model = Encoder(EncoderConfig()).eval().requires_grad_(False)
        examples = tuple({"token_ids": TensorValue(torch.randint(1, VOCABULARY, (size,)).numpy())} for size in (5, 12))
        trained = TrainedModel(
            model, card(EncoderConfig()), examples, model_pb2.TrainingData(name="none", summary="Random weights."), ()
        )
        export_model(trained, folder, version=1)
    return version
