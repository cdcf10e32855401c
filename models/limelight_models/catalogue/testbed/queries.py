"""Readers for where queries come from and how many there are (BF §3.3): the query mechanisms in the sentence model."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.flat import attend, average, over_keys
from limelight_models.attention.general import TaskModel
from limelight_models.attention.queries.capsule import CapsuleAttention
from limelight_models.attention.queries.decoder import Decoder
from limelight_models.attention.queries.label_wise import LabelLinear, LabelWise
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.queries.specialised import AverageQuery
from limelight_models.attention.signals import RationaleAttention
from limelight_models.attention.signals.disagreement import output_agreement, position_agreement, subspace_agreement
from limelight_models.cards.labels import LabelSet, numbered
from limelight_models.cards.maps import MapKind, map_of
from limelight_models.catalogue.testbed.readers import Reader
from limelight_models.catalogue.testbed.text import ATTENTION, TEXT, TOKENS, Texts

Read = tuple[Tensor, Mapping[str, Tensor]]


class OneMap(Reader):
    """A reader around one module, with one map: who asks (one query for the text, where it is not said), the tokens."""

    def __init__(
        self,
        *,
        module: nn.Module,
        d: int,
        query: str,
        queries: LabelSet = TEXT,
        kind: MapKind = "pool",
        of_heads: LabelSet | None = None,
    ) -> None:
        super().__init__()
        self.module, self.query = module, query
        self.maps = {ATTENTION: map_of(module, kind, queries=queries, keys=TOKENS, features=d, of_heads=of_heads)}


class Asked(OneMap):
    """The average of the features asks, through anything that has the call of an attention (multi-head, multi-hop)."""

    def __init__(self, *, module: nn.Module, d: int, queries: LabelSet = TEXT) -> None:
        super().__init__(module=module, d=d, queries=queries, query="specialised")
        self.ask = nn.Linear(d, d)

    def question(self, features: Tensor, mask: Tensor) -> Tensor:
        """The query [batch, 1, d]."""
        return self.ask(average(features, mask))

    def forward(self, features: Tensor, mask: Tensor, noise: Tensor | None = None) -> Read:
        vectors, weights = attend(self.module, self.question(features, mask), features, None, over_keys(mask))
        return vectors.flatten(1), {ATTENTION: weights}


class Decoding(OneMap):
    """A decoder that answers again and again, its state asking each time (H1); the last answer counts.

    s_0 = tanh(W_0 f_last);  o_t = W_o s_t;  y_t = Σ_c softmax(o_t)_c E_c, its own answer, is fed back;  y_0 is trained
    """

    classifies = True
    module: Decoder

    def __init__(self, *, module: Decoder, texts: Texts, steps: int) -> None:
        answers = numbered("answers", "output_steps", "answer", steps)
        super().__init__(module=module, d=texts.d, queries=answers, query="basic")
        self.steps = steps
        self.begin = nn.Linear(texts.d, module.d_s)
        self.first_output = nn.Parameter(0.1 * torch.randn(module.d_y))
        self.score = nn.Linear(module.d_s, len(texts.labels))
        self.fed_back = nn.Linear(len(texts.labels), module.d_y, bias=False)

    def forward(self, features: Tensor, mask: Tensor, noise: Tensor | None = None) -> Read:
        end = (mask.sum(1) - 1).clamp(min=0)[:, None, None].expand(-1, 1, features.shape[-1])
        state = self.begin(features.gather(1, end).squeeze(1)).tanh()
        output, rows = self.first_output.expand(features.shape[0], -1), []
        for _ in range(self.steps):
            found, weights = self.module.ask(state, features, mask)
            state = self.module.advance(state, output, found)
            scores = self.score(state)
            output = self.fed_back(scores.softmax(-1))
            rows.append(weights)
        return scores, {ATTENTION: torch.cat(rows, 2)}


class Judged(OneMap):
    """A classifier of reasons decides how much each word counts (I2)."""

    module: RationaleAttention

    def __init__(self, *, module: RationaleAttention, d: int) -> None:
        super().__init__(module=module, d=d, query="self-attentive")

    def forward(self, features: Tensor, mask: Tensor, noise: Tensor | None = None) -> Read:
        vector, weights = self.module(features, mask)
        return vector, {ATTENTION: weights}


class Disagreeing(Asked):
    """Multi-head attention whose heads are trained to differ in what they see, where they look, or what they say (H8).

    `by`: subspaces, positions or outputs; `weight`: of the penalty (Li et al. 2018b, eq. 5).
    """

    module: MultiHead

    def __init__(self, *, module: MultiHead, d: int, by: str, weight: float = 1.0) -> None:
        super().__init__(module=module, d=d)
        self.by, self.weight = by, weight

    def signals(self, features: Tensor, mask: Tensor, noise: Tensor | None) -> Mapping[str, Tensor]:
        """Agreement of the heads."""
        heads = self.module
        query, key, value = heads.project(self.question(features, mask), features, None)
        if self.by == "subspaces":
            return {"penalty": self.weight * subspace_agreement(value, mask)}
        vectors, weights = heads.attention(query, key, value, over_keys(mask), Context())
        agreement = position_agreement(weights) if self.by == "positions" else output_agreement(vectors)
        return {"penalty": self.weight * agreement}


class AskedByAverage(OneMap):
    """The average query of the registry (H2), the text asking itself."""

    module: AverageQuery

    def __init__(self, *, module: AverageQuery, d: int) -> None:
        super().__init__(module=module, d=d, query="specialised")

    def forward(self, features: Tensor, mask: Tensor, noise: Tensor | None = None) -> Read:
        vector, weights = self.module(features, features, mask, mask)
        return vector, {ATTENTION: weights}


class SelfPooled(OneMap):
    """A query that is left out or trained (H3): one question for every text."""

    module: SelfAttentivePool

    def __init__(self, *, module: SelfAttentivePool, d: int) -> None:
        super().__init__(module=module, d=d, query="self-attentive")

    def forward(self, features: Tensor, mask: Tensor, noise: Tensor | None = None) -> Read:
        vector, weights = self.module(features, None, mask)
        return vector, {ATTENTION: weights}


class SelfAttending(OneMap):
    """Every token asks, and what they become is averaged (H3). of_heads: names of its heads, where they differ."""

    def __init__(self, *, module: nn.Module, d: int, of_heads: LabelSet | None = None) -> None:
        super().__init__(module=module, d=d, query="self-attentive", queries=TOKENS, kind="self", of_heads=of_heads)

    def forward(self, features: Tensor, mask: Tensor, noise: Tensor | None = None) -> Read:
        vectors, weights = self.module(features, self.allowed(mask))
        return average(vectors, mask).squeeze(1), {ATTENTION: weights}

    def allowed(self, mask: Tensor) -> Tensor | None:
        """The mask as the module takes it."""
        return over_keys(mask)


class Directed(SelfAttending):
    """The same in one direction and with a gate (D2), which masks pairs of positions by itself."""

    def allowed(self, mask: Tensor) -> Tensor | None:
        return mask


class WholeTask(OneMap):
    """The survey's task model (A1) as the reader: its feature model reads further, its output model classifies.

    With a query model every token asks, and their scores are averaged.
    """

    classifies = True
    module: TaskModel

    def __init__(self, *, module: TaskModel, d: int) -> None:
        asked = module.query_model is not None
        super().__init__(
            module=module,
            d=d,
            query="self-attentive",
            queries=TOKENS if asked else TEXT,
            kind="self" if asked else "pool",
        )

    def forward(self, features: Tensor, mask: Tensor, noise: Tensor | None = None) -> Read:
        scores, weights = self.module(features, over_keys(mask))
        asked = self.module.query_model is not None
        return (average(scores, mask) if asked else scores).squeeze(1), {ATTENTION: weights}


class Labelled(OneMap):
    """A query a class, and a score from what it found (H7)."""

    classifies = True

    def __init__(self, *, module: LabelWise, texts: Texts) -> None:
        super().__init__(module=module, d=texts.d, queries=classes(texts), query="self-attentive")
        self.score = LabelLinear(labels=len(texts.labels), d_v=texts.d)

    def forward(self, features: Tensor, mask: Tensor, noise: Tensor | None = None) -> Read:
        vectors, weights = self.module(features, None, mask)
        return self.score(vectors), {ATTENTION: weights}


class Capsular(OneMap):
    """A capsule a class (H6); class scores are the log-odds of the capsules' probabilities."""

    classifies = True
    module: CapsuleAttention

    def __init__(self, *, module: CapsuleAttention, texts: Texts) -> None:
        super().__init__(module=module, d=texts.d, queries=classes(texts), query="self-attentive")

    def forward(self, features: Tensor, mask: Tensor, noise: Tensor | None = None) -> Read:
        capsules, weights = self.module(features, None, mask)
        return torch.logit(capsules.probability, eps=1e-6), {ATTENTION: weights}

    def signals(self, features: Tensor, mask: Tensor, noise: Tensor | None) -> Mapping[str, Tensor]:
        """Inputs of the capsules' joint loss."""
        capsules, _ = self.module(features, None, mask)
        return {
            "probability": capsules.probability,
            "reconstruction": capsules.reconstruction,
            "average": average(features, mask),
        }


def classes(texts: Texts) -> LabelSet:
    """A query a class."""
    return LabelSet(name="classes", kind="classes", names=texts.labels)
