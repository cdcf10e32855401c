"""Bi-BloSAN, bi-directional block self-attention network, L15 (Shen, Zhou, Long, Jiang & Zhang 2018c): two sentences.

Fig. 2 and 3 of the paper, from the bottom: words; onward and backward, each by itself, attention within blocks of
tokens, a vector of each block, attention among those; a gate that fuses what both found with the token; source2token
attention. All of it feature by feature. Ours: as many blocks as the longest sentence has, the last of which are empty,
and sentences are compared as DiSAN's are.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import elu

from limelight_models.attention import Attention, masks
from limelight_models.attention.combine import FusionGate
from limelight_models.attention.dimensionality.token import SourceToToken, TokenToToken
from limelight_models.attention.masks import Mask
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.weights import Weights, weights_of
from limelight_models.cards.language import Attends, LabelSet, Map, maps_of, numbered, one
from limelight_models.data import inference, rows
from limelight_models.recipes import Blueprint, Card, classifying_texts
from limelight_models.zoo.disan.compared import PRESETS, Compared, ComparedConfig, Encoded, parts


class BlosanConfig(ComparedConfig):
    """Sizes. The paper has d 240 and words of 300 numbers (GloVe). block: r, tokens of a block, about ∛(2n) of n.

    among: whether blocks attend to each other.
    """

    block: int = 5
    among: bool = True

    @property
    def blocks(self) -> int:
        """m = ⌈n / r⌉, of the longest sentence."""
        return -(-self.max_tokens // self.block)


class BlockSelfAttention(nn.Module):
    """Masked block self-attention (mBloSA, §3.1), in one direction.

    x = act(W x' + b);  h_l = g_m(x_l, M) within block l;  v_l = g_s2t(h_l)
    o = g_m(v, M) among blocks;  G = sigmoid(W_g [o; v]);  e = G ⊙ o + (1 - G) ⊙ v
    u_i = F ⊙ act(W_f [x_i; h_i; e_l]) + (1 - F) ⊙ x_i, F = sigmoid(W_F [x_i; h_i; e_l]), l the block of i

    g_m: DiSAN's token2token attention, masked by direction; a token with nothing to attend to has zeros.

    Shapes: features [batch, token, d], mask [batch, token] -> u as features; weights within blocks [batch, 1, token,
        place, d], of their vectors [batch, 1, block, place, d], among them [batch, 1, block, block, d].
    """

    def __init__(self, config: BlosanConfig, direction: Mask) -> None:
        super().__init__()
        self.config, self.direction, d = config, direction, config.d
        self.hidden = nn.Linear(d, d)
        self.within = Attention(score=TokenToToken(d_q=d, d_k=d, d_v=d))
        self.pool = Attention(score=SourceToToken(d_k=d, d_w=d, d_v=d))
        among = Attention(score=TokenToToken(d_q=d, d_k=d, d_v=d), combine=FusionGate(d=d))
        self.among = among if config.among else None
        self.gate, self.fused = (nn.Linear(3 * d, d) for _ in range(2))

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of its attentions, from the inside to the outside."""
        return weights_of(*(each for each in (self.within, self.pool, self.among) if each is not None))

    def forward(self, features: Tensor, mask: Tensor) -> tuple[Tensor, list[Tensor]]:
        x, (count, size) = elu(self.hidden(features)), (self.config.blocks, self.config.block)
        token = torch.arange(x.shape[1], device=x.device)
        places = torch.arange(count * size, device=x.device).reshape(count, size)
        valid = mask[:, places.clamp(max=x.shape[1] - 1)] & (places < x.shape[1])  # [batch, block, place]
        blocks = x[:, places.clamp(max=x.shape[1] - 1)]  # each stands where heads do
        looks = self.direction.build(query=size, key=size, device=x.device) & valid.unsqueeze(2)
        h, within = self.within(blocks, blocks, None, looks)
        v, counts = self.pool(None, h, None, valid.unsqueeze(2))
        e, maps = v.transpose(1, 2), [within.flatten(1, 2)[:, token].unsqueeze(1), counts.transpose(1, 2)]
        if self.among is not None:
            some = valid.any(-1)[:, None, None] & self.direction.build(query=count, key=count, device=x.device)
            e, among = self.among(e, e, None, some)
            maps.append(among * valid.any(-1)[:, None, :, None, None])
        read = torch.cat([x, h.flatten(1, 2)[:, token], e[:, 0, token // size]], -1)
        gate = self.gate(read).sigmoid()
        return gate * elu(self.fused(read)) + (1 - gate) * x, maps


class BlockEncoder(nn.Module):
    """A sentence as one vector (§3.2): s = source2token([mBloSA onward(x); mBloSA backward(x)]).

    Shapes: features [batch, token, d], mask [batch, token] -> vector [batch, 2 d], maps `<direction>.within`,
        `<direction>.pool` and `<direction>.among` as `BlockSelfAttention` has them, `source` [batch, 1, 1, token, 2 d].
    """

    def __init__(self, config: BlosanConfig) -> None:
        super().__init__()
        self.config, d = config, 2 * config.d
        directions = {"onward": masks.forward, "backward": masks.backward}
        self.sides = nn.ModuleDict({name: BlockSelfAttention(config, each) for name, each in directions.items()})
        self.source = SelfAttentivePool(attention=Attention(score=SourceToToken(d_k=d, d_w=d, d_v=d)))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, features: Tensor, mask: Tensor) -> Encoded:
        found, maps = list[Tensor](), dict[str, Tensor]()
        for name, side in self.sides.items():
            u, (within, *of_blocks) = side(features, mask)
            found.append(u)
            # Padding asks for nothing.
            each = (within * mask[:, None, :, None, None], *of_blocks)
            maps |= zip((f"{name}.{of}" for of in ("within", "pool", "among")), each, strict=False)
        vector, maps["source"] = self.source(self.dropout(torch.cat(found, -1)), mask=mask)
        return Encoded(vector, maps)

    def maps(self, tokens: LabelSet, d: int) -> dict[str, Map]:
        """Its maps, over these tokens."""
        places = numbered("places", "slots", "place", self.config.block)
        blocks, made = numbered("blocks", "slots", "block", self.config.blocks), dict[str, Map]()
        for name, side in self.sides.items():
            where = f"in the {tokens.name} sentence, {name}"
            within = Attends(tokens, places, f"What each token takes of its block {where}.", "self", d)
            pool = Attends(blocks, places, f"How much each token counts in the vector of its block {where}.", "pool", d)
            among = Attends(blocks, blocks, f"What each block takes of others {where}.", "self", d)
            shown = {"within": within, "pool": pool, **({} if side.among is None else {"among": among})}
            made |= maps_of(side, {f"{name}.{of}": each for of, each in shown.items()})
        counts = Attends(one(f"{tokens.name} sentence"), tokens, "How much each token counts.", features=2 * d)
        return made | maps_of(self.source, {"source": counts})


def card(network: Compared, blueprint: Blueprint[BlosanConfig]) -> Card:
    """Describe the network."""
    return blueprint.card(
        network,
        title="Bi-directional block self-attention network",
        summary="Tells how two sentences are related, each encoded by attention within blocks, then among them.",
        taxonomy="hierarchical, additive, multi-dimensional, self-attentive",
        citation="Shen, Zhou, Long, Jiang, Zhang (2018): Bi-Directional Block Self-Attention for Fast and "
        "Memory-Efficient Sequence Modeling. ICLR",
        **parts(network, blueprint),
    )


PRESETS = {**PRESETS, "tiny": PRESETS["tiny"].sized(block=3, max_tokens=32)}

BI_BLOSAN = classifying_texts(
    BlosanConfig, Compared, card, PRESETS, builtin=inference.dataset, data=rows.TEXT_PAIRS
).with_parts(encoder=BlockEncoder)
BI_BLOSAN_WITHIN = BI_BLOSAN.changed(among=False)
