"""Dataclasses of calls in any protocol: requests, prepared instances, answers and their provenance."""

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from limelight.v1 import model_pb2
from limelight_bundle.errors import Path
from limelight_bundle.rows import Labels, Row
from limelight_bundle.values import Array, Instance
from limelight_service.attention.plan import AttentionPlan
from limelight_service.frontend.options import CallOptions, Wanted
from limelight_service.frontend.results import TypedResult
from limelight_service.ipc.boundary import Reading, RowResult
from limelight_service.observability.counters import Snapshot

if TYPE_CHECKING:
    from limelight_service.frontend.interventions import Intervention
    from limelight_service.frontend.models import Model
    from limelight_service.frontend.schema import ModelSchema
    from limelight_service.frontend.sizes import RowBounds

S = TypeVar("S", bound=Sized)

# The bytes of an answer from which it is made on a thread, and as many as take the time of one typed result.
_LARGE_ANSWER = 2**18
_BYTES_OF_RESULT = 2**12


class WholeServer(Protocol):
    """Functions of the whole server, in which its other processes take part."""

    async def change_models(self, action: str, name: str, version: int) -> int:
        """Load or unload a version in every engine; gives the version.

        Args:
            action: `load` or `unload`.
            version: 0 to load the highest that the folder has.

        Raises:
            LimelightError: ModelNotFoundError, ModelUnavailableError.
        """

    async def statistics(self) -> Snapshot:
        """Join the statistics of every process."""


class InstanceSource(Protocol):
    """The instances of a call, in the form of its protocol. For any thread.

    size: bytes of all of them. has_tensors_only: none is a text, an image or another value that is preprocessed.
    has_interventions: some have.
    """

    size: int
    has_tensors_only: bool
    has_interventions: bool

    def __len__(self) -> int: ...

    def path(self, place: int) -> Path:
        """Give the path of an instance in the request."""

    def has_files(self, schema: "ModelSchema") -> bool:
        """Tell whether some value is an image or a recording, which take a while to decode."""

    def read(self, place: int, schema: "ModelSchema") -> Instance:
        """Translate one instance. Raises: InputError naming the field."""

    def interventions(self, place: int) -> "Sequence[Intervention]":
        """Translate the interventions of an instance. Raises: InputError naming the field."""

    def seed(self, place: int) -> int | None:
        """Give the seed of an instance; None where there is none."""


@dataclass(frozen=True)
class CallRequest:
    """A call for one model, checked as far as it can be without the model.

    model: its name, or the model itself from `Core.find`, where a protocol needs it to read the request. version: 0 for
    the default. encode_labels: a label set as the protocol sends it. counted: rows to count for it; None for those of
    its instances. The first of several parts of a call counts those of all parts, the others none.
    """

    model: "str | Model"
    version: int
    instances: InstanceSource
    encode_labels: "Callable[[ModelSchema, Labels], bytes]"
    options: CallOptions = field(default_factory=CallOptions)
    counted: int | None = None


@dataclass(frozen=True)
class PreparedInstance:
    """One instance, ready for an engine.

    labels: the label sets that its answer refers to, encoded, as far as the inputs decide them. bounds: of what it
    takes. nanoseconds: it took. interventions: not yet among the row's tensors. given: bytes that they take there.
    """

    instance: Instance
    row: Row
    seed: int | None
    labels: Mapping[str, bytes]
    bounds: "RowBounds"
    nanoseconds: int
    interventions: "Sequence[Intervention]" = ()
    given: int = 0


@dataclass(frozen=True)
class Tokenized:
    """The tokens of one instance. labels: encoded label sets of its texts. truncated: one was cut."""

    labels: Sequence[bytes]
    truncated: bool


@dataclass
class CheckedCall:
    """A call once its model is known, and its options are checked against it.

    stream_limit: bytes of a stream's attention; None for other calls. size: bound of the answer's bytes, or of a
    stream's first message; 0 until the instances are prepared. count: of the instances. plan: None for a prediction
    alone.
    """

    model: "Model"
    wanted: Wanted
    request: CallRequest
    stream_limit: int | None = None
    size: int = 0

    def __post_init__(self) -> None:
        self.schema: ModelSchema = self.model.schema
        self.plan: AttentionPlan | None = self.wanted.plan
        self.count = len(self.request.instances)

    @property
    def is_large(self) -> bool:
        """True where making the answer would hold up the event loop for some milliseconds."""
        return self.size + len(self.model.builders) * self.count * _BYTES_OF_RESULT >= _LARGE_ANSWER


@dataclass(frozen=True)
class Provenance:
    """Provenance of an answer. Durations in nanoseconds."""

    model: str
    version: int
    digest: str
    provider: str
    graph: str
    batch_rows: int
    queue: int
    compute: int
    preprocess: int


@dataclass(frozen=True)
class Hidden:
    """A hidden state. positions: indices of the entries; empty for all. vectors: [entry, feature], or [feature]; None
    where tokens were read from them.
    """

    description: model_pb2.HiddenDescription
    positions: Sequence[int]
    vectors: Array | None
    reading: Reading | None


@dataclass(frozen=True)
class Prediction:
    """The answer to one instance.

    results: typed, by name, in the model's order. outputs: raw ones that were asked for. hidden: states that were.
    labels: label sets that its results and maps refer to, by name: encoded where the inputs decide them, or as they are
    where the run does. axes: every label set, as it is. derived_labels: those that groups and ranges make. result: as
    the engine gave it, with the maps.
    """

    results: Mapping[str, TypedResult]
    outputs: Mapping[str, Array]
    hidden: Sequence[Hidden]
    labels: Mapping[str, bytes | Labels]
    axes: Mapping[str, Labels]
    derived_labels: Sequence[Labels]
    truncated: bool
    provenance: Provenance
    result: RowResult


@dataclass(frozen=True)
class Inference:
    """The answer to a call. parts: of each instance, as `AnswerEncoder.part` made them."""

    checked: CheckedCall
    parts: Sequence[Any]


def _as_it_is(checked: CheckedCall, prediction: Prediction) -> Prediction:
    return prediction


@dataclass(frozen=True)
class AnswerEncoder(Generic[S]):
    """Makes answers of one protocol, whose length is that of their bytes. Both functions may run on any thread, and
    raise LimelightError.

    whole: puts the parts of a call together. part: makes that of one instance, where it was computed.
    """

    whole: Callable[[Inference], S]
    part: Callable[[CheckedCall, Prediction], Any] = _as_it_is
