"""Every attention without a matrix, small, for `test_effective`: a line each."""

from collections.abc import Callable, Mapping
from typing import Any

from limelight_models.attention.controls import EqualSums
from limelight_models.attention.effective.blocks import Band
from limelight_models.attention.effective.core import Effective
from limelight_models.attention.effective.groups import HeadGroups
from limelight_models.zoo.long.bigbird import SparseGraph
from limelight_models.zoo.long.fmmformer import Blended, FarField
from limelight_models.zoo.long.linear_transformer import LinearAttention
from limelight_models.zoo.long.routing_transformer import Routing
from limelight_models.zoo.long.sinkhorn import Sinkhorn
from limelight_models.zoo.long.sparse_transformer import Column, Fixed, Row

D = 6  # features of a head
HEADS = 2

# Makes one; a chunk of 4 lets short sequences have several.
CASES: Mapping[str, Callable[[], Effective[Any]]] = {
    "equal": lambda: EqualSums(LinearAttention()),
    "linear": LinearAttention,
    "linear, causal": lambda: LinearAttention(causal=True, chunk=4),
    "bigbird": lambda: SparseGraph(heads=HEADS, tokens=40, block=2, window=1, global_=1, random=2),
    "sparse, strided": lambda: HeadGroups([Row(3), Column(3)]),
    "sparse, fixed": lambda: Fixed(4, 2),
    "fmm": lambda: Blended(near=Band(2), far=[FarField(1), FarField(-1)], heads=HEADS),
    "routing": lambda: Routing(heads=HEADS, d=D, clusters=3),
    "sinkhorn": lambda: Sinkhorn(heads=HEADS, d=D, tokens=40, block=3),
    "sortcut": lambda: Sinkhorn(heads=HEADS, d=D, tokens=40, block=3, cut=2),
}
