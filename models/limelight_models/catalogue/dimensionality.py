"""Dimensionality in the catalogue, rows D1 and D2."""

from collections.abc import Callable
from functools import partial

from torch import nn

from limelight_models.attention import masks
from limelight_models.attention.core import Attention
from limelight_models.attention.dimensionality import DirectionalSelfAttention, FeatureWise, SourceToToken, TokenToToken
from limelight_models.attention.score import ScaledDot
from limelight_models.catalogue.examples import AXES, calling, feature_inputs
from limelight_models.catalogue.mechanism import Mechanism
from limelight_models.catalogue.testbed import sentence_forms as forms
from limelight_models.catalogue.testbed.form import attended, read_by
from limelight_models.catalogue.testbed.readers import EachToken, Reader
from limelight_models.catalogue.testbed.taxonomy import ADDITIVE, SCALED
from limelight_models.catalogue.testbed.text import Scale

plain = partial(Mechanism, column="dimensionality")


def attending(
    row: str,
    name: str,
    module: type[nn.Module],
    make: Callable[[Scale], Attention],
    score: str,
    form: Callable[..., Reader] | None = None,
) -> Mechanism:
    """A row that is an `Attention`."""
    return plain(row=row, name=name, module=module, make=make, served=attended(make, score=score, form=form))


DIMENSIONALITY: tuple[Mechanism, ...] = (
    attending("D1", "single-dimensional", Attention, lambda s: Attention(score=ScaledDot()), SCALED),
    attending("D2", "feature-wise additive", FeatureWise, forms.feature_wise(forms.narrow_additive), ADDITIVE),
    attending("D2", "feature-wise scaled dot", FeatureWise, forms.feature_wise(ScaledDot), SCALED),
    attending(
        "D2",
        "token2token",
        TokenToToken,
        lambda s: Attention(score=TokenToToken(d_q=s.d, d_k=s.d, d_v=s.d, heads=s.heads)),
        ADDITIVE,
        form=EachToken,
    ),
    attending(
        "D2",
        "source2token",
        SourceToToken,
        lambda s: Attention(score=SourceToToken(d_k=s.d, d_w=s.d_w, d_v=s.d, heads=s.heads)),
        ADDITIVE,
    ),
    *(
        plain(
            row="D2",
            name=f"directional self-attention, {name}",
            module=DirectionalSelfAttention,
            make=forms.directed(direction),
            make_inputs=feature_inputs,
            call=calling("features", "mask"),
            axes=AXES,
            served=read_by(forms.directional(direction), score=ADDITIVE),
        )
        for name, direction in (("forward", masks.forward), ("backward", masks.backward))
    ),
)
