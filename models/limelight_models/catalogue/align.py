"""The alignments of the catalogue, rows C1 to C17."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from limelight_models.attention import masks
from limelight_models.attention.align import (
    AdaptiveSpan,
    Align,
    ConstrainedSoftmax,
    ConstrainedSparsemax,
    DeAttention,
    DistanceAware,
    Entmax,
    Entmax15,
    GaussianGrid,
    Hard,
    HardMonotonic,
    KernelRatio,
    KernelWeights,
    LocalMonotonic,
    LocalPredictive,
    MonotonicChunkwise,
    PositionalMask,
    Reinforced,
    SelfAdaptiveTemperature,
    Sigmoid,
    Softmax,
    Sparsemax,
)
from limelight_models.attention.core import Attention
from limelight_models.attention.score import (
    Additive,
    GaussianKernel,
    NormalisedAdditive,
    RandomFeatures,
    ScaledDot,
    Score,
)
from limelight_models.catalogue.examples import Inputs, some
from limelight_models.catalogue.mechanism import FEATURES, HEADS, SMALL, Mechanism, Sizes, call_attention
from limelight_models.catalogue.testbed import beside, picture
from limelight_models.catalogue.testbed.form import ServedForm, attended
from limelight_models.catalogue.testbed.taxonomy import SCALED
from limelight_models.catalogue.testbed.text import Scale

COLUMNS = 4  # of the cells of a small picture
KEEPING = 2.0  # log-odds at which samplers begin: the softmax learns on nearly all words before they choose


def entry(
    row: str,
    name: str,
    module: type[Align],
    align: Callable[[Scale], Align],
    *,
    score: Callable[[Scale], Score] = lambda s: ScaledDot(),
    score_name: str = SCALED,
    served: Callable[[Callable[[Scale], Attention]], ServedForm] | None = None,
) -> Mechanism:
    """A row whose mechanism is an alignment."""

    def make(s: Scale) -> Attention:
        return Attention(score=score(s), align=align(s))

    return Mechanism(
        row=row,
        name=name,
        column="align",
        module=module,
        make=make,
        context_fields=tuple(f for f in align(SMALL).context_fields if not f.endswith("positions")),
        align=align,
        served=attended(make, score=score_name, align=name) if served is None else served(make),
    )


def chunk(s: Scale) -> Score:
    """The score of the words in a chunk."""
    return Additive(d_q=s.d, d_k=s.d, d_w=s.d_w, heads=s.heads)


def energy(s: Scale) -> Attention:
    """Hard monotonic attention with the energy of its paper."""
    score = NormalisedAdditive(d_q=s.d, d_k=s.d, d_w=s.d_w, heads=s.heads)
    return Attention(score=score, align=HardMonotonic(heads=s.heads))


def picture_inputs(sizes: Sizes, generator: torch.Generator) -> Inputs:
    """Queries, and pictures of `key` rows of cells, some of which are there; the first picture has none."""
    query = torch.randn(sizes.batch, HEADS, sizes.query, FEATURES, generator=generator)
    cells = torch.randn(sizes.batch, sizes.key, COLUMNS, FEATURES, generator=generator)
    return {"query": query, "cells": cells, "mask": some(generator, sizes.batch, sizes.key, empty=0)}


def call_over_cells(module: nn.Module, inputs: Inputs) -> tuple[Tensor, ...]:
    """Call an `Attention` whose keys are the cells of a picture, row by row."""
    cells = inputs["cells"]
    known = inputs["mask"].expand(cells.shape[:2]).unsqueeze(-1).expand(cells.shape[:3])
    keys = cells.flatten(1, 2).unsqueeze(1).expand(-1, HEADS, -1, -1)
    return call_attention(module, {"query": inputs["query"], "key": keys, "mask": known.flatten(1)[:, None, None, :]})


ALIGNS: tuple[Mechanism, ...] = (
    entry("C1", "soft (global)", Softmax, lambda s: Softmax()),
    entry("C2", "sigmoid", Sigmoid, lambda s: Sigmoid()),
    entry("C3", "hard", Hard, lambda s: Hard()),
    entry("C4", "local, monotonic", LocalMonotonic, lambda s: LocalMonotonic(radius=s.radius)),
    entry("C5", "local, predictive", LocalPredictive, lambda s: LocalPredictive(d_q=s.d, d_p=s.d_w, radius=s.radius)),
    entry("C6", "reinforced", Reinforced, lambda s: Reinforced(d_k=s.d, d_hidden=s.d_w, start=KEEPING)),
    entry(
        "C6",
        "reinforced, queries and keys",
        Reinforced,
        lambda s: Reinforced(d_k=s.d, d_hidden=s.d_w, d_q=s.d, start=KEEPING),
    ),
    entry("C7", "sparsemax", Sparsemax, lambda s: Sparsemax()),
    entry("C8", "1.5-entmax", Entmax15, lambda s: Entmax15()),
    entry("C8", "α-entmax", Entmax, lambda s: Entmax(alpha=1.5, learned=True, heads=s.heads)),
    entry("C9", "positional mask", PositionalMask, lambda s: PositionalMask(mask=masks.diagonal_disabled)),
    entry("C10", "selective grid of Gaussians", GaussianGrid, lambda s: GaussianGrid(d_q=s.d, filters=s.filters)),
    Mechanism(
        row="C10",
        name="selective grid of Gaussians, of a picture",
        column="align",
        module=GaussianGrid,
        make=lambda s: picture.over_cells(s, COLUMNS),
        make_inputs=picture_inputs,
        call=call_over_cells,
        axes={"cells": ("batch", "key", None, None), "mask": ("batch", "key")},
        served=picture.patch(align="selective grid of Gaussians"),
    ),
    entry(
        "C11", "self-adaptive temperature", SelfAdaptiveTemperature, lambda s: SelfAdaptiveTemperature(d_q=s.d, d_c=s.d)
    ),
    entry("C12", "compositional de-attention", DeAttention, lambda s: DeAttention()),
    entry("C13", "constrained softmax", ConstrainedSoftmax, lambda s: ConstrainedSoftmax()),
    entry("C13", "constrained sparsemax", ConstrainedSparsemax, lambda s: ConstrainedSparsemax()),
    entry(
        "C14",
        "adaptive span",
        AdaptiveSpan,
        lambda s: AdaptiveSpan(max_span=2 * s.radius, ramp=s.radius, heads=s.heads),
    ),
    entry("C15", "hard monotonic", HardMonotonic, lambda s: HardMonotonic(heads=s.heads)),
    Mechanism(
        row="C15",
        name="hard monotonic, normalised energy",
        column="score",
        module=NormalisedAdditive,
        make=energy,
        context_fields=HardMonotonic.context_fields,
        served=attended(energy, score="additive", align="hard monotonic"),
    ),
    entry(
        "C15",
        "monotonic chunkwise",
        MonotonicChunkwise,
        lambda s: MonotonicChunkwise(width=s.radius, chunk=chunk(s), heads=s.heads),
    ),
    entry(
        "C16",
        "distance-aware",
        DistanceAware,
        lambda s: DistanceAware(radius=2 * s.radius),
        served=lambda make: beside.distances(make, align="distance-aware"),
    ),
    entry(
        "C17",
        "kernel ratio",
        KernelRatio,
        lambda s: KernelRatio(),
        # Positive features: with the trigonometric ones a sum near 0 would be divided by.
        score=lambda s: RandomFeatures(d=s.d, features=s.random_features, positive=True),
        score_name="positive random features",
    ),
    entry(
        "C17",
        "softmax-free kernel",
        KernelWeights,
        lambda s: KernelWeights(),
        score=lambda s: GaussianKernel(),
        score_name="Gaussian kernel",
    ),
)
