"""A sentence, one attention mechanism, a class: the task model in which scores and alignments are compared."""

from collections.abc import Mapping

from torch import Tensor, nn

from bundle.v1 import bundle_pb2
from limelight.v1 import model_pb2, values_pb2
from models.cards import describe
from models.cards.card import Card
from models.network import Answer
from models.testbed.classifier import SmallModel
from models.testbed.layout import TEXT, TOKENS, Layout, axes, fixed_sets, map_description
from models.testbed.readers import Reader
from models.testbed.text import MAX_CHARACTERS, TOKENIZER, Classify, Features, Texts, text_input, tokens


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
        self.classify = nn.Identity() if reader.classifies else Classify(texts, d_in=width)

    def forward(self, **tensors: Tensor) -> Answer:
        mask, noise = tensors["token_mask"], tensors.get("noise")
        features = self.features(tensors["token_ids"], mask)
        vector, maps = self.reader(features, mask, noise)
        outputs = {"logits": self.classify(vector)}
        if self.training:
            outputs |= self.reader.signals(features, mask, noise)
        return Answer(outputs, maps)


def card(
    texts: Texts,
    layouts: Mapping[str, Layout],
    *,
    title: str,
    taxonomy: model_pb2.Taxonomy,
    noise_steps: int | None = None,
) -> Card:
    """Describe the model; noise_steps: as a `Reader` has it."""
    label_sets = [tokens(TOKENS, input=TEXT, tensor="token_ids", dimension="token")]
    description = model_pb2.ModelDescription(
        title=title,
        summary=f"A small classifier of sentences whose attention is {title}.",
        task=model_pb2.TASK_CLASSIFICATION,
        inputs=[text_input(texts, name=TEXT, prefix="token_", axis="token")],
        outputs=[describe.logits(len(texts.labels))],
        result=describe.class_result(texts.labels),
        maps=[
            map_description(name, layout, summary=f"The weights of {title} over the words.")
            for name, layout in layouts.items()
        ],
        label_sets=[*label_sets, *fixed_sets(layouts, {TOKENS})],
        limits=model_pb2.Limits(max_characters=MAX_CHARACTERS),
        taxonomy=taxonomy,
    )
    return Card(
        description=description,
        preprocessing=(bundle_pb2.Preprocessing(input=TEXT, steps=[describe.tokenize(TOKENIZER, "token_ids")]),),
        map_axes={name: axes(layout) for name, layout in layouts.items()},
        files={TOKENIZER: texts.tokenizer},
        noise=() if noise_steps is None else (noise(texts, noise_steps),),
    )


def noise(texts: Texts, steps: int) -> bundle_pb2.NoiseInput:
    """Uniform numbers, one a token, for each of `steps` looks (0: one look, no axis)."""
    looks = [model_pb2.Dimension(name="step", size=steps)] if steps else []
    return bundle_pb2.NoiseInput(
        tensor=model_pb2.TensorDescription(
            name="noise",
            data_type=values_pb2.DATA_TYPE_FLOAT32,
            dimensions=[*looks, model_pb2.Dimension(name="token", maximum=texts.max_tokens)],
        ),
        distribution=bundle_pb2.DISTRIBUTION_UNIFORM,
    )
