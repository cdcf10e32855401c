"""DiSAN, directional self-attention network, J10 (Shen, Zhou, Long, Jiang, Pan & Zhang 2018): two sentences compared.

Fig. 4 of the paper, from the bottom: words, directional self-attention onward and backward, source2token attention, a
vector of the sentence; neither recurrence nor convolution. Two of them are compared as §5.1 has it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention, masks
from limelight_models.attention.dimensionality.directional import DirectionalSelfAttention
from limelight_models.attention.dimensionality.token import SourceToToken
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.blocks.fixed import Average
from limelight_models.blocks.recurrent import BiLstm
from limelight_models.cards.language import Attends, LabelSet, Map, maps_of, one
from limelight_models.data import inference, rows
from limelight_models.recipes import Blueprint, Card, classifying_texts
from limelight_models.zoo.disan.compared import PRESETS, Compared, ComparedConfig, Encoded, parts


class DisanConfig(ComparedConfig):
    """Sizes."""


class DisanEncoder(nn.Module):
    """A sentence as one vector (paper §4.2, Fig. 4).

    u = [DiSA onward(x); DiSA backward(x)];  s = source2token(u)

    Shapes: features [batch, token, d], mask [batch, token] -> vector [batch, 2 d], maps `forward` and `backward`
        [batch, 1, token, token, d] and `source` [batch, 1, 1, token, 2 d]. The first token sees nothing onward and the
        last nothing backward: their rows are zeros.
    """

    def __init__(self, config: DisanConfig) -> None:
        super().__init__()
        d = config.d
        self.onward = DirectionalSelfAttention(d_f=d, d=d, direction=masks.forward)
        self.backward = DirectionalSelfAttention(d_f=d, d=d, direction=masks.backward)
        self.source = SelfAttentivePool(attention=Attention(score=SourceToToken(d_k=2 * d, d_w=2 * d, d_v=2 * d)))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, features: Tensor, mask: Tensor) -> Encoded:
        onward, of_onward = self.onward(features, mask)
        backward, of_backward = self.backward(features, mask)
        vector, of_source = self.source(self.dropout(torch.cat([onward, backward], -1)), mask=mask)
        real = mask[:, None, :, None, None]  # padding asks for nothing
        return Encoded(vector, {"forward": of_onward * real, "backward": of_backward * real, "source": of_source})

    def maps(self, tokens: LabelSet, d: int) -> dict[str, Map]:
        """Its maps, over these tokens."""
        about = f"in the {tokens.name} sentence, feature by feature"
        whole = one(f"{tokens.name} sentence")
        after, before = (
            Attends(tokens, tokens, f"How much each token counts for those {side} it {about}.", kind="self", features=d)
            for side in ("after", "before")
        )
        counts = Attends(whole, tokens, f"How much each token counts {about}.", features=2 * d)
        return (
            maps_of(self.onward, {"forward": after})
            | maps_of(self.backward, {"backward": before})
            | maps_of(self.source, {"source": counts})
        )


class LstmEncoder(nn.Module):
    """Baselines of DiSAN (paper Table 1): a bidirectional LSTM of about as many parameters, and averages.

    Shapes: features [batch, token, d], mask [batch, token] -> vector [batch, 2 d], map `source` [batch, 1, 1, token].
    """

    def __init__(self, config: DisanConfig) -> None:
        super().__init__()
        self.lstm = BiLstm(d_in=config.d, d_hidden=config.d)
        self.source = SelfAttentivePool(attention=Attention(score=Average()))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, features: Tensor, mask: Tensor) -> Encoded:
        vector, weights = self.source(self.dropout(self.lstm(features, mask)), mask=mask)
        return Encoded(vector, {"source": weights})

    def maps(self, tokens: LabelSet, d: int) -> dict[str, Map]:
        """Its map, over these tokens."""
        whole = one(f"{tokens.name} sentence")
        return maps_of(self.source, {"source": Attends(whole, tokens, "The same for every token.")})


class Disan(Compared):
    """Two sentences -> classes of the pair, with the weights of each sentence's encoding. Shapes: as `Compared`."""

    def __init__(self, config: DisanConfig, *, encoder: Callable[[Any], Any] = DisanEncoder) -> None:
        super().__init__(config, encoder=encoder)


def card(network: Disan, blueprint: Blueprint[DisanConfig]) -> Card:
    """Describe the network."""
    return blueprint.card(
        network,
        title="Directional self-attention network",
        summary="Tells how two sentences are related, each encoded by attention alone, feature by feature.",
        taxonomy="additive, multi-dimensional, self-attentive",
        citation="Shen, Zhou, Long, Jiang, Pan, Zhang (2018): DiSAN: Directional Self-Attention Network for "
        "RNN/CNN-Free Language Understanding. AAAI",
        **parts(network, blueprint),
    )


DISAN = classifying_texts(DisanConfig, Disan, card, PRESETS, builtin=inference.dataset, data=rows.TEXT_PAIRS)
# What the paper compares it with: a recurrent encoder of about as many parameters.
DISAN_BILSTM = DISAN.with_parts(encoder=LstmEncoder)
