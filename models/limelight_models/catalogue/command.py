"""`limelight mechanisms`: what there is, and what each is."""

import json
from typing import Annotated

import typer

from limelight.base.commands import CommandError


def mechanisms(
    name: Annotated[
        str | None, typer.Argument(help="Explain these: a name, a part of one, or a catalogue row (B7).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List the attention mechanisms that models are built from, or explain one."""
    from limelight_models.catalogue.registry import MECHANISMS, find

    found = list(MECHANISMS) if name is None else find(name)
    if not found:
        raise CommandError(f"no mechanism is called {name!r}; `limelight mechanisms` lists them", status=2)
    if as_json:
        typer.echo(json.dumps([m.describe() for m in found], ensure_ascii=False, indent=2))
    elif name is None:
        width = max(len(mechanism.name) for mechanism in found)
        for mechanism in found:
            typer.echo(
                f"{mechanism.row:<4} {mechanism.column:<15} {mechanism.name:<{width}} {mechanism.module.__name__}"
            )
    else:
        typer.echo("\n\n".join(mechanism.explain() for mechanism in found))
