"""Dynamic meta-embeddings (F2): attention chooses between embeddings of the same token."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.errors import ShapeError
from limelight_models.attention.flat import rows_of
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.weights import Weights, weights_of


class MetaEmbedding(nn.Module):
    """Dynamic meta-embeddings (Kiela et al. 2018, eq. 1–3; survey BF §3.1.3, eq. 21–22), contextualised with `encode`.

    x_i = W_i x^(e_i) + b_i;  x = Σ_i a_i x_i, with a from the x_i, or from encode(x_1 … x_n)_i where it is given

    `encode` reads each sequence of one embedding (in the paper a BiLSTM of two units): [batch, token, d] and the
    token mask [batch, token] -> [batch, token, d_k].

    Shapes: embeddings, each [batch, token, d_i]; mask broadcastable to [batch, token, representation], True where a
        token has that embedding -> tokens [batch, token, d_v], weights [batch, head, token, representation(, feature)].
        A token without any embedding gets zeros.
    Raises: ShapeError where the number of embeddings or their sizes differ from `sizes`.
    """

    def __init__(
        self, *, pool: SelfAttentivePool, sizes: Sequence[int], d: int, encode: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.pool, self.sizes, self.encode = pool, tuple(sizes), encode
        self.maps = nn.ModuleList(nn.Linear(size, d) for size in sizes)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of its weights."""
        return weights_of(self.pool)

    def forward(
        self, embeddings: Sequence[Tensor], mask: Tensor | None = None, context: Context | None = None
    ) -> tuple[Tensor, Tensor]:
        sizes = tuple(embedding.shape[-1] for embedding in embeddings)
        if sizes != self.sizes:
            raise ShapeError(f"embeddings have sizes {sizes}; MetaEmbedding was built for {self.sizes}")
        mapped = torch.stack([to_d(x) for to_d, x in zip(self.maps, embeddings, strict=True)], 2)
        allowed = (
            mapped.new_ones(()).bool().expand(mapped.shape[:-1]) if mask is None else mask.expand(mapped.shape[:-1])
        )
        keys = mapped if self.encode is None else self.contextualise(mapped, allowed)
        tokens, weights = self.pool(keys.flatten(0, 1), mapped.flatten(0, 1), allowed.flatten(0, 1), context)
        return tokens.unflatten(0, mapped.shape[:2]), rows_of(weights, mapped.shape[:2])

    def contextualise(self, mapped: Tensor, allowed: Tensor) -> Tensor:
        """Each embedding's sequence read by the encoder: [batch, token, representation, d_k]."""
        assert self.encode is not None
        sequences = mapped.transpose(1, 2).flatten(0, 1)
        states = self.encode(sequences, allowed.transpose(1, 2).flatten(0, 1))
        return states.unflatten(0, (mapped.shape[0], len(self.sizes))).transpose(1, 2)
