"""A sentence, one attention mechanism, a class: the task model in which scores and alignments are compared."""

from torch import Tensor

from limelight.v1 import bundle_pb2, model_pb2, values_pb2
from models.attention import Attention
from models.card import Answer, Card, TaskModel
from models.zoo import describe
from models.zoo.mechanism_readers import TEXT, TOKENS, Reader
from models.zoo.mechanism_text import MAX_CHARACTERS, TOKENIZER, Classify, Features, Texts, text_input, tokens

MAP = "attention"


class SentenceModel(TaskModel):
    """Feature model -> query and attention models (the reader) -> classes (BF Fig. 1).

    Shapes: token_ids int64 [batch, token], token_mask bool of the same, noise float [batch, (step,) token] where the
        mechanism draws -> logits [batch, class], map `attention` [batch, head, query, key(, feature)].
    """

    def __init__(self, texts: Texts, reader: Reader) -> None:
        super().__init__()
        self.features = Features(texts)
        self.reader = reader
        self.classify = Classify(texts, d_in=reader.eval().width(texts.d))

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["token_mask"]
        vector, weights = self.reader(self.features(tensors["token_ids"], mask), mask, tensors.get("noise"))
        return Answer({"logits": self.classify(vector)}, {MAP: weights})


def card(texts: Texts, reader: Reader, *, title: str, taxonomy: model_pb2.Taxonomy) -> Card:
    """Describe the model."""
    layout, attention = reader.layout, reader.attention
    weights = model_pb2.MapDescription(
        name=MAP,
        stack=MAP,
        kind=layout.kind,
        normalised=declares_normalised(attention),
        signed=attention.signed,
        heads=layout.heads,
        query_labels=layout.queries,
        key_labels=TOKENS,
        form=model_pb2.MAP_FORM_DENSE,
        features=layout.features,
        summary=f"The weights of {title} over the words.",
    )
    label_sets = [tokens(TOKENS, input="text", tensor="token_ids", dimension="token")]
    if layout.queries != TOKENS:
        label_sets.append(
            model_pb2.LabelSetDescription(name=layout.queries, kind=layout.label_kind, names=layout.names)
        )
    description = model_pb2.ModelDescription(
        title=title,
        summary=f"A small classifier of sentences whose one attention is {title}.",
        task=model_pb2.TASK_CLASSIFICATION,
        inputs=[text_input(texts, name=TEXT, prefix="token_", axis="token")],
        outputs=[describe.logits(len(texts.labels))],
        result=describe.class_result(texts.labels),
        maps=[weights],
        label_sets=label_sets,
        limits=model_pb2.Limits(max_characters=MAX_CHARACTERS),
        taxonomy=taxonomy,
    )
    axes = (bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_HEAD, bundle_pb2.AXIS_QUERY, bundle_pb2.AXIS_KEY)
    return Card(
        description=description,
        preprocessing=(bundle_pb2.Preprocessing(input=TEXT, steps=[describe.tokenize(TOKENIZER, "token_ids")]),),
        map_axes={MAP: (*axes, bundle_pb2.AXIS_FEATURE) if layout.features else axes},
        files={TOKENIZER: texts.tokenizer},
        noise=() if reader.noise_steps is None else (noise(texts, reader.noise_steps),),
    )


def noise(texts: Texts, steps: int) -> bundle_pb2.NoiseInput:
    """Uniform numbers, one a token, for each of `steps` looks (0: one look, no axis)."""
    axes = [model_pb2.Dimension(name="step", size=steps)] if steps else []
    return bundle_pb2.NoiseInput(
        tensor=model_pb2.TensorDescription(
            name="noise",
            data_type=values_pb2.DATA_TYPE_FLOAT32,
            dimensions=[*axes, model_pb2.Dimension(name="token", maximum=texts.max_tokens)],
        ),
        distribution=bundle_pb2.DISTRIBUTION_UNIFORM,
    )


def declares_normalised(attention: Attention) -> bool:
    """Whether every row of weights sums to 1: signed kernels and windows that can be empty do not."""
    return attention.normalised and not attention.signed
