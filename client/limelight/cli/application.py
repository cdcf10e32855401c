"""Registration and execution of commands; errors become one line and an exit status."""

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from limelight.base import streams
from limelight.base.commands import CommandError
from limelight.base.suggestions import similar
from limelight.base.version import version
from limelight.cli import commands, completion


def run(arguments: list[str]) -> int:
    """Run the command line, and return the exit status."""
    asked = completion.words()
    if asked is not None:
        return _complete(asked)
    name = _name(arguments)
    try:
        command: Any = typer.main.get_command(_application(name))
        # Not standalone: errors are raised here instead of being printed as a box.
        status = command.main(arguments or ["--help"], prog_name="limelight", standalone_mode=False)
        streams.flush()
        return status if isinstance(status, int) else 0
    except CommandError as error:
        return _fail(str(error), error.status)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        streams.discard_output()  # the reader closed the pipe
        return 1
    except ModuleNotFoundError as error:
        return _fail(str(commands.missing_package_error(name or "", error)), 1)
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(
            error, "exit_code"
        ):  # raised by typer and click for wrong usage
            known = f" (see 'limelight {name} --help')" if name in commands.KNOWN else " (see 'limelight --help')"
            return _fail(_usage(error) + known, 2)
        described = _describe(name, error)
        if described is None:
            raise
        return _fail(described, 1)
    finally:
        streams.settle_output()


def _complete(words: list[str]) -> int:
    """Print what a shell may complete; nothing where it cannot be known, as messages would be in a person's way."""
    try:
        typer.main.get_command(_application(_name(words))).main([], prog_name="limelight", standalone_mode=False)
    except Exception:
        return 1
    return 0


def _name(arguments: list[str]) -> str | None:
    """Return the name of the command."""
    return next((argument for argument in arguments if not argument.startswith("-")), None)


def _usage(error: Any) -> str:
    """Return the message of a usage error, with the closest name in the place of all that resemble it remotely."""
    close = getattr(error, "possibilities", None)
    if not close:
        return str(error.format_message()).rstrip(".")
    # Dashes, which all options have, make none of them similar.
    name = str(error.option_name)
    meant = [each for each in sorted(close) if similar(name.lstrip("-"), [each.lstrip("-")])]
    return f"{error.message}{similar(name, meant)}"


def _application(chosen: str | None) -> typer.Typer:
    """Register every command by its summary, and the chosen command completely."""
    application = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    application.callback()(_root)
    for name, summary in commands.summaries().items():
        if name != chosen:
            application.command(name, help=summary)(_not_chosen)
    function = commands.load(chosen) if chosen else None
    if chosen and isinstance(function, typer.Typer):  # a command with subcommands
        application.add_typer(function, name=chosen)
    elif chosen and function:
        application.command(chosen, cls=_Grouped)(function)
    return application


class _Grouped(TyperCommand):
    """Lists options under the heading that each names, in the order of the headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections of the help."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx)
            if record is not None:
                is_argument = each.param_type_name == "argument"
                heading = "Arguments" if is_argument else getattr(each, "rich_help_panel", None) or "Options"
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def _root(
    _: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=lambda asked: _print_version(asked), help="Print the version."
        ),
    ] = False,
) -> None:
    """Serve attention models over gRPC, and show their attention."""


def _print_version(asked: bool) -> None:
    if asked:
        print(f"limelight {version()}")
        raise typer.Exit


def _not_chosen() -> None:
    """Stand in for a command that was not chosen. Never called."""


def _describe(name: str | None, error: Exception) -> str | None:
    """Describe an error of this package's commands in one line; None for a bug."""
    if name not in commands.KNOWN or not commands.KNOWN[name].function:
        return None
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
    from limelight.base.errors import Error, InputError

    if isinstance(error, Error) and not isinstance(error, InputError):
        field = f"{error.field}: " if error.field and error.field not in error.message else ""
        after = f" (try again in {error.retry_after:g} s)" if error.retry_after else ""
        return f"{error.code.name}: {field}{error.message}{after}"
    # Values that cannot be sent: a text that is not UTF-8, an integer out of range.
    return str(error) if isinstance(error, ValueError) else None


def _fail(message: str, status: int) -> int:
    print("limelight: " + " ".join(message.split()), file=sys.stderr)
    return status
