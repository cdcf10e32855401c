"""The options of a call: as a protocol reads them, and as they are once they are checked against a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from limelight_service.attention.hidden import HiddenOptions, HiddenRequest
from limelight_service.attention.options import Options
from limelight_service.ipc.boundary import GenerationSettings

if TYPE_CHECKING:
    from limelight_service.attention.plan import AttentionPlan

MOST_NAMES = 1_000  # that one list of a request may have


@dataclass(frozen=True)
class CallOptions:
    """The options of a call, checked as far as they can be without the model.

    outputs: names of the raw outputs to return; None for all. max_classes: 0 for all. generation: makes the checked
    options, of the model's limit of tokens; None where the call has none. attention: None for a prediction alone.
    limit: bytes of the answer, 0 for the server's. label_sets: those to return beside the ones that results and maps
    refer to. is_large: the attention options are many, and take time again with each instance. is_rectangular: each
    instance takes as much of the answer as the largest, and edges as much as a dense map. hidden: hidden states to
    return; None for none.
    """

    outputs: tuple[str, ...] | None = None
    max_classes: int = 0
    truncate: bool = False
    attention: Options | None = None
    generation: Callable[[int], GenerationSettings] | None = None
    limit: int = 0
    label_sets: tuple[str, ...] = ()
    is_large: bool = False
    is_rectangular: bool = False
    hidden: HiddenOptions | None = None
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Once: a protocol keeps the options that it has read, and a model those that it has checked.
        values = (self.outputs, self.max_classes, self.truncate, self.attention, self.generation, self.limit)
        flags = (self.label_sets, self.is_large, self.is_rectangular, self.hidden)
        object.__setattr__(self, "_hash", hash((values, flags)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, eq=False)
class Wanted:
    """The options of a call of one model, checked. Equal only to itself.

    outputs: raw outputs that are returned. max_classes: 0 for all. plan: None without attention. labels: names of the
    label sets that are returned. limit: bytes of the answer, or of each message of a stream. kept_outputs: raw outputs
    that the answer is made of. tokens: tensors of ids whose tokens are among what is returned of label sets that grow.
    hidden: hidden states that are returned; None for none. bounds: of rows, by their sizes
    (`limelight_service.frontend.sizes`).
    """

    outputs: Sequence[str]
    generation: GenerationSettings
    max_classes: int
    plan: "AttentionPlan | None"
    attention: Options
    labels: Sequence[str]
    limit: int
    kept_outputs: frozenset[str] = frozenset()
    tokens: frozenset[str] = frozenset()
    hidden: HiddenRequest | None = None
    bounds: dict[Any, Any] = field(default_factory=dict)
