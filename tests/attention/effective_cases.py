"""Every attention without a matrix, small, for `test_effective`: a line each."""

from collections.abc import Callable, Mapping
from typing import Any

from limelight_models.attention.controls import EqualChosen, EqualSums
from limelight_models.attention.effective.blocks import Band, LastKeys
from limelight_models.attention.effective.core import Effective
from limelight_models.attention.effective.groups import HeadGroups
from limelight_models.attention.effective.kernel import LinearAttention
from limelight_models.attention.effective.pixels import Line, Window
from limelight_models.attention.effective.random import Favor
from limelight_models.attention.effective.recurrence import Recurrence
from limelight_models.zoo.long.bigbird import SparseGraph
from limelight_models.zoo.long.deepseek_sparse import Indexed
from limelight_models.zoo.long.efficient import EfficientAttention
from limelight_models.zoo.long.fmmformer import Blended, FarField
from limelight_models.zoo.long.gated_deltanet import GatedDelta
from limelight_models.zoo.long.linformer import LinformerAttention
from limelight_models.zoo.long.long_short import LongShortAttention
from limelight_models.zoo.long.mamba import StateSpace
from limelight_models.zoo.long.native_sparse import NativeSparse
from limelight_models.zoo.long.nystromformer import NystromAttention
from limelight_models.zoo.long.random_features import GatedRandomFeatureAttention, RandomFeatureAttention
from limelight_models.zoo.long.reformer import HashedAttention
from limelight_models.zoo.long.relative_kernel import RelativeKernel
from limelight_models.zoo.long.routing_transformer import Routing
from limelight_models.zoo.long.sinkhorn import Sinkhorn
from limelight_models.zoo.long.skyformer import SkyAttention
from limelight_models.zoo.long.softmax_free import SoftAttention
from limelight_models.zoo.long.sparse_transformer import Column, Fixed
from limelight_models.zoo.long.yoso import Sampling

D = 6  # features of a head
HEADS = 2


def gated(attention: Effective[Any], d_k: int, gates: int) -> Effective[Any]:
    """Of queries and keys so many features are read, and behind those of keys so many gates."""
    made = attention.prepare
    attention.prepare = lambda q, k, mask: made(q[..., :d_k], k[..., : d_k + gates], mask)  # type: ignore[method-assign]
    return attention


def chunked(attention: Recurrence[Any]) -> Recurrence[Any]:
    """In chunks of 4."""
    attention.chunk = 4
    return attention


# Makes one; a chunk of 4 lets short sequences have several.
CASES: Mapping[str, Callable[[], Effective[Any]]] = {
    "equal": lambda: EqualSums(LinearAttention()),
    "equal, of blocks": lambda: EqualChosen(Fixed(4, 2)),
    "equal, of clusters": lambda: EqualChosen(Routing(heads=HEADS, d=D, clusters=3)),
    "linear": LinearAttention,
    "linear, causal": lambda: LinearAttention(causal=True, chunk=4),
    "efficient": EfficientAttention,
    "efficient, scaling": lambda: EfficientAttention(scaling=True),
    "random features": lambda: RandomFeatureAttention(d=D, heads=HEADS, features=40),
    "random features, causal": lambda: RandomFeatureAttention(d=D, heads=HEADS, features=40, causal=True, chunk=4),
    "random features, gated": lambda: GatedRandomFeatureAttention(d=D - 1, heads=HEADS, features=40, chunk=4),
    "performer": lambda: Favor(d=D, features=20),
    "performer, causal": lambda: Favor(d=D, features=20, causal=True),
    "performer, trigonometric": lambda: Favor(d=D, features=20, trigonometric=True),
    "relative kernel": lambda: RelativeKernel(d=D, heads=HEADS, features=20, farthest=3),
    "relative kernel, causal": lambda: RelativeKernel(d=D, heads=HEADS, features=20, farthest=3, causal=True),
    "relative kernel, 1": lambda: RelativeKernel(d=D, heads=HEADS, features=20, farthest=1, normalised_vectors=False),
    "linformer": lambda: LinformerAttention(places=40, k=4),
    "linformer, shared": lambda: LinformerAttention(places=40, k=4, shared=True),
    "nystrom": lambda: NystromAttention(heads=HEADS, landmarks=5),
    "nystrom, convolved": lambda: NystromAttention(heads=HEADS, landmarks=5, kernel=3),
    "sky": lambda: SkyAttention(landmarks=6),
    "without softmax": lambda: SoftAttention(landmarks=5),
    "bigbird": lambda: SparseGraph(heads=HEADS, tokens=40, block=2, window=1, global_=1, random=2),
    "sparse, strided": lambda: HeadGroups([LastKeys(3), Column(3)]),
    "sparse, fixed": lambda: Fixed(4, 2),
    "fmm": lambda: Blended(near=Band(2), far=[FarField(1), FarField(-1)], heads=HEADS),
    "long-short": lambda: gated(LongShortAttention(d=3, window=2, r=3), 3, 3),
    "long-short, plain": lambda: gated(LongShortAttention(d=3, window=2, r=3, norms=False), 3, 3),
    "routing": lambda: Routing(heads=HEADS, d=D, clusters=3),
    "native sparse": lambda: NativeSparse(heads=HEADS, block=3, most=3, window=2),
    "chosen by an index": lambda: Indexed(d_index=2, most=4),
    "sinkhorn": lambda: Sinkhorn(heads=HEADS, d=D, tokens=40, block=3),
    "sortcut": lambda: Sinkhorn(heads=HEADS, d=D, tokens=40, block=3, cut=2),
    "hashed": lambda: HashedAttention(heads=HEADS, d=D, chunk=3, buckets=4, rounds=3),
    "hashed, one": lambda: HashedAttention(heads=HEADS, d=D, chunk=4, buckets=2, rounds=1),
    "sampling": lambda: Sampling(d=D, bits=2, hashes=3),
    "sampling, expected": lambda: Sampling(d=D, bits=2, hashes=3, expected=True),
    "window of pixels": lambda: Window(columns=4, reach=1, heads=HEADS, d=D),
    "row of pixels": lambda: Line(grid=(6, 4), down=False, d=D),
    "column of pixels": lambda: Line(grid=(6, 4), down=True, d=D),
    "mamba-2": lambda: gated(chunked(StateSpace(heads=HEADS)), 5, 1),
    "gated deltanet": lambda: gated(chunked(GatedDelta(heads=HEADS, decays=1)), 4, 2),
    "gated deltanet, ungated": lambda: gated(chunked(GatedDelta(heads=HEADS, decays=0)), 5, 1),
    "gated deltanet, kimi": lambda: gated(chunked(GatedDelta(heads=HEADS, decays=2)), 2, 3),
}
