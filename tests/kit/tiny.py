"""Small models that between them have every shape of attention that an export must cope with."""

from collections.abc import Mapping

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn

from limelight.v1 import attention_pb2, model_pb2, values_pb2
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Instance, Text
from limelight_models.attention import Attention, Context
from limelight_models.attention.align import Hard
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot, SelfAttentive
from limelight_models.attention.token_packing import Packing
from limelight_models.blocks.recurrent import BiGru
from limelight_models.cards.card import Card, Metric, TrainedModel, TrainingData
from limelight_models.network import Answer, GeneratingNetwork, Network, StepAnswer

WORDS = ("a", "cat", "dog", "mat", "on", "ran", "sat", "the", ".")
PARTS = {"left": "a dog on", "target": "mat", "right": "ran . the cat"}  # of a sentence
BEGIN, END = 2, 3
VOCABULARY = len(WORDS) + 4
MAX_STEPS = 9
SIZE = 8
DATA = TrainingData(name="none", licence="CC0-1.0")
BATCH, HEAD, QUERY, KEY = (
    bundle_pb2.AXIS_BATCH,
    bundle_pb2.AXIS_HEAD,
    bundle_pb2.AXIS_QUERY,
    bundle_pb2.AXIS_KEY,
)


def tokenizer() -> str:
    """Words at white space; 0 pads, 1 is unknown, 2 begins, 3 ends."""
    names = ["<pad>", "<unk>", "<begin>", "<end>", *WORDS]
    made = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.Fuse()
    return str(made.to_str())


class Reader(Network):
    """Text -> classes: self-attention with two heads, then pooling by attention."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, SIZE)
        self.attention = MultiHead(attention=Attention(score=ScaledDot()), d_model=SIZE, heads=2)
        self.pool = Attention(score=SelfAttentive(d_k=SIZE, d_w=5))
        self.classify = nn.Linear(SIZE, 3)

    def mask(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return tensors["ids_mask"][:, None, None, :]

    def forward(self, **tensors: Tensor) -> Answer:
        words, mask = self.embedding(tensors["ids"]), self.mask(tensors)
        # A padded place attends to nothing, so that what it becomes depends on nothing.
        read, weights = self.attention(words, words, mask=mask & mask.transpose(-2, -1))
        pooled, pool = self.pool(None, read.unsqueeze(1), mask=mask)
        return Answer({"logits": self.classify(pooled[:, 0, 0])}, {"encoder.0.self": weights, "pool": pool[:, :, 0]})


class LongReader(Reader):
    """Text -> classes: two layers of self-attention of four heads, with weights far from uniform."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            MultiHead(attention=Attention(score=ScaledDot()), d_model=SIZE, heads=4) for _ in range(2)
        )
        for parameter in self.layers.parameters():
            parameter.data *= 2

    def forward(self, **tensors: Tensor) -> Answer:
        words, mask, maps = self.embedding(tensors["ids"]), self.mask(tensors), {}
        for number, layer in enumerate(self.layers):
            read, maps[f"encoder.{number}.self"] = layer(words, words, mask=mask & mask.transpose(-2, -1))
            words = words + read
        pooled, pool = self.pool(None, words.unsqueeze(1), mask=mask)
        return Answer({"logits": self.classify(pooled[:, 0, 0])}, {**maps, "pool": pool[:, :, 0]})


class PackedReader(LongReader):
    """The same with layers that see real tokens alone between the attention to each other."""

    def forward(self, **tensors: Tensor) -> Answer:
        packing, mask, maps = Packing(tensors["ids_mask"]), self.mask(tensors), {}
        words = packing.pack(self.embedding(tensors["ids"]))
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, MultiHead)
            read, maps[f"encoder.{number}.self"] = layer.over_itself(words, packing, mask & mask.transpose(-2, -1))
            words = words + read
        pooled, pool = self.pool(None, packing.unpack(words).unsqueeze(1), mask=mask)
        return Answer({"logits": self.classify(pooled[:, 0, 0])}, {**maps, "pool": pool[:, :, 0]})


