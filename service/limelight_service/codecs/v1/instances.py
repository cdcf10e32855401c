"""The instances of a request, translated one by one where they are preprocessed."""

from collections.abc import Sequence

from limelight.v1 import values_pb2
from limelight_bundle.errors import Path
from limelight_bundle.values import Instance
from limelight_bundle.wire import instance_from_wire
from limelight_service.codecs.messages import interventions
from limelight_service.frontend.interventions import Intervention
from limelight_service.frontend.schema import ModelSchema

_FILES, _TENSORS = frozenset({"image", "audio"}), frozenset({"tensor"})


class MessageInstances:
    """Instances of a message, an `InstanceSource` of the frontend. path: of the only one; None for `instances`."""

    def __init__(self, messages: Sequence[values_pb2.Instance], path: Path | None = None) -> None:
        self._messages = messages
        self._path = path
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

    def path(self, place: int) -> Path:
        """Give the path of an instance in the request."""
        return ("instances", place) if self._path is None else self._path

    def has_files(self, schema: ModelSchema) -> bool:
        """Tell whether some value is an image or a recording."""
        return self._has_files

    def read(self, place: int, schema: ModelSchema) -> Instance:
        """Translate one instance. Raises: InputError and its kinds, naming the field."""
        return instance_from_wire(self._messages[place], self.path(place))

    def interventions(self, place: int) -> Sequence[Intervention]:
        """Translate the interventions of an instance. Raises: InputError: too many, or a tensor is inconsistent."""
        return interventions(self._messages[place].interventions, (*self.path(place), "interventions"))

    def seed(self, place: int) -> int | None:
        """Give the seed of an instance; None where there is none."""
        message = self._messages[place]
        return message.seed if message.HasField("seed") else None
