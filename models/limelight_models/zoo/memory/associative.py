"""Self-attentive associative memory, P16 (Le, Tran & Venkatesh 2020): a memory of items, and one of their relations.

Figure 1 of the paper: each token is bound to itself by an outer product, which goes into the memory of items; attention
of its rows to each other, whose weights are vectors, binds what belongs together by outer products again, and that goes
into the memory of relations, which tells the answer. A text is put into a class by what its last token finds. Each
token is read with the one before it, so that a key and its value can be one item.
"""

from functools import partial

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.align import Tanh
from limelight_models.attention.score import ElementwiseProduct, LocationBased, OuterProduct
from limelight_models.attention.weights import AroundAttention
from limelight_models.cards.language import Attends, maps_of, numbered
from limelight_models.data import recall
from limelight_models.in_turn import Tensors, in_turn
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny


class AssociativeConfig(TextSizes):
    """Sizes. slots: matrices of relations. relations: whether there are any; without, items are in their place."""

    d: int = 32
    slots: int = 8
    d_relation: int = 32
    relations: bool = True
    max_tokens: int = 512


class Relate(AroundAttention, nn.Module):
    """SAM(M)_s = Σ_j tanh(Q_s ⊙ K_j) ∘ V_j, where [Q; K; V] = LN(W M + b) and ∘ is the outer product

    Shapes: items [batch, row, d] -> relations [batch, slot, d, d], weights [batch, 1, slot, slot, d].
    """

    deciding = ("parts", "norm")

    def __init__(self, *, d: int, slots: int) -> None:
        super().__init__()
        self.d, self.parts = d, nn.Linear(d, 3 * slots)
        self.norm = nn.LayerNorm([3 * slots, d])
        self.attention = Attention(score=ElementwiseProduct(), align=Tanh(), combine=OuterProduct())

    def forward(self, items: Tensor) -> tuple[Tensor, Tensor]:
        query, key, value = self.norm(self.parts(items.transpose(1, 2)).transpose(1, 2)).unsqueeze(1).chunk(3, 2)
        bound, weights = self.attention(query, key, value)
        return bound.squeeze(1).unflatten(-1, (self.d, self.d)), weights


