"""Costs of rows: padding where tensors are stacked, none where they are joined."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from limelight.v1 import model_pb2
from limelight_bundle.rows import BoundTensor
from limelight_service.engine.policy import Policy
from limelight_service.engine.scheduling.plan import plan_batch
from limelight_service.engine.shapes import Shape, extent, places, shape_of, union


def tensor(name: str, **dimensions: int) -> model_pb2.TensorDescription:
    """Describe a tensor; a size of 0 varies."""
    axes = [model_pb2.Dimension(name=axis, size=size) for axis, size in dimensions.items()]
    return model_pb2.TensorDescription(name=name, dimensions=axes)


GRAPH = (
    BoundTensor(tensor("nodes", node=0, feature=5), joined=True),
    BoundTensor(tensor("sources", edge=0), joined=True, indexes="node"),
    BoundTensor(tensor("targets", edge=0), joined=True, indexes="node"),
)


def test_a_graph_costs_its_nodes_and_edges() -> None:
    assert shape_of(GRAPH)({"node": 4, "edge": 9, "feature": 5}) == Shape((), 13)


def test_stacked_tensors_of_the_same_axes_count_once_and_fixed_ones_only_where_nothing_varies() -> None:
    ids, segments = BoundTensor(tensor("ids", token=0)), BoundTensor(tensor("segments", token=0))
    pixels = BoundTensor(tensor("pixels", row=8, column=8))
    assert shape_of([ids, segments])({"token": 7}) == Shape(((7,),))
    assert shape_of([ids, pixels])({"token": 7}) == Shape(((7,),))
    assert shape_of([pixels])({}) == Shape(((),)) and places(Shape(((),)), 3) == 3
    assert shape_of([ids, *GRAPH])({"token": 7, "node": 4, "edge": 9}) == Shape(((7,),), 13)


def test_a_batch_of_documents_is_padded_and_one_of_graphs_is_not() -> None:
    assert places(union(Shape(((2, 10),)), Shape(((10, 2),))), 2) == 200
    assert places(union(Shape((), 20), Shape((), 3)), 2) == 23


def test_a_packed_row_is_paid_for_by_its_tokens_and_laid_out_as_the_longest() -> None:
    ids, segments = BoundTensor(tensor("ids", token=0), mask="mask"), BoundTensor(tensor("segments", token=0))
    shape = shape_of([ids, segments, *GRAPH], ["mask"])
    long, short = (shape({"token": size, "node": 4, "edge": 9}) for size in (30, 4))
    assert long == Shape((), 13, ((30,),), 30)
    assert places(long) == extent(long) == 43
    both = union(long, short)
    assert (places(both, 2), extent(both, 2)) == (34 + 26, 60 + 26)
    assert shape_of([ids], ["another"])({"token": 7}) == Shape(((7,),))


@dataclass(frozen=True)
class Waits:
    """A row that waits."""

    ticket: int
    shape: Shape
    group: str = ""
    deadline: float = float("inf")
    abandoned: bool = False


@given(st.lists(st.integers(1, 400), min_size=1, max_size=12), st.integers(1, 8), st.integers(1, 1000))
def test_graphs_of_any_size_share_a_batch_as_long_as_their_sum_is_allowed(
    sizes: list[int], rows: int, tokens: int
) -> None:
    policy = Policy(max_rows=rows, max_tokens=tokens, max_padding=0.0, concurrent=1, spread=1)
    waiting = [Waits(ticket, Shape((), size)) for ticket, size in enumerate(sizes)]
    batch = plan_batch(waiting, policy, 0.0).batch
    assert batch is not None
    taken, total = [sizes[0]], sizes[0]
    for size in sizes[1:]:
        if len(taken) < rows and total + size <= tokens:
            taken, total = [*taken, size], total + size
    assert [row.shape.joined for row in batch.rows] == taken
    assert (batch.tokens, batch.real_tokens, batch.padding_tokens) == (total, total, 0)
