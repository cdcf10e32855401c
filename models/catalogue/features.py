"""Several inputs in the catalogue, rows G1 to G8."""

from collections.abc import Callable
from functools import partial

import torch

from models.attention.core import Attention
from models.attention.features import (
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
    Rotation,
    Rotatory,
    TanhBilinear,
)
from models.attention.queries.pool import SelfAttentivePool
from models.attention.score import ActivatedGeneral, Additive, General, Score, SelfAttentive
from models.catalogue.examples import AXES, Inputs, calling, pair_inputs, some
from models.catalogue.mechanism import FEATURES as D
from models.catalogue.mechanism import HEADS, Mechanism, Sizes
from models.testbed import aspect_forms
from models.testbed import pair_forms as forms

MAX = 32
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
affinity = partial(Mechanism, row="G8", column="features")
FINE = ("first", "second", "first_weights", "second_weights", "affinity")


def additive() -> Attention:
    return Attention(score=Additive(d_q=D, d_k=D, d_w=5))


def activated() -> Attention:
    return Attention(score=ActivatedGeneral(d_q=D, d_k=D))


def parallel(score: Callable[[], Score], aggregate: Callable[[], Aggregate]) -> Callable[[], Parallel]:
    return lambda: Parallel(attention=Attention(score=score()), aggregate=aggregate())


def bilinear() -> TanhBilinear:
    return TanhBilinear(d_q=D, d_k=D)


def perceptron() -> Perceptron:
    return Perceptron(d_first=D, d_second=D, d_w=5)


def rotation() -> Rotation:
    return Rotation(left=activated(), right=activated(), left_target=activated(), right_target=activated())


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
        build=lambda: Alternating(over_first=additive(), over_second=additive(), d_query=D),
        outputs=("first", "second", "start_weights", "second_weights", "first_weights"),
        served=forms.co(forms.alternating, forms.ALTERNATING, score="additive"),
    ),
    pair(
        row="G1",
        name="alternating co-attention, a start of its own",
        module=Alternating,
        build=lambda: Alternating(
            over_first=additive(),
            over_second=additive(),
            d_query=D,
            start=SelfAttentivePool(attention=Attention(score=SelfAttentive(d_k=D, d_w=5))),
        ),
        outputs=("first", "second", "start_weights", "second_weights", "first_weights"),
        served=forms.co(forms.alternating_from_itself, forms.ALTERNATING, score="additive"),
    ),
    pair(
        row="G2",
        name="interactive co-attention",
        module=Interactive,
        build=lambda: Interactive(over_first=activated(), over_second=activated()),
        outputs=("first", "second", "first_weights", "second_weights"),
        served=forms.co(forms.interactive(forms.activated), forms.COARSE, score="activated general"),
    ),
    pair(
        row="G3",
        name="parallel co-attention, bilinear affinity",
        module=Parallel,
        build=parallel(bilinear, perceptron),
        outputs=FINE,
        served=forms.fine(forms.bilinear, forms.perceptron, "activated general"),
    ),
    pair(
        row="G3",
        name="parallel co-attention, concat-product affinity",
        module=Parallel,
        build=parallel(lambda: ConcatProduct(d=D), perceptron),
        outputs=FINE,
        served=forms.fine(forms.concat_product, forms.perceptron, "concat-product"),
    ),
    pair(
        row="G4",
        name="attentive pooling",
        module=Pooling,
        build=parallel(bilinear, Pooling),
        outputs=FINE,
        served=forms.fine(forms.bilinear, forms.pooling, "activated general"),
    ),
    pair(
        row="G5",
        name="multi-grained co-attention",
        module=MultiGrained,
        build=lambda: MultiGrained(
            coarse=Interactive(
                over_first=Attention(score=General(d_q=D, d_k=D)), over_second=Attention(score=General(d_q=D, d_k=D))
            ),
            fine=parallel(lambda: ConcatProduct(d=D), Pooling)(),
        ),
        outputs=("context", "coarse_first", "coarse_second", "fine_first", "fine_second", "affinity"),
        served=forms.co(forms.multi_grained, forms.GRAINS, score="general", read=forms.read_grains, pairs=2),
    ),
    rotatory(
        name="rotatory attention", served=aspect_forms.rotatory(1), build=lambda: Rotatory(rotations=[rotation()])
    ),
    rotatory(
        name="rotatory attention, repeated",
        build=lambda: Rotatory(rotations=[rotation(), rotation()]),
        served=aspect_forms.rotatory(aspect_forms.TURNS),
    ),
    pair(
        row="G7",
        name="aggregation by pooling",
        module=Pooling,
        build=parallel(lambda: General(d_q=D, d_k=D), Pooling),
        outputs=FINE,
        served=forms.fine(forms.general, forms.pooling, "general"),
    ),
    pair(
        row="G7",
        name="aggregation by perceptron",
        module=Perceptron,
        build=parallel(lambda: General(d_q=D, d_k=D), perceptron),
        outputs=FINE,
        served=forms.fine(forms.general, forms.perceptron, "general"),
    ),
    pair(
        row="G7",
        name="aggregation by linear transformation",
        module=LinearTransformation,
        build=parallel(bilinear, lambda: LinearTransformation(max_first=MAX, max_second=MAX)),
        outputs=FINE,
        served=forms.fine(forms.bilinear, forms.linear, "activated general"),
    ),
    pair(
        row="G7",
        name="attention over attention",
        module=AttentionOverAttention,
        build=parallel(lambda: General(d_q=D, d_k=D), AttentionOverAttention),
        outputs=FINE,
        served=forms.fine(forms.general, lambda t: AttentionOverAttention(), "general"),
    ),
    pair(
        row="G7",
        name="aggregation by perceptron with nested attention",
        module=NestedPerceptron,
        build=parallel(bilinear, lambda: NestedPerceptron(d_first=D, d_second=D, d_w=5)),
        outputs=FINE,
        served=forms.fine(forms.bilinear, forms.nested, "activated general"),
    ),
    affinity(
        name="bilinear affinity",
        module=TanhBilinear,
        build=lambda: Attention(score=TanhBilinear(d_q=D, d_k=D, heads=HEADS)),
        served=forms.fine(forms.bilinear, forms.pooling, "activated general"),
    ),
    affinity(
        name="concat-product affinity",
        module=ConcatProduct,
        build=lambda: Attention(score=ConcatProduct(d=D, heads=HEADS)),
        served=forms.fine(forms.concat_product, forms.pooling, "concat-product"),
    ),
    affinity(
        name="decomposable affinity",
        module=Decomposable,
        build=lambda: Attention(score=Decomposable(d_q=D, d_k=D, d_w=5, heads=HEADS)),
        served=forms.fine(forms.decomposable, forms.pooling, "decomposable"),
    ),
    affinity(
        name="Hermitian affinity",
        module=Hermitian,
        build=lambda: Attention(score=Hermitian(d_q=D, d_k=D, d_c=4, heads=HEADS)),
        served=forms.fine(forms.hermitian, forms.pooling, "Hermitian"),
    ),
)
