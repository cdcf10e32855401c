"""Several embeddings of the same words: counted from their neighbours, counted from their spelling, and learned."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from limelight_models.data import embeddings

NEIGHBOURS, SPELLING, LEARNED = "neighbours", "spelling", "learned"
ALL = (NEIGHBOURS, SPELLING, LEARNED)


def tables(names: Sequence[str], *, vocabulary: int, d: int) -> nn.ModuleDict:
    """An embedding of each name; what is counted stays as it is."""
    made = {name: nn.Embedding(vocabulary, d, padding_idx=0) for name in names}
    for name, table in made.items():
        table.requires_grad_(name == LEARNED)
    return nn.ModuleDict(made)


def count(made: nn.ModuleDict, texts: Iterable[Sequence[int]], words: Mapping[int, str]) -> None:
    """Put what is counted of texts (token ids), and of how words are spelled, in the place of what was drawn."""
    with torch.no_grad():
        for name, table in made.items():
            assert isinstance(table, nn.Embedding)
            sizes = {"vocabulary": table.num_embeddings, "d": table.embedding_dim}
            counted: Tensor | None = None
            if name == NEIGHBOURS:
                counted = embeddings.of_neighbours(texts, **sizes)
            elif name == SPELLING:
                counted = embeddings.of_spelling(words, **sizes)
            if counted is not None:
                table.weight.copy_(counted)
