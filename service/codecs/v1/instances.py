"""The instances of a request, translated one by one where they are preprocessed."""

from collections.abc import Sequence

from bundle.errors import InputError
from bundle.values import Instance
from bundle.wire import instance_from_wire
from limelight.v1 import values_pb2
from service.frontend.schema import ModelSchema


class MessageInstances:
    """Instances of a message, as `service.frontend.core.InstanceSource`. field: path of one, `instances[{}]`."""

    def __init__(self, messages: Sequence[values_pb2.Instance], field: str) -> None:
        self._messages = messages
        self._field = field
        self.size = sum(each.ByteSize() for each in messages)
        kinds = {value.WhichOneof("kind") for each in messages for value in each.inputs.values()}
        self._has_images = not kinds.isdisjoint({"image", "audio"})
        self.has_tensors_only = kinds <= {"tensor"}

    def __len__(self) -> int:
        return len(self._messages)

    def path(self, place: int) -> str:
        """Give the path of an instance in the request."""
        return self._field.format(place)

    def has_images(self, schema: ModelSchema) -> bool:
        """Tell whether some value is an image or a recording."""
        return self._has_images

    def read(self, place: int, schema: ModelSchema) -> Instance:
        """Translate one instance. Raises: InputError and its kinds, naming the field."""
        message, field = self._messages[place], self.path(place)
        if message.interventions:
            _refuse_interventions(schema, message.interventions, f"{field}.interventions")
        return instance_from_wire(message, field)

    def seed(self, place: int) -> int | None:
        """Give the seed of an instance; None where there is none."""
        message = self._messages[place]
        return message.seed if message.HasField("seed") else None


def _refuse_interventions(schema: ModelSchema, interventions: Sequence[values_pb2.Intervention], field: str) -> None:
    """Refuse changes to attention, which no map takes yet. Raises: InputError naming the change."""
    maps = {each.name: each for each in schema.maps}
    for place, each in enumerate(interventions):
        if each.map not in maps:
            raise InputError(f"{field}[{place}].map", f"is {each.map!r}; the model has {', '.join(maps) or 'no maps'}")
        change = each.WhichOneof("change")
        if change is None:
            raise InputError(f"{field}[{place}]", "has no change; set one of head_scales, weights")
        raise InputError(f"{field}[{place}].{change}", f"does not apply to {each.map}, which takes no interventions")
