"""Small models in which only attention can carry information from a source to an answer.

They stand beside the forms of `models/limelight_models/catalogue/testbed`: their queries come from a place in the
text, a neighbour, a decoder's state or a question. Each has one map, `attention` [batch, head, step, key(, feature)].
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.align import Align
from limelight_models.attention.context import Context
from limelight_models.attention.features import Pair
from limelight_models.attention.flat import attend, over_keys
from limelight_models.attention.score import SelfAttentive
from limelight_models.attention.weights import Weights, weights_of
from limelight_models.blocks.recurrent import BiGru
from limelight_models.catalogue.testbed.classifier import SmallModel
from limelight_models.catalogue.testbed.document_forms import pool
from limelight_models.catalogue.testbed.text import ATTENTION, Features, Texts
from limelight_models.network import Answer
from research.signals.facts import Reader

Found = tuple[Tensor, Tensor]


class Look(nn.Module):
    """Any attention behind linear maps of query, key and value, with the draws that its alignment wants.

    Shapes: query [batch, query, d], key and value [batch, key, d], mask [batch, 1, query or 1, key]
        -> context vectors [batch, query, head · d], weights [batch, head, query, key(, feature)].
    """

    deciding = ("query_map", "key_map")  # parts whose parameters decide weights

    def __init__(self, attention: nn.Module, *, d: int) -> None:
        super().__init__()
        self.attention = attention
        self.query_map, self.key_map, self.value_map = (nn.Linear(d, d, bias=False) for _ in range(3))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, context: Context) -> Found:
        return attend(self.attention, self.query_map(query), self.key_map(key), self.value_map(value), mask, context)

    def drawing(self, query: Tensor, key: Tensor, **known: Tensor | None) -> Context:
        """Context beside query and key, with uniform noise in training where the alignment draws."""
        align = getattr(self.attention, "align", None)
        fields = align.context_fields if align is not None and self.training else ()
        sizes = query.shape[0], 1, query.shape[1], key.shape[1]
        noise = torch.rand(sizes, device=key.device) if "noise" in fields else None
        of_queries = torch.rand(sizes[:3], device=key.device) if "query_noise" in fields else None
        return Context(noise=noise, query_noise=of_queries, **known)

    def signals(self, query: Tensor, key: Tensor, mask: Tensor, context: Context) -> Mapping[str, Tensor]:
        """The alignment's training signals, in training."""
        align = getattr(self.attention, "align", None)
        if not self.training or align is None or type(align).signals is Align.signals:
            return {}
        scores, whole = self.scored(query, key, mask, context)
        return align.signals(scores, mask, whole)

    def carried(self, query: Tensor, key: Tensor, mask: Tensor, context: Context) -> Tensor | None:
        """The next step's previous weights, where they are something else than the weights."""
        align = getattr(self.attention, "align", None)
        if align is None or not align.carries:
            return None
        scores, whole = self.scored(query, key, mask, context)
        with torch.random.fork_rng(devices=[], enabled=self.training):  # the attention itself draws the same again
            return align.carried(scores, mask, whole)

    def scored(self, query: Tensor, key: Tensor, mask: Tensor, context: Context) -> tuple[Tensor, Context]:
        """Scores as the attention makes them, and the context that its alignment reads."""
        asking, keys = self.query_map(query).unsqueeze(1), self.key_map(key).unsqueeze(1)
        whole = replace(context, query=asking, key=keys, mask=mask)
        return self.attention.score(asking, keys, whole), whole

    def width(self, d: int) -> int:
        """Size of the context vectors."""
        score = getattr(self.attention, "score", None)
        return d * (score.outputs if score is not None else 1)


class Asking(SmallModel):
    """Words of a text ask the text, and what they find is the answer: F = features(x), c_i = attention(F_i, F, F).

    Shapes: token_ids int64 [batch, token], asked_ids int64 [batch, step] (places from 1), masks of both
        -> logits [batch, step, class].
    """

    def __init__(self, texts: Texts, attention: nn.Module) -> None:
        super().__init__()
        self.features, self.look = Features(texts), Look(attention, d=texts.d)
        self.classify = nn.Linear(self.look.width(texts.d), len(texts.labels))

    def forward(self, **tensors: Tensor) -> Answer:
        asked, mask = tensors["asked_ids"], tensors["token_mask"]
        features = self.features(tensors["token_ids"], mask)
        query = features.gather(1, (asked - 1).clamp(min=0).unsqueeze(-1).expand(-1, -1, features.shape[-1]))
        allowed = over_keys(mask) & tensors["asked_mask"][:, None, :, None]
        context = self.look.drawing(query, features)
        found, weights = self.look(query, features, features, allowed, context)
        signals = self.look.signals(query, features, allowed, context)
        return Answer({"logits": self.classify(found)}, {ATTENTION: weights}, signals)


