"""Queries in the catalogue, rows H1 to H7 (H8 is a training signal)."""

from functools import partial

import torch
from torch import Tensor, nn

from limelight_models.attention.core import Attention
from limelight_models.attention.flat import over_keys
from limelight_models.attention.queries.auxiliary import AuxiliaryQuery
from limelight_models.attention.queries.capsule import CapsuleAttention
from limelight_models.attention.queries.decoder import Decoder
from limelight_models.attention.queries.label_wise import LabelWise
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.queries.multi_hop import MultiHop
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.queries.question_hop import QuestionHops
from limelight_models.attention.queries.self_attention import SelfAttention
from limelight_models.attention.queries.specialised import AverageQuery
from limelight_models.attention.score import Dot, PerHead, SelfAttentive
from limelight_models.catalogue.examples import AXES, Inputs, calling, feature_inputs, question_inputs
from limelight_models.catalogue.mechanism import FEATURES as D
from limelight_models.catalogue.mechanism import SMALL, Mechanism, Sizes
from limelight_models.catalogue.testbed import beside, pair_forms
from limelight_models.catalogue.testbed import sentence_forms as forms
from limelight_models.catalogue.testbed.form import read_by
from limelight_models.catalogue.testbed.taxonomy import ADDITIVE
from limelight_models.catalogue.testbed.text import Scale

about_features = partial(
    Mechanism, column="queries", make_inputs=feature_inputs, call=calling("features", "mask"), axes=AXES
)
asking = partial(Mechanism, column="queries", make_inputs=question_inputs, axes=AXES)


def call_asking(module: nn.Module, inputs: Inputs) -> tuple[Tensor, ...]:
    """Every position of the question is a query over the features."""
    return module(inputs["question"], inputs["features"], None, over_keys(inputs["mask"]))


def call_pool(module: nn.Module, inputs: Inputs) -> tuple[Tensor, ...]:
    """One vector of the features."""
    return module(inputs["features"], None, inputs["mask"])


def call_capsules(module: nn.Module, inputs: Inputs) -> tuple[Tensor, ...]:
    """Three things a class, and the weights."""
    capsules, weights = module(inputs["features"], None, inputs["mask"])
    return (*capsules, weights)


def call_self(module: nn.Module, inputs: Inputs) -> tuple[Tensor, ...]:
    """Every position over every position."""
    return module(inputs["features"], over_keys(inputs["mask"]))


def decoder_inputs(sizes: Sizes, generator: torch.Generator) -> Inputs:
    """A state to begin with and three outputs, beside features; the first instance has no features."""
    begin = {
        "state": torch.randn(sizes.batch, SMALL.d_w, generator=generator),
        "outputs": torch.randn(sizes.batch, 3, D, generator=generator),
    }
    return begin | feature_inputs(sizes, generator)


def variable_inputs(sizes: Sizes, generator: torch.Generator) -> Inputs:
    """Variables beside features; the first instance has no features."""
    variables = torch.randn(sizes.batch, SMALL.variables, generator=generator)
    return {"variables": variables} | feature_inputs(sizes, generator)


def pool(s: Scale) -> SelfAttentivePool:
    """Without a query."""
    return SelfAttentivePool(attention=Attention(score=SelfAttentive(d_k=s.d, d_w=s.d_w)))


def asking_pool(s: Scale) -> SelfAttentivePool:
    """With a trained query."""
    return SelfAttentivePool(attention=Attention(score=Dot()), d_q=s.d)


QUERIES: tuple[Mechanism, ...] = (
    Mechanism(
        row="H1",
        name="basic query",
        column="queries",
        module=Decoder,
        make=forms.decoding,
        make_inputs=decoder_inputs,
        call=calling("state", "outputs", "features", "mask"),
        outputs=("states", "context", "weights"),
        axes=AXES | {"state": ("batch", None), "outputs": ("batch", None, None)},
        served=forms.decoder(),
    ),
    Mechanism(
        row="H1",
        name="basic query of auxiliary variables",
        column="queries",
        module=AuxiliaryQuery,
        make=beside.asking_by_variables,
        make_inputs=variable_inputs,
        call=calling("variables", "features", "mask"),
        axes=AXES | {"variables": ("batch", None)},
        served=beside.variables(),
    ),
    asking(
        row="H2",
        name="specialised query, average",
        module=AverageQuery,
        make=forms.asking_by_average,
        call=calling("question", "features", "question_mask", "mask"),
        served=forms.average_query(),
    ),
    about_features(
        row="H3",
        name="self-attentive query, left out",
        module=SelfAttentivePool,
        make=pool,
        call=call_pool,
        served=read_by(forms.pooled(pool), score="self-attentive"),
    ),
    about_features(
        row="H3",
        name="self-attentive query, trained",
        module=SelfAttentivePool,
        make=asking_pool,
        call=call_pool,
        served=read_by(forms.pooled(asking_pool), score="multiplicative (dot)"),
    ),
    about_features(
        row="H3",
        name="self-attentive query, token to token",
        module=SelfAttention,
        make=forms.token_to_token,
        call=call_self,
        served=forms.every_token(),
    ),
    asking(
        row="H4", name="multi-head", module=MultiHead, make=forms.multi_head, call=call_asking, served=forms.heads()
    ),
    asking(
        row="I3",
        name="multi-head with a syntactic head",
        module=PerHead,
        make=forms.parsing,
        call=call_asking,
        served=forms.syntactic(),
        note="the head has a parser's form and learns with the task; in `lisa` (P15) `syntax_head_loss` teaches it",
    ),
    asking(
        row="H5",
        name="multi-hop, shared weights",
        module=MultiHop,
        make=forms.sharing,
        call=call_asking,
        served=forms.hops(forms.sharing, forms.HOPS),
    ),
    asking(
        row="H5",
        name="multi-hop, context in the query",
        module=MultiHop,
        make=forms.mixing,
        call=call_asking,
        served=forms.hops(forms.mixing, 2),
    ),
    asking(
        row="H5",
        name="multi-hop, question reread",
        module=QuestionHops,
        make=partial(pair_forms.question_hops, asks="query"),
        call=calling("question", "features", "question_mask", "mask"),
        outputs=("context", "question_weights", "weights"),
        served=pair_forms.reread(),
    ),
    asking(
        row="H5",
        name="multi-hop, question reread with what was found",
        module=QuestionHops,
        make=partial(pair_forms.question_hops, asks="both"),
        call=calling("question", "features", "question_mask", "mask"),
        outputs=("context", "question_weights", "weights"),
        served=pair_forms.reread(asks="both"),
    ),
    about_features(
        row="H6",
        name="capsule-based",
        module=CapsuleAttention,
        make=forms.capsule,
        call=call_capsules,
        outputs=("context", "probability", "reconstruction", "weights"),
        served=read_by(forms.capsules, score="multiplicative (dot)", multiplicity="capsule"),
    ),
    about_features(
        row="H7",
        name="label-wise",
        module=LabelWise,
        make=forms.asking_by_label,
        call=call_pool,
        served=read_by(forms.label_wise, score=ADDITIVE, multiplicity="label-wise"),
    ),
)
