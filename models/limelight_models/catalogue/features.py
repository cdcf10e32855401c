"""Several inputs in the catalogue, rows G1 to G8."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from limelight_models.attention.core import Attention
from limelight_models.attention.features import (
    Aggregate,
    Alternating,
    AttentionOverAttention,
    ConcatProduct,
    Decomposable,
    Hermitian,
    Interactive,
    LinearTransformation,
    MultiGrained,
    NestedPerceptron,
    Parallel,
    Perceptron,
    Pooling,
    Rotatory,
    TanhBilinear,
)
from limelight_models.attention.score import Score
from limelight_models.catalogue.examples import AXES, Inputs, calling, pair_inputs, some
from limelight_models.catalogue.mechanism import FEATURES as D
from limelight_models.catalogue.mechanism import Mechanism, Sizes
from limelight_models.catalogue.testbed import aspect_forms
from limelight_models.catalogue.testbed import pair_forms as forms
from limelight_models.catalogue.testbed.text import Scale

ROTATORY_AXES = {
    "left": ("batch", "query", None),
    "target": ("batch", "query", None),
    "right": ("batch", "key", None),
    "left_mask": ("batch", "query"),
    "target_mask": ("batch", "query"),
    "right_mask": ("batch", "key"),
}
pair = partial(
    Mechanism,
    column="features",
    make_inputs=pair_inputs,
    call=calling("first", "second", "first_mask", "second_mask"),
    axes=AXES,
)
FINE = ("first", "second", "first_weights", "second_weights", "affinity")
COARSE = ("first", "second", "start_weights", "second_weights", "first_weights")


def fine(
    row: str,
    name: str,
    module: type[nn.Module],
    score: Callable[[Scale], Score],
    aggregate: Callable[[Scale], Aggregate],
    score_name: str,
) -> Mechanism:
    """A row of parallel co-attention: an affinity, and what becomes of it."""
    return pair(
        row=row,
        name=name,
        module=module,
        make=forms.parallel(score, aggregate),
        outputs=FINE,
        served=forms.fine(score, aggregate, score_name),
    )


def affinity(name: str, module: type[Score], score: Callable[[Scale], Score], score_name: str) -> Mechanism:
    """A row that is a score between the parts of two inputs."""
    return Mechanism(
        row="G8",
        name=f"{name} affinity",
        column="features",
        module=module,
        make=lambda s: Attention(score=score(s)),
        served=forms.fine(score, forms.pooling, score_name),
    )


def rotatory_inputs(sizes: Sizes, generator: torch.Generator) -> Inputs:
    """A target between two contexts; the first instance has no left context."""
    lengths = {"left": sizes.query, "target": sizes.query, "right": sizes.key}
    inputs = {n: torch.randn(sizes.batch, length, D, generator=generator) for n, length in lengths.items()}
    masks = {f"{n}_mask": some(generator, sizes.batch, length) for n, length in lengths.items()}
    if sizes.batch > 1:
        masks["left_mask"][0] = False
    return inputs | masks


rotatory = partial(
    Mechanism,
    row="G6",
    column="features",
    module=Rotatory,
    make_inputs=rotatory_inputs,
    call=calling("left", "target", "right", "left_mask", "target_mask", "right_mask"),
    outputs=("context", "left_weights", "right_weights", "left_target_weights", "right_target_weights"),
    axes=ROTATORY_AXES,
)

FEATURE_MECHANISMS: tuple[Mechanism, ...] = (
    pair(
        row="G1",
        name="alternating co-attention",
        module=Alternating,
        make=forms.alternating,
        outputs=COARSE,
        served=forms.co(forms.alternating, forms.ALTERNATING, score="additive"),
    ),
    pair(
        row="G1",
        name="alternating co-attention, a start of its own",
        module=Alternating,
        make=forms.alternating_from_itself,
        outputs=COARSE,
        served=forms.co(forms.alternating_from_itself, forms.ALTERNATING, score="additive"),
    ),
    pair(
        row="G2",
        name="interactive co-attention",
        module=Interactive,
        make=forms.interactive(forms.activated),
        outputs=("first", "second", "first_weights", "second_weights"),
        served=forms.co(forms.interactive(forms.activated), forms.COARSE, score="activated general"),
    ),
    fine(
        "G3",
        "parallel co-attention, bilinear affinity",
        Parallel,
        forms.bilinear,
        forms.perceptron,
        "activated general",
    ),
    fine(
        "G3",
        "parallel co-attention, concat-product affinity",
        Parallel,
        forms.concat_product,
        forms.perceptron,
        "concat-product",
    ),
    fine("G4", "attentive pooling", Pooling, forms.bilinear, forms.pooling, "activated general"),
    pair(
        row="G5",
        name="multi-grained co-attention",
        module=MultiGrained,
        make=forms.multi_grained,
        outputs=("context", "coarse_first", "coarse_second", "fine_first", "fine_second", "affinity"),
        served=forms.co(forms.multi_grained, forms.GRAINS, score="general", read=forms.read_grains, pairs=2),
    ),
    rotatory(name="rotatory attention", make=aspect_forms.turning(1), served=aspect_forms.rotatory(1)),
    rotatory(
        name="rotatory attention, repeated",
        make=aspect_forms.turning(aspect_forms.TURNS),
        served=aspect_forms.rotatory(aspect_forms.TURNS),
    ),
    fine("G7", "aggregation by pooling", Pooling, forms.general, forms.pooling, "general"),
    fine("G7", "aggregation by perceptron", Perceptron, forms.general, forms.perceptron, "general"),
    fine(
        "G7",
        "aggregation by linear transformation",
        LinearTransformation,
        forms.bilinear,
        forms.linear,
        "activated general",
    ),
    fine(
        "G7",
        "attention over attention",
        AttentionOverAttention,
        forms.general,
        lambda s: AttentionOverAttention(),
        "general",
    ),
    fine(
        "G7",
        "aggregation by perceptron with nested attention",
        NestedPerceptron,
        forms.bilinear,
        forms.nested,
        "activated general",
    ),
    affinity("bilinear", TanhBilinear, lambda s: TanhBilinear(d_q=s.d, d_k=s.d, heads=s.heads), "activated general"),
    affinity("concat-product", ConcatProduct, lambda s: ConcatProduct(d=s.d, heads=s.heads), "concat-product"),
    affinity(
        "decomposable", Decomposable, lambda s: Decomposable(d_q=s.d, d_k=s.d, d_w=s.d_w, heads=s.heads), "decomposable"
    ),
    affinity("Hermitian", Hermitian, lambda s: Hermitian(d_q=s.d, d_k=s.d, d_c=s.d, heads=s.heads), "Hermitian"),
)
