"""Interventions on the command line: `MAP:HEAD`, or `MAP` for every head."""

from collections.abc import Sequence

from limelight.base.commands import CommandError
from limelight.interventions import Intervention, replace, scale_heads


def read_interventions(masked: Sequence[str], uniform: Sequence[str]) -> Sequence[Intervention]:
    """Parse the options --mask-head and --uniform. Raises CommandError for a value that is none of theirs."""
    found = []
    for argument in masked:
        name, head = _parts(argument, "--mask-head")
        if head is None:
            raise CommandError(f"--mask-head takes MAP:HEAD, such as encoder.0.self:3, not {argument!r}", status=2)
        found.append(scale_heads(name, {head: 0}))
    for argument in uniform:
        name, head = _parts(argument, "--uniform")
        found.append(replace(name, "uniform", heads=() if head is None else head))
    return found


def _parts(argument: str, option: str) -> tuple[str, int | None]:
    name, colon, head = argument.partition(":")
    try:
        number = int(head) if colon else None
    except ValueError:
        raise CommandError(f"{option}: {head!r} in {argument!r} is not the number of a head", status=2) from None
    if not name:
        raise CommandError(f"{option}: {argument!r} names no map", status=2)
    return name, number
