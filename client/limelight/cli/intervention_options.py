"""Interventions on the command line: `MAP:HEAD`, `MAP` for every head, `MAP=PLACE` for keys."""

from collections.abc import Sequence

from limelight.base.commands import CommandError
from limelight.cli.group_options import read_members
from limelight.interventions import Intervention, replace, scale_heads, scale_keys

Options = Sequence[str] | None


def read_interventions(masked: Options, uniform: Options, away: Options) -> Sequence[Intervention]:
    """Parse the options --mask-head, --uniform and --look-away. Raises CommandError for a value that is none of theirs.

    Args:
        masked, uniform, away: their values; None where an option is not given.
    """
    found = []
    for argument in masked or ():
        name, head = _parts(argument, "--mask-head")
        if head is None:
            raise CommandError(f"--mask-head takes MAP:HEAD, such as encoder.0.self:3, not {argument!r}", status=2)
        found.append(scale_heads(name, {head: 0}))
    for argument in uniform or ():
        name, head = _parts(argument, "--uniform")
        found.append(replace(name, "uniform", heads=() if head is None else head))
    for argument in away or ():
        name, equals, place = argument.partition("=")
        if not equals or not name:
            what = "MAP=PLACE, such as encoder.0.self=4:7 for characters or encoder.0.self=#3 for an entry"
            raise CommandError(f"--look-away takes {what}, not {argument!r}", status=2)
        found.append(scale_keys(name, read_members(place)))
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
