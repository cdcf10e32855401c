"""Shared parts of the small task models: their texts, and a light feature model that leaves the work to attention."""

from dataclasses import dataclass

from torch import Tensor, nn

from limelight_models.cards.inputs import TextInput, Tokenizer
from limelight_models.cards.labels import LabelSet, one
from limelight_models.data import tokenizers

ATTENTION = "attention"  # the map of a model that has one
TEXT = one("text")  # a text as one thing
TOKENS = LabelSet(name="tokens", kind="tokens", input="text", tensor="token_ids", dimension="token")

# What the survey leaves open, chosen here once, so that mechanisms are compared on equal terms.
RADIUS = 3  # of local windows, in words
FILTERS = 3  # of a Gaussian grid
OUTPUTS = 3  # rows of an importance matrix
RANDOM_FEATURES = 64
PARTS = 4  # heads of multi-head attention
VARIABLES = 3  # beside a text, where no data say how many
CLASSES = 4  # where no text decides


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The sizes at which a mechanism is built: in a task model those that are here, in tests smaller ones.

    d: of features. d_hidden: of hidden layers inside a mechanism; 0 for d. heads: of a score or an alignment itself;
    parts: those of multi-head attention, between which d is divided. max_tokens: the longest input. radius: of local
    windows, in words. filters: of a Gaussian grid. outputs: rows of an importance matrix. variables: numbers that are
    known beside a text.
    """

    d: int = 32
    d_hidden: int = 0
    heads: int = 1
    parts: int = PARTS
    max_tokens: int = 64
    radius: int = RADIUS
    filters: int = FILTERS
    outputs: int = OUTPUTS
    random_features: int = RANDOM_FEATURES
    variables: int = VARIABLES

    @property
    def d_w(self) -> int:
        """Size of hidden layers."""
        return self.d_hidden or self.d

    @property
    def classes(self) -> int:
        """Size of the axis that has one entry a class."""
        return CLASSES


@dataclass(frozen=True, kw_only=True)
class Texts(Scale):
    """Texts and classes of a small task model.

    tokenizer: text of its file; labels: names of the classes; max_*: the longest input.
    """

    tokenizer: str
    labels: tuple[str, ...]
    dropout: float = 0.3
    max_sentences: int = 32

    @property
    def classes(self) -> int:
        return len(self.labels)

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        return tokenizers.size(self.tokenizer)


class Features(nn.Module):
    """Words with their neighbours: an embedding, and one convolution over three words beside it.

    F = E x + tanh(conv₃(E x))

    Nothing but attention sees further than one word, so that what it adds can be measured, and so that a weight
    on a word is a weight on that word.

    Shapes: token_ids int64 [batch, token], mask bool of the same -> [batch, token, d], zeros at padding.
    """

    def __init__(self, texts: Texts) -> None:
        super().__init__()
        self.embedding = nn.Embedding(texts.vocabulary, texts.d, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.convolution = nn.Conv1d(texts.d, texts.d, 3, padding=1)
        self.dropout = nn.Dropout(texts.dropout)

    def forward(self, token_ids: Tensor, mask: Tensor) -> Tensor:
        real = mask.unsqueeze(-1)
        embedded = self.dropout(self.embedding(token_ids)) * real
        neighbours = self.convolution(embedded.transpose(1, 2)).transpose(1, 2)
        return (embedded + neighbours.tanh()) * real


def text_input(texts: Texts, *, name: str = "text", prefix: str = "token", dimension: str = "token") -> TextInput:
    """A text, turned into `<prefix>_ids` and `<prefix>_mask`, which vary along `dimension`."""
    return TextInput(
        name=name,
        summary="A sentence or a part of one.",
        tokenizer=Tokenizer(text=texts.tokenizer),
        max_tokens=texts.max_tokens,
        prefix=prefix,
        dimension=dimension,
    )
