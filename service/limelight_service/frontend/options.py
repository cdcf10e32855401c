"""The options of a call: as a protocol reads them, and as they are once they are checked against a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from limelight_service.attention.options import Options
from limelight_service.attention.plan import AttentionPlan
from limelight_service.errors import WrongModelError
from limelight_service.frontend import validation
from limelight_service.frontend.schema import ModelSchema
from limelight_service.ipc.boundary import GenerationSettings


@dataclass(frozen=True)
class CallOptions:
    """The options of a call, checked as far as they can be without the model.

    outputs: names of the raw outputs to return; None for all. max_classes: 0 for all. generation: makes the checked
    options, of the model's limit of tokens; None where the call has none. attention: None for a prediction alone.
    limit: bytes of the answer, 0 for the server's. label_sets: those to return beside the ones that results and maps
    refer to. is_large: the attention options are many, and take time again with each instance. is_rectangular: each
    instance takes as much of the answer as the largest, and edges as much as a dense map.
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
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Once: a protocol keeps the options that it has read, and a model those that it has checked.
        values = (self.outputs, self.max_classes, self.truncate, self.attention, self.generation, self.limit)
        flags = (self.label_sets, self.is_large, self.is_rectangular)
        object.__setattr__(self, "_hash", hash((values, flags)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, eq=False)
class Wanted:
    """The options of a call of one model, checked. Equal only to itself.

    outputs: raw outputs that are returned. max_classes: 0 for all. plan: None without attention. labels: names of the
    label sets that are returned. limit: bytes of the answer, or of each message of a stream. kept_outputs: raw outputs
    that the answer is made of. bounds: of rows, by their sizes (`limelight_service.frontend.sizes`).
    """

    outputs: Sequence[str]
    generation: GenerationSettings
    max_classes: int
    plan: AttentionPlan | None
    attention: Options
    labels: Sequence[str]
    limit: int
    kept_outputs: frozenset[str] = frozenset()
    bounds: dict[Any, Any] = field(default_factory=dict)


def check_options(schema: ModelSchema, options: CallOptions, limit: int) -> Wanted:
    """Check a call's options against a model. limit: bytes of the answer that the server and the protocol allow.

    Raises: InputError naming the option; WrongModelError for options of a model that generates.
    """
    generation = GenerationSettings()
    if not schema.generates and options.generation is not None:
        raise WrongModelError(f"{schema.name} does not generate, so generation options do not apply to it")
    if options.generation is not None:
        generation = options.generation(schema.max_new_tokens)
    elif schema.generates:
        generation = replace(generation, max_new_tokens=schema.max_new_tokens)
    plan = None if options.attention is None else schema.plan(options.attention)
    validation.check_max_classes(options.max_classes)
    outputs = validation.output_names(options.outputs, schema.outputs)
    return Wanted(
        outputs=outputs,
        generation=generation,
        max_classes=options.max_classes,
        plan=plan,
        attention=Options() if plan is None else plan.options,
        labels=schema.label_names(plan, options.label_sets),
        limit=min(limit, options.limit or limit),
        kept_outputs=schema.kept_outputs(outputs),
    )
