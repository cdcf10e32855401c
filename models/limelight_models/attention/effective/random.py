"""Random features whose products estimate the softmax's exponentials (Choromanski et al. 2021)."""

import torch
from torch import Tensor, nn

from limelight_models.attention.effective.kernel import KernelSums


def gaussian(count: int, d: int) -> Tensor:
    """Directions [count, d], standard normal, each by itself."""
    return torch.randn(count, d)


def orthogonal(count: int, d: int) -> Tensor:
    """Directions [count, d], each standard normal, those of a block of d orthogonal to each other (§2.4)."""
    blocks = [nn.init.orthogonal_(torch.empty(d, d)) for _ in range(0, count, d)]
    return torch.cat(blocks)[:count] * gaussian(count, d).norm(dim=-1, keepdim=True)


class Favor(KernelSums):
    """FAVOR+: κ(q, k) = φ(q)ᵀ φ(k), whose mean is exp(qᵀ k / √d) (Lemma 1, eq. 5 to 7).

    φ(x) = exp(-‖x̃‖² / 2) / √m [exp(ω_1ᵀ x̃); …; exp(ω_mᵀ x̃)], x̃ = x / d^¼
    trigonometric: φ(x) = exp(‖x̃‖² / 2) / √m [sin(ω_1ᵀ x̃); …; cos(ω_1ᵀ x̃); …], which may be negative

    As no factor of a query changes its weights, exponents of a query are counted from its largest, without ‖q̃‖². Those
    of a feature of all keys are, too, and their largest goes to the query, so that no sum underflows. Causal sums leave
    keys as they are, for the largest of all is not known at a token: in single precision keys vanish whose ‖k̃‖² is in
    the hundreds, and none overflows, as exponents are at most ‖ω‖² / 2, about d / 2, and there is room for 88.

    Shapes: as `KernelSums`; m is `features`, twice that if trigonometric.
    """

    def __init__(
        self, *, d: int, features: int, independent: bool = False, trigonometric: bool = False, causal: bool = False
    ) -> None:
        super().__init__(causal=causal)
        self.trigonometric = self.signed = trigonometric
        self.register_buffer("directions", gaussian(features, d) if independent else orthogonal(features, d))

    def features(self, query: Tensor, key: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        query, key = (x * x.shape[-1] ** -0.25 for x in (query, key))
        asked, kept = (x @ self.get_buffer("directions").T for x in (query, key))
        half = key.square().sum(-1, keepdim=True) / 2
        exponents = half if self.trigonometric else kept - half
        if mask is not None:
            exponents = exponents.masked_fill(~mask, torch.finfo(exponents.dtype).min)
        largest = torch.zeros_like(exponents[:, :, :1]) if self.causal else exponents.amax(2, keepdim=True)
        raised = (exponents - largest).exp()
        if self.trigonometric:
            return torch.cat([asked.sin(), asked.cos()], -1), torch.cat([kept.sin(), kept.cos()], -1) * raised
        asked = asked + largest
        return (asked - asked.amax(-1, keepdim=True)).exp(), raised