class ReaderOfPadding(Reader):
    """The same without masks."""

    def mask(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return torch.ones_like(tensors["ids_mask"])[:, None, None, :]


class ReaderOfFewWords(Reader):
    """Reads as many words as the example has: the exporter unrolls the loop."""

    def forward(self, **tensors: Tensor) -> Answer:
        answer = super().forward(**tensors)
        words = self.embedding(tensors["ids"])
        total = sum((words[:, place] for place in range(words.shape[1])), torch.zeros(()))
        return Answer({"logits": answer.outputs["logits"] + total[:, :3]}, answer.maps)


class Documents(Network):
    """Document -> classes: words of each sentence, ragged, behind a bidirectional GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, SIZE)
        self.encoder = BiGru(d_in=SIZE, d_hidden=3)
        self.words = Attention(score=SelfAttentive(d_k=6, d_w=4))
        self.classify = nn.Linear(6, 2)

    def forward(self, **tensors: Tensor) -> Answer:
        ids, mask = tensors["ids"], tensors["ids_mask"]
        flat = mask.flatten(0, 1)
        states = self.encoder(self.embedding(ids.flatten(0, 1)), flat).unsqueeze(1)
        pooled, weights = self.words(None, states, mask=flat[:, None, None, :])
        sentences = pooled.reshape(ids.shape[0], ids.shape[1], 6).sum(1)
        return Answer({"logits": self.classify(sentences)}, {"word": weights.reshape(mask.shape)})


class Drawing(Network):
    """Text -> a class for each word, from one word drawn at random."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, SIZE)
        self.draw = Attention(score=SelfAttentive(d_k=SIZE, d_w=4), align=Hard())
        self.classify = nn.Linear(SIZE, 2)

    def forward(self, **tensors: Tensor) -> Answer:
        words = self.embedding(tensors["ids"])
        noise = Context(noise=tensors["luck"][:, None, None, :])
        drawn, weights = self.draw(None, words.unsqueeze(1), mask=tensors["ids_mask"][:, None, None, :], context=noise)
        tags = self.classify(words + drawn[:, 0]) * tensors["ids_mask"].unsqueeze(-1)
        return Answer({"tags": tags}, {"drawn": weights[:, 0, 0]})


class Writer(GeneratingNetwork):
    """Text -> text: looks at the source and at its own output, in a cache that grows; a sum begins as zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(VOCABULARY, SIZE)
        self.target = nn.Embedding(VOCABULARY, SIZE)
        self.look = Attention(score=ScaledDot())
        self.recall = Attention(score=ScaledDot())
        self.scores = nn.Linear(SIZE, VOCABULARY)

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        memory = self.source(tensors["ids"])
        mask = tensors["ids_mask"].unsqueeze(-1)
        return {"memory": memory, "start": (memory * mask).sum(1) / mask.sum(1), "unread": memory * 2}

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        embedded = self.target(token)
        query = (embedded + tensors["state"] + tensors["total"])[:, None, None, :]
        memory = tensors["memory"].unsqueeze(1)
        seen, cross = self.look(query, memory, mask=tensors["ids_mask"][:, None, None, :])
        cache, position, entry = tensors["cache"], tensors["place"].unsqueeze(1), embedded.unsqueeze(1)
        places = torch.arange(cache.shape[1])
        whole = torch.where((places == position).unsqueeze(-1), entry, cache)
        recalled, own = self.recall(query, whole.unsqueeze(1), mask=(places <= position)[:, None, None, :])
        state = torch.tanh(seen + recalled)[:, 0, 0]
        states = {"next_state": state, "next_total": tensors["total"] + state, "next_cache": entry}
        return StepAnswer(self.scores(state), states, {"decoder.cross": cross[:, :, 0], "decoder.self": own[:, 0, 0]})

    def forward(self, **tensors: Tensor) -> Answer:
        raise NotImplementedError  # training's, which these tests do without


def text_input(*, sentences: bool = False, longest: int = 50) -> model_pb2.InputDescription:
    """One input, `text`, that becomes `ids` [word], or [sentence, word]."""
    names = {"sentence": 20, "word": 50} if sentences else {"word": longest}
    return model_pb2.InputDescription(
        name="text",
        kind=model_pb2.INPUT_KIND_DOCUMENT if sentences else model_pb2.INPUT_KIND_TEXT,
        tensors=[
            model_pb2.TensorDescription(
                name="ids",
                data_type=values_pb2.DATA_TYPE_INT64,
                dimensions=[model_pb2.Dimension(name=name, maximum=most) for name, most in names.items()],
                fill=0 if sentences else None,
                minimum=1,
                maximum=VOCABULARY - 1,
            )
        ],
    )


def card(name: str, *, maps: dict[str, tuple[model_pb2.MapDescription, tuple[int, ...]]], **changes: object) -> Card:
    """Put a card together; `maps`: each with the axes of its tensor."""
    sentences = bool(changes.pop("sentences", False))
    longest = changes.pop("longest", 50)
    assert isinstance(longest, int)
    generation = changes.get("generation")
    outputs = changes.pop("outputs", {"logits": {"class": 3}})
    assert isinstance(outputs, dict)
    word = model_pb2.LabelSetDescription(
        name="words",
        kind=attention_pb2.LABEL_KIND_TOKENS,
        input="text",
        tensor="ids",
        dimension="word",
        parent="sentences" if sentences else "",
    )
    labels = [word, model_pb2.LabelSetDescription(name="one", kind=attention_pb2.LABEL_KIND_ONE)]
    if sentences:
        kind = attention_pb2.LABEL_KIND_SENTENCES
        labels.append(
            model_pb2.LabelSetDescription(name="sentences", kind=kind, input="text", tensor="ids", dimension="sentence")
        )
    if generation is not None:
        labels.append(model_pb2.LabelSetDescription(name="steps", kind=attention_pb2.LABEL_KIND_OUTPUT_STEPS))
        labels.append(model_pb2.LabelSetDescription(name="put_in", kind=attention_pb2.LABEL_KIND_INPUT_STEPS))
    steps = [bundle_pb2.PreprocessingStep(tokenize=bundle_pb2.Tokenize(tokenizer="words.json", tensor="ids"))]
    if sentences:
        steps.insert(0, bundle_pb2.PreprocessingStep(split_sentences=bundle_pb2.SplitSentences()))
    for each, (description, _) in maps.items():
        description.name = each
    return Card(
        description=model_pb2.ModelDescription(
            name=name,
            inputs=[text_input(sentences=sentences, longest=longest)],
            outputs=[
                model_pb2.OutputDescription(
                    name=output,
                    data_type=values_pb2.DATA_TYPE_FLOAT32,
                    dimensions=[model_pb2.Dimension(name=each, size=size) for each, size in dimensions.items()],
                )
                for output, dimensions in outputs.items()
            ],
            maps=[description for description, _ in maps.values()],
            label_sets=labels,
        ),
        tensors=(bundle_pb2.TensorBinding(tensor="ids", collation=bundle_pb2.COLLATION_STACK, mask="ids_mask"),),
        preprocessing=(bundle_pb2.Preprocessing(input="text", steps=steps),),
        map_axes={each: axes for each, (_, axes) in maps.items()},  # type: ignore[misc]
        files={"words.json": tokenizer()},
        **changes,  # type: ignore[arg-type]
    )


def a_map(queries: str, keys: str, *, heads: int = 1, edges: bool = False) -> model_pb2.MapDescription:
    """Describe a normalised map."""
    form = model_pb2.MAP_FORM_EDGES if edges else model_pb2.MAP_FORM_DENSE
    return model_pb2.MapDescription(query_labels=queries, key_labels=keys, heads=heads, form=form, normalised=True)


def reader_card() -> Card:
    """The card of `Reader` and its broken kin."""
    return card(
        "reader",
        maps={
            "encoder.0.self": (a_map("words", "words", heads=2), (BATCH, HEAD, QUERY, KEY)),
            "pool": (a_map("one", "words"), (BATCH, HEAD, KEY)),
        },
    )


def long_reader_card(name: str = "long_reader", longest: int = 400) -> Card:
    """The card of `LongReader`, whose maps are large enough to be computed only where they are asked for."""
    return card(
        name,
        longest=longest,
        maps={
            **{
                f"encoder.{number}.self": (a_map("words", "words", heads=4), (BATCH, HEAD, QUERY, KEY))
                for number in range(2)
            },
            "pool": (a_map("one", "words"), (BATCH, HEAD, KEY)),
        },
    )


def documents_card() -> Card:
    """The card of `Documents`."""
    maps = {"word": (a_map("sentences", "words", edges=True), (BATCH, QUERY, KEY))}
    return card("documents", sentences=True, outputs={"logits": {"class": 2}}, maps=maps)


def drawing_card() -> Card:
    """The card of `Drawing`."""
    luck = model_pb2.TensorDescription(
        name="luck",
        data_type=values_pb2.DATA_TYPE_FLOAT32,
        dimensions=[model_pb2.Dimension(name="word")],
    )
    return card(
        "drawing",
        outputs={"tags": {"word": 0, "tag": 2}},
        maps={"drawn": (a_map("one", "words"), (BATCH, KEY))},
        noise=(bundle_pb2.NoiseInput(tensor=luck, distribution=bundle_pb2.DISTRIBUTION_UNIFORM),),
    )


def writer_card() -> Card:
    """The card of `Writer`."""

    def zeros(**dimensions: int) -> model_pb2.TensorDescription:
        axes = [model_pb2.Dimension(name=name, size=size) for name, size in dimensions.items()]
        return model_pb2.TensorDescription(data_type=values_pb2.DATA_TYPE_FLOAT32, dimensions=axes)

    return card(
        "writer",
        outputs={"scores": {"step": 0, "token": VOCABULARY}},
        maps={
            "decoder.cross": (a_map("steps", "words"), (BATCH, HEAD, QUERY, KEY)),
            "decoder.self": (a_map("steps", "put_in"), (BATCH, QUERY, KEY)),
        },
        generation=bundle_pb2.Generation(
            encoder="encoder",
            step="step",
            token_input="token",
            scores_output="scores",
            states=[
                bundle_pb2.State(input="state", output="next_state", encoder_output="start"),
                bundle_pb2.State(input="total", output="next_total", zeros=zeros(feature=SIZE)),
                bundle_pb2.State(input="cache", output="next_cache", zeros=zeros(past=0, feature=SIZE), growing_axis=1),
            ],
            lengths_input="place",
            begin_token=BEGIN,
            end_token=END,
            tokenizer="words.json",
            max_new_tokens=MAX_STEPS,
        ),
    )


def trained(model: Network, its_card: Card, *texts: str) -> TrainedModel:
    """Pretend that a model was trained."""
    examples: tuple[Instance, ...] = tuple({"text": Text(text)} for text in texts or ("the cat sat on a mat .", "dog"))
    return TrainedModel(model, its_card, examples, DATA, (Metric(name="accuracy", value=0.5),))
