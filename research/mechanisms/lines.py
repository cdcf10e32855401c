"""Every line of the study, task by task, each task with the controls of its plain mechanism."""

from collections.abc import Callable, Iterator
from functools import cache, partial

from limelight_models.network import Network
from limelight_models.recipes.controls import frozen, uniform
from research.mechanisms.data import TaskData
from research.mechanisms.entries import FORMS
from research.mechanisms.line import FROZEN, UNIFORM, Line
from research.mechanisms.subject import Subject
from research.mechanisms.tasks import TASKS


@cache
def lines() -> tuple[Line, ...]:
    """Every line, task by task: the controls, then the mechanisms."""
    return tuple(line for task in TASKS for line in of_task(task))


def of_task(task: str) -> Iterator[Line]:
    """The lines of one task: the plain mechanism's controls first, then that mechanism, then the others."""
    found = list(FORMS[TASKS[task].form](task))
    (plain,) = (each for each in found if each.name == TASKS[task].plain)
    for name, control in ((UNIFORM, uniform), (FROZEN, frozen)):
        yield Line(task=task, name=name, make=partial(controlled, plain.make, control))
    yield plain
    yield from (each for each in found if each is not plain)


def controlled(make: Callable[[TaskData], Subject], control: Callable[[Network], Network], data: TaskData) -> Subject:
    """The plain mechanism's model with a control in the place of its attention."""
    subject = make(data)
    control(subject.model)
    return subject
