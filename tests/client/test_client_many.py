"""Batches of any number of instances, without a server: what is sent, what is waited for, and what comes of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import limelight
from limelight import many
from limelight.base.status_details import FieldViolation
from limelight.v1 import values_pb2


def instance(number: int) -> values_pb2.Instance:
    return values_pb2.Instance(inputs={"text": values_pb2.Value(text=str(number))})


def number_of(message: values_pb2.Instance) -> int:
    return int(message.inputs["text"].text)


class Simulated:
    """A server that answers numbers by themselves. It takes `most` in a call, and refuses some numbers."""

    def __init__(
        self, *, most: int = 1000, bad: frozenset[int] = frozenset(), names: bool = True, busy: int = 0
    ) -> None:
        self.most, self.bad, self.names, self.busy = most, bad, names, busy
        self.calls: list[int] = []
        self.waits: list[float] = []

    def reply(self, sent: list[values_pb2.Instance]) -> Any:
        self.calls.append(len(sent))
        numbers = [number_of(each) for each in sent]
        if self.busy:
            self.busy -= 1
            return limelight.ResourceExhausted("try later", retry_after=0.5)
        if len(sent) > self.most:
            field = FieldViolation("instances", f"has {len(sent)} entries")
            return limelight.OutOfRange("instances has too many entries", violations=(field,))
        if wrong := [place for place, number in enumerate(numbers) if number in self.bad]:
            if not self.names:
                return limelight.Internal("the model failed")
            fields = tuple(FieldViolation(f'instances[{place}].inputs["text"]', "is bad") for place in wrong)
            return limelight.InvalidArgument(f'instances[{wrong[0]}].inputs["text"] is bad', violations=fields)
        return numbers

    def answers(self, count: int, batch_size: int = 32) -> list[Any]:
        course, found = many.Course(batch_size), list[Any]()
        batcher = many.Batcher(course)
        batches = [batch for number in range(count) if (batch := batcher.add(instance(number)))]
        for batch in [*batches, batcher.rest()]:
            steps, reply = many.answers(batch, course), None
            try:
                while True:
                    step = steps.send(reply)
                    reply = self.reply(step) if isinstance(step, list) else self.waits.append(step)
            except StopIteration as finished:
                found += finished.value
        return found


@given(
    count=st.integers(0, 80),
    batch_size=st.integers(1, 40),
    most=st.integers(1, 40),
    bad=st.frozensets(st.integers(0, 80), max_size=6),
    names=st.booleans(),
)
def test_every_instance_has_its_answer_or_error_in_order(
    count: int, batch_size: int, most: int, bad: frozenset[int], names: bool
):
    server = Simulated(most=most, bad=bad, names=names)
    answers = server.answers(count, batch_size)
    assert [each if isinstance(each, int) else None for each in answers] == [
        None if number in bad else number for number in range(count)
    ]
    for number in bad & set(range(count)):
        assert not names or answers[number].field == f'instances[{number}].inputs["text"]'
        assert not names or str(answers[number]).startswith(f'instances[{number}].inputs["text"]')


def test_a_limit_of_the_server_is_found_once():
    server = Simulated(most=5)
    assert server.answers(400) == list(range(400))
    assert [size for size in server.calls if size > 5] == [32, 16, 8]


def test_a_bad_instance_that_the_server_names_costs_one_more_call():
    server = Simulated(bad=frozenset({3, 7, 40}))
    server.answers(64)
    assert server.calls == [32, 30, 32, 31]


def test_what_an_overloaded_server_refuses_is_sent_again_when_it_says():
    server = Simulated(busy=2)
    assert server.answers(3) == [0, 1, 2] and server.waits == [0.5, 0.5] and server.calls == [3, 3, 3]
    forever = Simulated(busy=10**6).answers(3)
    assert all(isinstance(each, limelight.ResourceExhausted) for each in forever)


@pytest.mark.parametrize(
    "kind",
    [limelight.NotFound, limelight.Unavailable, limelight.Unauthenticated, limelight.PermissionDenied],
)
def test_an_error_of_the_connection_or_the_model_is_raised(kind: type[limelight.Error]):
    server = Simulated()
    server.reply = lambda sent: kind("no")  # type: ignore[method-assign]
    with pytest.raises(kind):
        server.answers(3)


def test_batches_are_of_about_a_mebibyte():
    batcher = many.Batcher(many.Course(100))
    large = values_pb2.Instance(inputs={"image": values_pb2.Value(image=bytes(400_000))})
    batches = [len(batch) for _ in range(10) if (batch := batcher.add(large))]
    assert [*batches, len(batcher.rest())] == [2, 2, 2, 2, 2]


def test_an_instance_of_thousands_of_digits_is_no_instance():
    field = FieldViolation(f"instances[{'9' * 5000}]", "is bad")
    steps = many.answers([(0, instance(0))], many.Course(1))
    next(steps)
    with pytest.raises(StopIteration) as ended:
        steps.send(limelight.InvalidArgument("bad", violations=(field,)))
    assert isinstance(ended.value.value[0], limelight.InvalidArgument)
