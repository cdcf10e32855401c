"""Asking the server: many instances at the same time, errors by instance."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from limelight import many
from limelight.attended import Attended
from limelight.base.errors import Error, OutOfRange, ResourceExhausted
from limelight.client import Client
from limelight.descriptions import Model
from limelight.evaluation.replies import Reply, read_reply
from limelight.explanations import Explanation
from limelight.groups import Groups
from limelight.interventions import Intervention, with_interventions
from limelight.v1 import values_pb2

Explained: TypeAlias = list[Explanation]
"""Explanations of one answer, by some units each, in order."""


@dataclass(frozen=True)
class Asking:
    """A model of a server. concurrency: number of calls at the same time."""

    client: Client
    model: Model
    concurrency: int

    def attend(
        self,
        instances: Sequence[values_pb2.Instance],
        maps: Sequence[str],
        quantity: Literal["weights", "values"] = "weights",
    ) -> list[Attended | Error]:
        """Return the answer to each instance with whole maps, or its Error. Raises Error for one of every call."""
        if not maps:
            answers = self.client.predict_many(self.model.name, instances, **self._options())
            return [each if isinstance(each, Error) else Attended(each, ()) for each in answers]
        return list(
            self.client.attend_many(self.model.name, instances, maps=maps, quantity=quantity, **self._options())
        )

    def replies(self, instances: Sequence[values_pb2.Instance]) -> list[Reply | Error]:
        """Return the reply to each instance, or its Error. Raises Error for one of every call."""
        answers = self.client.predict_many(self.model.name, instances, **self._options())
        return [each if isinstance(each, Error) else read_reply(self.model, each) for each in answers]

    def explain(self, asked: Sequence[tuple[values_pb2.Instance, Groups, Sequence[str]]]) -> list[Explained | Error]:
        """Return explanations of the answer to each instance by its own units and ways, or its Error.

        More units than the server allows at once are divided. Raises Error for one of every call.
        """
        with ThreadPoolExecutor(self.concurrency) as pool:
            return list(pool.map(lambda place: self._explain(place, *asked[place]), range(len(asked))))

    def _explain(
        self, number: int, instance: values_pb2.Instance, units: Groups, ways: Sequence[str]
    ) -> Explained | Error:
        name, version = self.model.name, self.model.version

        def send(instances: Sequence[values_pb2.Instance]) -> list[Explanation] | Error:
            try:
                return self.client.explain(name, instances, units=units, ways=ways, version=version, truncate=True)
            except Error as error:
                return error

        (reply,) = many.exchanged([(number, instance)], many.Course(1), send)
        if isinstance(reply, OutOfRange | ResourceExhausted) and reply.retry_after is None and len(units) > 1:
            names, found = list(units), list[Explanation]()
            for some in (names[: len(names) // 2], names[len(names) // 2 :]):
                part = self._explain(number, instance, {each: units[each] for each in some}, ways)
                if isinstance(part, Error):
                    return part
                found += part
            return found
        return reply if isinstance(reply, Error) else [reply]

    def _options(self) -> Any:
        return {"version": self.model.version, "truncate": True, "concurrency": self.concurrency}


def changed(instance: values_pb2.Instance, *interventions: Intervention) -> values_pb2.Instance:
    """Add interventions to an instance."""
    return with_interventions(instance, interventions)


def forced(instance: values_pb2.Instance, model: Model, text: str) -> values_pb2.Instance:
    """Return an instance for which a model puts out a given text; `model.target_input` is not empty."""
    copy = values_pb2.Instance()
    copy.CopyFrom(instance)
    copy.inputs[model.target_input].text = text
    return copy
