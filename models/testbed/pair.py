"""Two sentences, a form of co-attention, a class: natural language inference in miniature."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from bundle.v1 import bundle_pb2
from limelight.v1 import attention_pb2, model_pb2
from models.cards import describe
from models.cards.card import Card
from models.catalogue.examples import flat
from models.network import Answer
from models.testbed.classifier import SmallModel
from models.testbed.layout import Layout, axes, fixed_sets, map_description
from models.testbed.text import MAX_CHARACTERS, TOKENIZER, Features, Texts, token_ids, tokens

FIRST, SECOND, PAIR = "first", "second", "pair"
ROW_OF_FIRST, ROW_OF_SECOND = Layout(queries=PAIR, keys=FIRST), Layout(queries=PAIR, keys=SECOND)
AFFINITY = Layout(queries=FIRST, keys=SECOND, kind=attention_pb2.MAP_KIND_CO, normalised=False, signed=True)


class PairModel(SmallModel):
    """Co-attention over two sentences, whose vectors are compared (Mou et al. 2016; Conneau et al. 2017).

    logits = W₂ relu(W₁ [c¹; c²; |c¹ - c²|; c¹ ⊙ c²])

    `read` calls the co-attention: (module, first, second, first_mask, second_mask) -> pairs of vectors, weights. The
    vectors are compared pair by pair.

    Shapes: first_ids int64 [batch, first], second_ids [batch, second], masks bool of the same
        -> logits [batch, class], maps by the names of `layouts`.
    """

    def __init__(
        self,
        texts: Texts,
        module: nn.Module,
        layouts: Mapping[str, Layout],
        *,
        read: "Read | None" = None,
        pairs: int = 1,
    ) -> None:
        super().__init__()
        self.features = Features(texts)
        self.module, self.layouts, self.read = module, layouts, read or plain
        self.compare = nn.Sequential(
            nn.Linear(4 * pairs * texts.d, 2 * texts.d),
            nn.ReLU(),
            nn.Dropout(texts.dropout),
            nn.Linear(2 * texts.d, len(texts.labels)),
        )

    def forward(self, **tensors: Tensor) -> Answer:
        masks = tensors["first_mask"], tensors["second_mask"]
        first, second = (self.features(tensors[f"{n}_ids"], m) for n, m in zip((FIRST, SECOND), masks, strict=True))
        vectors, weights = self.read(self.module, first, second, *masks)
        compared = [
            torch.cat([a, b, (a - b).abs(), a * b], -1) for a, b in zip(vectors[::2], vectors[1::2], strict=True)
        ]
        maps = dict(zip(self.layouts, flat(weights), strict=True))
        return Answer({"logits": self.compare(torch.cat(compared, -1))}, maps)


Read = Callable[[nn.Module, Tensor, Tensor, Tensor, Tensor], tuple[tuple[Tensor, ...], tuple]]


def plain(
    module: nn.Module, first: Tensor, second: Tensor, first_mask: Tensor, second_mask: Tensor
) -> tuple[tuple[Tensor, ...], tuple]:
    """A co-attention that gives a vector of each sentence."""
    return module(first, second, first_mask, second_mask)


def card(texts: Texts, layouts: Mapping[str, Layout], *, title: str, taxonomy: model_pb2.Taxonomy) -> Card:
    """Describe the model."""
    pair = model_pb2.InputDescription(
        name=PAIR,
        kind=model_pb2.INPUT_KIND_PAIR,
        summary="Two sentences, the premise first.",
        tensors=[token_ids(texts, prefix=f"{name}_", axis=name) for name in (FIRST, SECOND)],
    )
    label_sets = [tokens(name, input=PAIR, tensor=f"{name}_ids", dimension=name) for name in (FIRST, SECOND)]
    description = model_pb2.ModelDescription(
        title=title,
        summary=f"A small classifier of pairs of sentences whose attention is {title}.",
        task=model_pb2.TASK_CLASSIFICATION,
        inputs=[pair],
        outputs=[describe.logits(len(texts.labels))],
        result=describe.class_result(texts.labels),
        maps=[
            map_description(name, layout, summary=f"Weights of {title} over the {layout.keys} sentence.")
            for name, layout in layouts.items()
        ],
        label_sets=[*label_sets, *fixed_sets(layouts, {FIRST, SECOND})],
        limits=model_pb2.Limits(max_characters=MAX_CHARACTERS),
        taxonomy=taxonomy,
    )
    step = bundle_pb2.PreprocessingStep(
        tokenize=bundle_pb2.Tokenize(tokenizer=TOKENIZER, tensor=f"{FIRST}_ids", second_tensor=f"{SECOND}_ids")
    )
    return Card(
        description=description,
        preprocessing=(bundle_pb2.Preprocessing(input=PAIR, steps=[step]),),
        map_axes={name: axes(layout) for name, layout in layouts.items()},
        files={TOKENIZER: texts.tokenizer},
    )
