"""What the small task models share: their texts, and the light feature model that lets attention do the work."""

from dataclasses import dataclass

from torch import Tensor, nn

from limelight.v1 import attention_pb2, model_pb2
from models.cards import describe
from models.data import tokenizers

TOKENIZER = "tokenizer.json"
MAX_CHARACTERS = 20_000

# What the survey leaves open, chosen here once, so that mechanisms are compared on equal terms.
RADIUS = 3  # of local windows, in words
FILTERS = 3  # of a Gaussian grid
OUTPUTS = 3  # rows of an importance matrix
RANDOM_FEATURES = 64


@dataclass(frozen=True, kw_only=True)
class Texts:
    """What a small task model reads and tells apart.

    tokenizer: text of its file; labels: names of the classes; d: size of features; max_*: the longest input.
    """

    tokenizer: str
    labels: tuple[str, ...]
    d: int = 32
    dropout: float = 0.3
    max_tokens: int = 64
    max_sentences: int = 32

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


class Classify(nn.Module):
    """Class scores of a vector.

    Shapes: [batch, d_in] -> [batch, class].
    """

    def __init__(self, texts: Texts, *, d_in: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(texts.dropout)
        self.linear = nn.Linear(d_in, len(texts.labels))

    def forward(self, vector: Tensor) -> Tensor:
        return self.linear(self.dropout(vector))


def text_input(texts: Texts, *, name: str, prefix: str, axis: str) -> model_pb2.InputDescription:
    """A text, turned into `<prefix>ids` with mask `<prefix>mask`, which vary along `axis`."""
    return model_pb2.InputDescription(
        name=name,
        kind=model_pb2.INPUT_KIND_TEXT,
        summary="A sentence or a part of one.",
        tensors=[token_ids(texts, prefix=prefix, axis=axis)],
    )


def token_ids(texts: Texts, *, prefix: str, axis: str) -> model_pb2.TensorDescription:
    """Token ids and their mask."""
    return describe.token_tensor(f"{prefix}ids", f"{prefix}mask", texts.vocabulary, {axis: texts.max_tokens})


def tokens(name: str, *, input: str, tensor: str, dimension: str, parent: str = "") -> model_pb2.LabelSetDescription:
    """The label set of a text's tokens."""
    return model_pb2.LabelSetDescription(
        name=name,
        kind=attention_pb2.LABEL_KIND_TOKENS,
        input=input,
        tensor=tensor,
        dimension=dimension,
        parent=parent,
    )
