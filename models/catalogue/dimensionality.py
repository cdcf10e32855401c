"""Dimensionality in the catalogue, rows D1 and D2."""

from collections.abc import Callable
from functools import partial

from torch import nn

from models.attention import masks
from models.attention.core import Attention
from models.attention.dimensionality import DirectionalSelfAttention, FeatureWise, SourceToToken, TokenToToken
from models.attention.score import Additive, ScaledDot, Score
from models.catalogue.examples import AXES, calling, feature_inputs
from models.catalogue.mechanism import FEATURES as D
from models.catalogue.mechanism import HEADS, Mechanism
from models.testbed import sentence_forms as forms
from models.testbed.form import attended, read_by
from models.testbed.readers import EachToken
from models.testbed.taxonomy import ADDITIVE, SCALED

plain = partial(Mechanism, column="dimensionality")


def feature_wise(score: Callable[[], Score]) -> Callable[[], nn.Module]:
    return lambda: Attention(score=FeatureWise(score=score(), d_q=D, d_k=D, d_p=3, d_v=D))


DIMENSIONALITY: tuple[Mechanism, ...] = (
    plain(
        row="D1",
        name="single-dimensional",
        module=Attention,
        build=lambda: Attention(score=ScaledDot()),
        served=attended(lambda t: Attention(score=ScaledDot()), score=SCALED),
    ),
    plain(
        row="D2",
        name="feature-wise additive",
        module=FeatureWise,
        build=feature_wise(lambda: Additive(d_q=3, d_k=3, d_w=5)),
        served=attended(forms.feature_wise(forms.narrow_additive), score=ADDITIVE),
    ),
    plain(
        row="D2",
        name="feature-wise scaled dot",
        module=FeatureWise,
        build=feature_wise(ScaledDot),
        served=attended(forms.feature_wise(ScaledDot), score=SCALED),
    ),
    plain(
        row="D2",
        name="token2token",
        module=TokenToToken,
        build=lambda: Attention(score=TokenToToken(d_q=D, d_k=D, d_v=D, heads=HEADS)),
        served=attended(
            lambda t: Attention(score=TokenToToken(d_q=t.d, d_k=t.d, d_v=t.d)), score=ADDITIVE, form=EachToken
        ),
    ),
    plain(
        row="D2",
        name="source2token",
        module=SourceToToken,
        build=lambda: Attention(score=SourceToToken(d_k=D, d_w=5, d_v=D, heads=HEADS)),
        served=attended(lambda t: Attention(score=SourceToToken(d_k=t.d, d_w=t.d, d_v=t.d)), score=ADDITIVE),
    ),
    *(
        plain(
            row="D2",
            name=f"directional self-attention, {name}",
            module=DirectionalSelfAttention,
            build=partial(DirectionalSelfAttention, d_f=D, d=4, direction=direction),
            make_inputs=feature_inputs,
            call=calling("features", "mask"),
            axes=AXES,
            served=read_by(forms.directional(direction), score=ADDITIVE),
        )
        for name, direction in (("forward", masks.forward), ("backward", masks.backward))
    ),
)
