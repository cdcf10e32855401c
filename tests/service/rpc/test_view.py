"""What a model's view keeps from one call to the next."""

import pytest

from bundle.errors import InputError
from limelight.v1 import attention_pb2 as apb
from service.rpc.view import ModelView


def test_what_is_asked_again_is_planned_once(views: dict[str, ModelView]) -> None:
    view = views["tiny"]

    def first() -> apb.AttentionOptions:
        return apb.AttentionOptions(selections=[apb.MapSelection(queries=[0])], top_k=2)

    plan = view.plan(first())
    assert view.plan(first()) is plan
    other = view.plan(apb.AttentionOptions(top_k=2))
    assert other is not plan
    assert other.keys == plan.keys and other.selected[0].queries is None and plan.selected[0].queries is not None


def test_what_cannot_be_met_is_said_every_time(views: dict[str, ModelView]) -> None:
    for _ in range(2):
        with pytest.raises(InputError) as error:
            views["tiny"].plan(apb.AttentionOptions(top_k=-1))
        assert error.value.field == "attention.top_k"


@pytest.mark.parametrize(
    "asked",
    [
        apb.AttentionOptions(key_groups=[apb.Grouping(groups=[apb.Group(name="g", indices=[0])])]),
        apb.AttentionOptions(selections=[apb.MapSelection(queries=range(300))]),
    ],
    ids=["groups", "long"],
)
def test_what_could_take_memory_is_not_kept(views: dict[str, ModelView], asked: apb.AttentionOptions) -> None:
    assert views["tiny"].plan(asked) is not views["tiny"].plan(asked)
