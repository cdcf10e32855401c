"""Checks of a request that need no instance: counts, and options that do not go together."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from limelight_bundle.errors import InputError, TooLargeError
from limelight_bundle.maps import VALUES
from limelight_bundle.rows import Labels
from limelight_service.attention.hidden import hidden_request, select_hidden
from limelight_service.attention.members import check_to_come
from limelight_service.attention.options import Options
from limelight_service.attention.plan import AttentionPlan
from limelight_service.errors import WrongModelError
from limelight_service.frontend.options import MOST_NAMES, CallOptions, Wanted
from limelight_service.frontend.schema import ModelSchema
from limelight_service.ipc.boundary import GenerationSettings


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
    if generation.continue_target and not schema.target_tensor:
        raise InputError("generation.continue_target", f"is set; {schema.name} has no input that forces its output")
    plan = None if options.attention is None else schema.plan(options.attention)
    check_max_classes(options.max_classes)
    outputs = output_names(options.outputs, schema.outputs)
    hidden = None if options.hidden is None else select_hidden(schema.description.hidden, options.hidden)
    label_sets = (*options.label_sets, *(each.label_set for each in hidden or ()))
    labels = schema.label_names(plan, label_sets)
    return Wanted(
        outputs=outputs,
        generation=generation,
        max_classes=options.max_classes,
        plan=plan,
        attention=Options() if plan is None else plan.options,
        labels=labels,
        limit=min(limit, options.limit or limit),
        kept_outputs=schema.kept_outputs(outputs),
        tokens=frozenset(each.tensor for name, each in schema.input_steps.items() if name in labels and each.tensor),
        hidden=None if hidden is None or options.hidden is None else hidden_request(hidden, options.hidden),
    )


def check_count(count: int, most: int) -> None:
    """Check the number of instances of a call.

    Raises: InputError for none, TooLargeError for more than `most`.
    """
    if not count:
        raise InputError("instances", "is empty; send at least one")
    if count > most:
        raise TooLargeError("instances", f"has {count} entries; at most {most} are allowed in one call")


def output_names(wanted: Sequence[str] | None, known: Sequence[str]) -> Sequence[str]:
    """Give the raw outputs to return: those that a request names, or all where it says nothing of them.

    Raises: InputError for a name that the model lacks.
    """
    if wanted is None:
        return known
    if len(wanted) > MOST_NAMES:
        raise InputError("outputs", f"has {len(wanted)} entries; at most {MOST_NAMES} are allowed")
    names = frozenset(known)
    for place, name in enumerate(wanted):
        if name not in names:
            raise InputError(("outputs", place), f"is {name!r}, which the model lacks; it has {', '.join(known)}")
    return tuple(dict.fromkeys(wanted))


def check_max_classes(most: int) -> None:
    """Check `max_classes`. Raises: InputError where it is negative."""
    if most < 0:
        raise InputError("max_classes", f"is {most}; it may be 0 (for all) or more")


def check_sequences(schema: ModelSchema, generation: GenerationSettings, attention: Options) -> None:
    """Check the number of sequences whose maps are asked for. Raises: InputError for more than there will be."""
    most = generation.hypotheses if schema.generates else 1
    if attention.sequences > most:
        there = f"hypotheses is {most}" if schema.generates else "the model does not generate"
        raise InputError("attention.sequences", f"is {attention.sequences}; {there}")


def check_by_rows(attention: Options) -> None:
    """Check that maps can be streamed row by row. Raises: InputError."""
    _check_none_of(attention, "does not apply to maps that come in chunks; use Attend")


def check_by_tokens(schema: ModelSchema, attention: Options, plan: AttentionPlan) -> None:
    """Check that maps can be told one token at a time.

    Raises: InputError for options that need more than one token, and for selected keys among tokens that are not there
        yet.
    """
    _check_none_of(attention, "does not apply to the maps of one token; use Attend")
    for place, selection in enumerate(attention.selections):
        if selection.queries:
            path = ("attention", "selections", place, "queries")
            raise InputError(path, "do not apply to the maps of one token; use Attend")
    for each in plan.selected:
        if each.keys is not None and each.description.key_labels in schema.growing:
            raise InputError(
                each.keys.lists[0].field, f"do not apply to {each.description.name}, whose keys grow; use Attend"
            )


def check_groups_to_come(plan: AttentionPlan, labels: Mapping[str, Labels]) -> None:
    """Check the groups of keys that grow with each generated token. labels: of all the keys that there may be.

    Raises: InputError naming what a group lacks, or is not known yet.
    """
    for name in plan.key_groups.keys() & labels.keys():
        groups = plan.key_groups[name]
        for place, group in enumerate(groups.grouping.groups):
            check_to_come(group, labels[name], (*groups.grouping.field, "groups", place))
        groups.members(labels)


def _check_none_of(attention: Options, message: str) -> None:
    for name, is_set in (
        ("rollout", attention.rollout),
        ("query_groups", bool(attention.query_groups)),
        ("pool", attention.pool is not None),
        ("sequences", attention.sequences > 1),
        ("quantity", attention.quantity == VALUES),
    ):
        if is_set:
            raise InputError(("attention", name), message)
