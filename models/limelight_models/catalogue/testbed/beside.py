"""Small classifiers of a text with something beside it: how far its words are apart (C16), or variables (H1)."""

from collections.abc import Callable

from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.context import Context
from limelight_models.attention.flat import average
from limelight_models.attention.general import FeatureAttention
from limelight_models.attention.queries.auxiliary import AuxiliaryQuery
from limelight_models.attention.score import Additive
from limelight_models.cards.inputs import TensorInput, TensorSpec
from limelight_models.cards.maps import map_of
from limelight_models.catalogue.testbed.classifier import SmallModel
from limelight_models.catalogue.testbed.form import Built, ServedForm
from limelight_models.catalogue.testbed.readers import pairs_of
from limelight_models.catalogue.testbed.taxonomy import ADDITIVE, SCALED, classifier, taxonomy
from limelight_models.catalogue.testbed.text import (
    ATTENTION,
    TEXT,
    TOKENS,
    Features,
    Scale,
    Texts,
    text_input,
)
from limelight_models.network import Answer
from limelight_models.tasks.heads import Scores

DISTANCES, VARIABLES = "distances", "variables"  # inputs, and tasks


READS = "sentences and what comes with them,"


class DistancesModel(SmallModel):
    """Every token looks at those that are near it on a tree or a graph, and what they saw is averaged.

    q_i = W_Q f_i;  c_i, a_i = attention(q_i, W_K F, W_V F; d_i);  c = mean_i c_i

    Shapes: token_ids int64 [batch, token], token_mask bool of the same, distances int64 [batch, token, token]
        -> logits [batch, class], map `attention` [batch, 1, token, token].
    """

    def __init__(self, texts: Texts, attention: Attention) -> None:
        super().__init__()
        d = texts.d
        self.features = Features(texts)
        self.ask = nn.Linear(d, d)
        self.module = FeatureAttention(attention=attention, d_f=d, d_k=d, d_v=d)
        self.maps = {ATTENTION: map_of(attention, "self", queries=TOKENS, keys=TOKENS, features=d)}
        self.classify = Scores(d_in=d, d_out=len(texts.labels), dropout=texts.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["token_mask"]
        features = self.features(tensors["token_ids"], mask)
        context = Context(distances=tensors[DISTANCES].to(features.dtype).unsqueeze(1))
        vectors, weights = self.module(self.ask(features), features, pairs_of(mask), context)
        return Answer({"logits": self.classify(average(vectors, mask).squeeze(1))}, {ATTENTION: weights})


class VariablesModel(SmallModel):
    """Variables ask the text: a specialist's question, say, that follows from whose text it is.

    Shapes: token_ids int64 [batch, token], token_mask bool of the same, variables float32 [batch, variable]
        -> logits [batch, class], map `attention` [batch, 1, 1, token].
    """

    def __init__(self, texts: Texts, module: AuxiliaryQuery) -> None:
        super().__init__()
        self.features, self.module = Features(texts), module
        self.maps = {ATTENTION: map_of(module, "pool", queries=TEXT, keys=TOKENS, features=texts.d)}
        self.classify = Scores(d_in=texts.d, d_out=len(texts.labels), dropout=texts.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["token_mask"]
        vector, weights = self.module(tensors[VARIABLES], self.features(tensors["token_ids"], mask), mask)
        return Answer({"logits": self.classify(vector)}, {ATTENTION: weights})


def over_distances(attention: Attention, title: str, texts: Texts, *, align: str) -> Built:
    """The model of distances, and its card."""
    model = DistancesModel(texts, attention).eval()
    apart = TensorInput(
        name=DISTANCES,
        summary=f"How many steps tokens are apart on a tree or a graph; {texts.max_tokens} where there is no way.",
        tensor=TensorSpec(
            name=DISTANCES,
            data_type="int64",
            dimensions={"token": texts.max_tokens},
            square=True,
            minimum=0,
            maximum=texts.max_tokens,
        ),
    )
    row = taxonomy(score=SCALED, align=align, query="self-attentive")
    return model, classifier(READS, texts, [text_input(texts), apart], model.maps, title=title, taxonomy=row)


def distances(make: Callable[[Scale], Attention], *, align: str) -> ServedForm:
    """An attention that reads distances, which come with the text."""
    return ServedForm(
        task=DISTANCES, make=lambda title, texts: over_distances(make(texts), title, texts, align=align), attention=make
    )


def asking_by_variables(s: Scale) -> AuxiliaryQuery:
    """The module, by additive attention."""
    return AuxiliaryQuery(attention=Attention(score=Additive(d_q=s.d, d_k=s.d, d_w=s.d_w)), d_x=s.variables, d_q=s.d)


def variables() -> ServedForm:
    """Variables, which come with the text, ask it."""

    def built(title: str, texts: Texts) -> Built:
        model = VariablesModel(texts, asking_by_variables(texts)).eval()
        known = TensorInput(
            name=VARIABLES,
            summary="What is known beside the text, a number each.",
            tensor=TensorSpec(name=VARIABLES, dimensions={"variable": texts.variables}, fixed=True),
        )
        row = taxonomy(score=ADDITIVE, query="basic")
        return model, classifier(READS, texts, [text_input(texts), known], model.maps, title=title, taxonomy=row)

    return ServedForm(task=VARIABLES, make=built)
