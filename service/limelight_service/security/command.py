"""`limelight token`. Prints a token once; nothing keeps it but whoever it is for."""

import os
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from limelight.base.commands import CommandError
from limelight_service.security.tokens import TokensError, entry, new_token


class Action(StrEnum):
    """An action on a token."""

    new = "new"


def token(
    action: Annotated[Action, typer.Argument(help="new: make one.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is, in metrics and logs.")],
    methods: Annotated[
        list[str] | None, typer.Option("--method", metavar="GLOB", help="Only these methods. Repeatable.")
    ] = None,
    models: Annotated[
        list[str] | None, typer.Option("--model", metavar="GLOB", help="Only these models. Repeatable.")
    ] = None,
    rows_per_second: Annotated[float | None, typer.Option(metavar="N", help="No more rows a second than this.")] = None,
    rows_in_flight: Annotated[int | None, typer.Option(metavar="N", help="No more rows at a time than this.")] = None,
    expires: Annotated[str | None, typer.Option(metavar="DAY", help="Until when, as 2030-01-31 (UTC).")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the token there, for its owner to read, and not here.")
    ] = None,
) -> None:
    """Make a token for callers of a server, and the lines for the file that `limelight serve --tokens FILE` reads.

    The lines hold the token's hash, and what else is given here; edit them as you like. The token itself is told this
    once. With --out, only the lines are printed: limelight token new NAME --out token >> tokens.toml
    """
    fields: dict[str, Any] = {
        "methods": methods,
        "models": models,
        "rows_per_second": rows_per_second,
        "rows_in_flight": rows_in_flight,
        "expires": _day(expires),
    }
    made = new_token()
    try:
        lines = entry(name, made, {field: value for field, value in fields.items() if value is not None})
    except TokensError as error:
        raise CommandError(error.message, status=2) from error
    if out is None:
        print(f"The token, shown only now: {made}\n\nFor the file of tokens:\n\n{lines}", end="")
    else:
        try:
            with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(made + "\n")
        except OSError as error:
            raise CommandError(f"{out}: {error.strerror}") from error
        print(lines, end="")


def _day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise CommandError(f"--expires is {text!r}, which is no day such as 2030-01-31", status=2) from error
