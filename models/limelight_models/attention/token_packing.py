"""Padding-free batches: layers that see one token at a time see real tokens alone, one row's behind another's.

In PyTorch nothing changes. While a model is exported, its tensors are marked where they are packed and unpacked, and
`limelight_export.surgery.token_packing` gathers tokens there: rows and masks go in and come out as ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from limelight_models.attention.export_markers import is_marking
from limelight_models.export_names import DOMAIN

PACK, UNPACK, PACK_HEADS, UNPACK_HEADS = "Pack", "Unpack", "PackHeads", "UnpackHeads"


@dataclass(frozen=True, eq=False)
class Packing:
    """Which tokens of a batch are real: mask bool [batch, token]; with None nothing is packed.

    Between packing and unpacking stands only what treats tokens alike and apart (linear layers, norms, activations,
    residuals): in an exported graph the tensors there are [1, real token, feature]. What unpacking gives at padding
    means nothing; behind a row's own tokens it is one of them. Finding the tokens takes an exported graph some
    hundredths of a millisecond, so that a model of next to no computing is better off without.
    """

    mask: Tensor | None

    @property
    def _is_marked(self) -> bool:
        return self.mask is not None and is_marking()

    def pack(self, features: Tensor) -> Tensor:
        """[batch, token, feature] -> packed."""
        return self._marked(PACK, features, features.shape, size=features.shape[-1]) if self._is_marked else features

    def unpack(self, features: Tensor) -> Tensor:
        """Packed -> [batch, token, feature]."""
        return self._marked(UNPACK, features, features.shape, size=features.shape[-1]) if self._is_marked else features

    def pack_heads(self, features: Tensor) -> Tensor:
        """[batch, head, token, feature / heads] -> packed."""
        batch, heads, tokens, size = features.shape
        if self._is_marked:
            return self._marked(PACK_HEADS, features, (batch, tokens, heads * size), heads=heads, size=size)
        return features.transpose(1, 2).flatten(2)

    def unpack_heads(self, features: Tensor, heads: int) -> Tensor:
        """Packed -> [batch, head, token, feature / heads]."""
        if self._is_marked:
            batch, tokens, width = features.shape
            size = width // heads
            return self._marked(UNPACK_HEADS, features, (batch, heads, tokens, size), heads=heads, size=size)
        return features.unflatten(-1, (heads, -1)).transpose(1, 2)

    def _marked(self, operator: str, features: Tensor, shape: Sequence[int], **attributes: int) -> Tensor:
        marked: Tensor = torch.onnx.ops.symbolic(
            f"{DOMAIN}::{operator}", [features, self.mask], {**attributes}, dtype=features.dtype, shape=shape, version=1
        )
        return marked
