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

plain = partial(Mechanism, column="dimensionality")


def feature_wise(score: Callable[[], Score]) -> Callable[[], nn.Module]:
    return lambda: Attention(score=FeatureWise(score=score(), d_q=D, d_k=D, d_p=3, d_v=D))


DIMENSIONALITY: tuple[Mechanism, ...] = (
    plain(row="D1", name="single-dimensional", module=Attention, build=lambda: Attention(score=ScaledDot())),
    plain(
        row="D2",
        name="feature-wise additive",
        module=FeatureWise,
        build=feature_wise(lambda: Additive(d_q=3, d_k=3, d_w=5)),
    ),
    plain(row="D2", name="feature-wise scaled dot", module=FeatureWise, build=feature_wise(ScaledDot)),
    plain(
        row="D2",
        name="token2token",
        module=TokenToToken,
        build=lambda: Attention(score=TokenToToken(d_q=D, d_k=D, d_v=D, heads=HEADS)),
    ),
    plain(
        row="D2",
        name="source2token",
        module=SourceToToken,
        build=lambda: Attention(score=SourceToToken(d_k=D, d_w=5, d_v=D, heads=HEADS)),
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
        )
        for name, direction in (("forward", masks.forward), ("backward", masks.backward))
    ),
)