class Associative(Network):
    """Text -> classes, with the relations that are read at each token, and how those of the last one are bound.

    M ← F ⊙ M + I ⊙ tanh(f₁(x) ∘ f₁(x)), F and I sigmoid of maps of f₁(x) and tanh(M);
    r = Σ_s softmax_s(f₃(x)) f₂(x)ᵀ R_s;  S = SAM(M + α₂ r ∘ f₂(x));  M ← M + α₃ W S;  R ← α₁ R + S;  o = G₃ [G₂ R_s]_s
    M and R begin as learned, the α as 0 but for α₁, a sigmoid near 1; logits = W₂ relu(W₁ o), at the last token.
    Without relations, S is M itself.

    Shapes: token_ids int64 [batch, token], token_mask bool of the same -> logits [batch, class], maps `read` [batch, 1,
        token, slot], `relations` [batch, 1, slot, slot, d].
    """

    def __init__(self, config: AssociativeConfig) -> None:
        super().__init__()
        self.config, d, slots = config, config.d, config.slots if config.relations else 1
        self.embedding = nn.Embedding(config.vocabulary, d, padding_idx=0)
        nn.init.normal_(self.embedding.weight)
        self.before = nn.Linear(d, d, bias=False)
        self.first, self.second = nn.Linear(d, d), nn.Linear(d, d)
        self.of_token, self.of_items = nn.Linear(d, 2 * d), nn.Linear(d, 2 * d)
        self.read = Attention(score=LocationBased(d_q=d, max_keys=slots))
        self.relate = Relate(d=d, slots=slots) if config.relations else None
        self.back, self.alphas = nn.Linear(slots * d, d), nn.Parameter(torch.tensor([4.0, 0.0, 0.0]))
        self.items = nn.Parameter(torch.empty(d, d).uniform_(-1, 1) / (2 * d) ** 0.5)
        self.relations = nn.Parameter(torch.empty(slots, d, d).uniform_(-1, 1) / (2 * d + slots) ** 0.5)
        self.tell_slot, self.tell = nn.Linear(d * d, config.d_relation), nn.Linear(slots * config.d_relation, d)
        self.classify = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, config.classes))

    def step(self, left: Tensors, x: Tensor) -> tuple[Tensors, Tensors]:
        """The memories behind a token [batch, d], and what is said and read at it."""
        (items, relations), first, second, alphas = left, self.first(x), self.second(x), self.alphas
        enter, keep = (self.of_token(first).unsqueeze(1) + self.of_items(items.tanh())).chunk(2, -1)
        bound = (first.unsqueeze(2) * first.unsqueeze(1)).tanh()
        items = (keep + 1).sigmoid() * items + enter.sigmoid() * bound
        found, read = self.read(x[:, None, None], relations.flatten(2).unsqueeze(1))
        found = second.unsqueeze(1) @ found.view(-1, *relations.shape[2:])  # r [batch, 1, d]
        asked = items + alphas[1] * found.transpose(1, 2) * second.unsqueeze(1)
        made, *related = (asked.unsqueeze(1),) if self.relate is None else self.relate(asked)
        items = items + alphas[2] * self.back(made.flatten(1, 2).transpose(1, 2))
        relations = alphas[0].sigmoid() * relations + made
        said = self.tell(self.tell_slot(relations.flatten(2)).flatten(1))
        return (items, relations), (said, read[:, :, 0], *related)

    def forward(self, **tensors: Tensor) -> Answer:
        ids, mask = tensors["token_ids"], tensors["token_mask"]
        tokens = self.embedding(ids)
        x = tokens + self.before(torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], 1))
        start = (each.expand(ids.shape[0], *each.shape) for each in (self.items, self.relations))
        said, read, *related = in_turn(self.step, tuple(start), x)
        last, rows = (mask.sum(1) - 1).clamp(min=0), torch.arange(ids.shape[0], device=ids.device)
        maps = {"read": read.movedim(0, 2) * mask[:, None, :, None]}
        if related:
            maps["relations"] = related[0][last, rows]
        return Answer({"logits": self.classify(said[last, rows])}, maps)


def card(network: Associative, blueprint: Blueprint[AssociativeConfig]) -> Card:
    """Describe the network."""
    text, related = blueprint.text("A text, such as keys with values, and a key."), network.relate
    slots = numbered("slots", "slots", "slot", len(network.relations))
    maps = maps_of(network.read, {"read": Attends(text.tokens(), slots, "Which slots each token reads.", "memory")})
    if related is not None:
        about = "How the rows of the memory of items are bound at the last token."
        maps |= maps_of(related, {"relations": Attends(slots, slots, about, "memory", network.config.d)})
    return blueprint.card(
        network,
        title="Self-attentive associative memory" if related else "Associative memory of items",
        summary="Classifies a text by a memory of its tokens, and one of how they are related.",
        inputs=[text],
        maps=maps,
        taxonomy="scoring: outer product, alignment: tanh, self-attentive, multi-dimensional",
        citation="Le, Tran, Venkatesh (2020): Self-Attentive Associative Memory. ICML",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d=6, slots=3, d_relation=4),
    "demo": preset(8, 64, 3e-3, weight_decay=0.0, vocabulary=200, d=24, slots=4),
    "full": preset(20, 32, 1e-3, vocabulary=8000),
    # The authors' program.
    "paper": preset(100, 128, 1e-3, weight_decay=0.0, patience=20, vocabulary=8000).sized(d=96, d_relation=96),
}

ASSOCIATIVE_MEMORY = classifying_texts(
    AssociativeConfig, Associative, card, PRESETS, builtin=partial(recall.dataset, "one", tokens=16)
)
# What it adds to: items alone.
ASSOCIATIVE_MEMORY_ITEMS = ASSOCIATIVE_MEMORY.changed(relations=False)
