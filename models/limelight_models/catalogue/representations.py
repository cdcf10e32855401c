"""Representations in the catalogue, rows F1 and F2."""

from functools import partial

import torch
from torch import Tensor, nn

from limelight_models.attention.core import Attention
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.representations import MetaEmbedding
from limelight_models.attention.score import SelfAttentive
from limelight_models.catalogue.examples import Inputs, Neighbours, some
from limelight_models.catalogue.mechanism import Mechanism, Sizes
from limelight_models.catalogue.testbed import sentence_forms as forms
from limelight_models.catalogue.testbed.form import attended
from limelight_models.catalogue.testbed.taxonomy import ADDITIVE
from limelight_models.catalogue.testbed.text import Scale

SIZES = (4, 3, 5)
NAMES = ("large", "small", "characters")


def embedding_inputs(sizes: Sizes, generator: torch.Generator) -> Inputs:
    """Three embeddings of `key` tokens, not every token having each; the first instance is padding."""
    inputs = {n: torch.randn(sizes.batch, sizes.key, d, generator=generator) for n, d in zip(NAMES, SIZES, strict=True)}
    return inputs | {"mask": some(generator, sizes.batch, sizes.key, len(SIZES), empty=0)}


def call_embeddings(module: nn.Module, inputs: Inputs) -> tuple[Tensor, ...]:
    """Call a `MetaEmbedding`."""
    return module([inputs[name] for name in NAMES], inputs["mask"])


def pool(s: Scale, d_k: int) -> SelfAttentivePool:
    return SelfAttentivePool(attention=Attention(score=SelfAttentive(d_k=d_k, d_w=s.d_w)))


meta = partial(
    Mechanism,
    row="F2",
    column="representations",
    module=MetaEmbedding,
    make_inputs=embedding_inputs,
    call=call_embeddings,
    axes={**dict.fromkeys(NAMES, ("batch", "key", None)), "mask": ("batch", "key", None)},
)

REPRESENTATIONS: tuple[Mechanism, ...] = (
    Mechanism(
        row="F1",
        name="single-representational",
        column="representations",
        module=Attention,
        make=forms.additive,
        served=attended(forms.additive, score=ADDITIVE),
    ),
    meta(
        name="dynamic meta-embeddings",
        make=lambda s: MetaEmbedding(pool=pool(s, s.d), sizes=SIZES, d=s.d),
        served=forms.meta(contextualised=False),
    ),
    meta(
        name="contextualised meta-embeddings",
        make=lambda s: MetaEmbedding(pool=pool(s, 2), sizes=SIZES, d=s.d, encode=Neighbours(d_in=s.d, d_out=2)),
        served=forms.meta(contextualised=True),
        note="a convolution over five words reads each embedding where the paper has a BiLSTM",
    ),
)