class Beside(SmallModel):
    """Words that know no neighbour look at each other; what they found decides which of them is the answer.

    c_i = attention(x_i, X, X);  the answer is read from Σ_i a_i x_i, a = softmax of a self-attentive score of c_i

    Shapes: token_ids int64 [batch, token], token_mask -> logits [batch, class].
    """

    def __init__(self, texts: Texts, attention: nn.Module, *, maps: bool = True) -> None:
        super().__init__()
        self.embedding = nn.Embedding(texts.vocabulary, texts.d, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.look = Look(attention, d=texts.d) if maps else attention  # a module of its own maps what it reads
        self.maps_itself = not maps
        self.pool = Attention(score=SelfAttentive(d_k=texts.d, d_w=texts.d))
        self.classify = nn.Linear(texts.d, len(texts.labels))

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["token_mask"]
        words = self.embedding(tensors["token_ids"])
        if self.maps_itself:
            (found, weights), signals = self.look(words, mask), {}
        else:
            place = torch.arange(words.shape[1])
            apart = (place.unsqueeze(-1) - place).abs().to(words.dtype)[None, None]
            allowed = (mask.unsqueeze(2) & mask.unsqueeze(1)).unsqueeze(1)
            context = self.look.drawing(words, words, distances=apart)
            found, weights = self.look(words, words, words, allowed, context)
            signals = self.look.signals(words, words, allowed, context)
        vector, _ = attend(self.pool, None, found, words, over_keys(mask))
        return Answer({"logits": self.classify(vector.squeeze(1))}, {ATTENTION: weights}, signals)


class Writing(SmallModel):
    """A text is written token by token; all that the writer knows of what it reads is what attention brings.

    K = BiGRU(F), V = F = features(x);  s_t = GRU([E y_{t-1}; c_{t-1}], s_{t-1});  c_t, a_t = attention(s_t, K, V)
    o_t = W [s_t; c_t], with c fed back (Luong et al. 2015, §3.3) and s_0 trained

    Values are letters with their neighbours, so that who looks elsewhere knows no letter; keys know their places.
    Upper bounds, for alignments that want some, are what is left of 1 for each key. `forgetful`: earlier weights are
    hidden from the mechanism, to see what it makes of them.

    Shapes: source_ids int64 [batch, key] and their mask, written_ids int64 [batch, step]: what was put out before each
        step, classes from 1, and one more at the beginning -> logits [batch, step, class].
    """

    forgetful = False

    def __init__(self, texts: Texts, attention: nn.Module) -> None:
        super().__init__()
        d, classes = texts.d, len(texts.labels)
        self.features, self.look = Features(texts), Look(attention, d=d)
        self.read = BiGru(d_in=d, d_hidden=d // 2)
        self.embedding = nn.Embedding(classes + 2, d, padding_idx=0)
        self.start = nn.Parameter(0.1 * torch.randn(d))
        self.cell = nn.GRUCell(2 * d, d)
        self.score = nn.Sequential(nn.Linear(2 * d, d), nn.Tanh(), nn.Linear(d, classes))

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["source_mask"]
        values = self.features(tensors["source_ids"], mask)
        keys, allowed = self.read(values, mask), over_keys(mask)
        fed = self.embedding(tensors["written_ids"])
        state = self.start.expand(len(mask), -1)
        found, before, covered = torch.zeros_like(fed[:, :1]), None, torch.zeros_like(allowed, dtype=fed.dtype)
        rows, states, contexts, signals = [], [], [], []
        for step in range(fed.shape[1]):
            state = self.cell(torch.cat([fed[:, step], found.squeeze(1)], -1), state)
            query = state.unsqueeze(1)
            known = {"previous_weights": before, "coverage": covered, "previous_context": found.unsqueeze(1)}
            if self.forgetful:
                known = {"coverage": torch.zeros_like(covered)}
            context = self.look.drawing(
                query,
                keys,
                **known,
                upper_bounds=(1 - covered).clamp(min=0),
                query_positions=torch.full((1, 1, 1), float(step)),
            )
            carried = self.look.carried(query, keys, allowed, context)
            signals.append(self.look.signals(query, keys, allowed, context))
            found, weights = self.look(query, keys, values, allowed, context)
            before = weights if carried is None else carried
            covered = covered + weights.mean(1, keepdim=True) if weights.dim() == 4 else covered
            rows.append(weights)
            states.append(state)
            contexts.append(found.squeeze(1))
        logits = self.score(torch.cat([torch.stack(states, 1), torch.stack(contexts, 1)], -1))
        summed = {name: torch.stack([each[name] for each in signals]).sum(0) for name in signals[0]}
        return Answer({"logits": logits}, {ATTENTION: torch.cat(rows, 2)}, summed)


class Story(SmallModel):
    """A question about facts, by the memory network of the study of signals.

    Shapes: fact_ids int64 [batch, fact, word], word_ids int64 [batch, word] -> logits [batch, class].
    """

    def __init__(self, texts: Texts, hops: nn.Module, *, most: int) -> None:
        super().__init__()
        self.reader = Reader(vocabulary=texts.vocabulary, answers=len(texts.labels), hops=hops, d=texts.d, most=most)

    def forward(self, **tensors: Tensor) -> Answer:
        logits, weights = self.reader(tensors["fact_ids"], tensors["word_ids"])
        return Answer({"logits": logits}, {ATTENTION: weights})


class Apart(nn.Module):
    """Each of two sentences pooled by itself: attention, but none between them."""

    def __init__(self, texts: Texts) -> None:
        super().__init__()
        self.first, self.second = pool(texts), pool(texts)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of the first sentence, then those of the second."""
        return weights_of(self.first, self.second)

    def forward(self, first: Tensor, second: Tensor, first_mask: Tensor, second_mask: Tensor) -> tuple[Pair, Pair]:
        one, weights = self.first(first, None, first_mask)
        other, other_weights = self.second(second, None, second_mask)
        return Pair(one, other), Pair(weights, other_weights)
