"""The instances of a request, translated one by one where they are preprocessed."""

from collections.abc import Sequence

from limelight.v1 import values_pb2
from limelight_bundle.errors import InputError
from limelight_bundle.values import Instance
from limelight_bundle.wire import instance_from_wire, to_array
from limelight_service.frontend.interventions import MOST_INTERVENTIONS, Change, Intervention
from limelight_service.frontend.schema import ModelSchema

_FILES, _TENSORS = frozenset({"image", "audio"}), frozenset({"tensor"})


class MessageInstances:
    """Instances of a message, an `InstanceSource` of the frontend. field: path of one, `instances[{}]`."""

    def __init__(self, messages: Sequence[values_pb2.Instance], field: str) -> None:
        self._messages = messages
        self._field = field
        self.size, self.has_interventions = 0, False
        kinds = set[str | None]()
        for each in messages:
            self.size += each.ByteSize()
            inputs = each.inputs
            kinds.update([inputs[name].WhichOneof("kind") for name in inputs])
            if each.interventions:
                self.has_interventions = True
        self._has_files = not kinds.isdisjoint(_FILES)
        self.has_tensors_only = kinds <= _TENSORS

    def __len__(self) -> int:
        return len(self._messages)

    def path(self, place: int) -> str:
        """Give the path of an instance in the request."""
        return self._field.format(place)

    def has_files(self, schema: ModelSchema) -> bool:
        """Tell whether some value is an image or a recording."""
        return self._has_files

    def read(self, place: int, schema: ModelSchema) -> Instance:
        """Translate one instance. Raises: InputError and its kinds, naming the field."""
        return instance_from_wire(self._messages[place], self.path(place))

    def interventions(self, place: int) -> Sequence[Intervention]:
        """Translate the interventions of an instance. Raises: InputError: too many, or a tensor is inconsistent."""
        given, field = self._messages[place].interventions, f"{self.path(place)}.interventions"
        if len(given) > MOST_INTERVENTIONS:
            raise InputError(
                field, f"are {len(given)}; at most {MOST_INTERVENTIONS} are allowed: name several heads in one"
            )
        return [_intervention(each, f"{field}[{number}]") for number, each in enumerate(given)]

    def seed(self, place: int) -> int | None:
        """Give the seed of an instance; None where there is none."""
        message = self._messages[place]
        return message.seed if message.HasField("seed") else None


def _intervention(message: values_pb2.Intervention, field: str) -> Intervention:
    change = message.WhichOneof("change")
    values = None
    if change in ("head_scales", "weights"):
        values = to_array(getattr(message, change), f"{field}.{change}")
    return Intervention(field, message.map, Change(change or ""), values, message.heads, message.queries)
