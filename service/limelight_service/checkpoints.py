"""Checkpoints to serve: `limelight import hf` imports each before the server starts, in a process of its own.

Nothing of PyTorch comes into a server, and none calls a hub: that process does.
"""

import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from limelight.base.commands import CommandError
from limelight_service.configuration import SettingsError, check_models
from limelight_service.platform.private import private_folder
from limelight_service.settings import CHECKPOINTS, Settings


def with_checkpoints(settings: Settings) -> Settings:
    """Import the checkpoints, or find the imports of an earlier start, and give them as models.

    Raises:
        CommandError: there is no folder for them, the system ended an import, or two models have one name.
        typer.Exit: an import failed, and has said why; or a signal ended it.
    """
    try:
        above = settings.cache_folder
        if above is None:
            raise CommandError("--checkpoint keeps imports in cache_dir, which is none; give a folder", status=2)
        folder = private_folder(above) / CHECKPOINTS
    except (OSError, RuntimeError) as error:  # there may be no home
        reason = getattr(error, "strerror", None) or error
        raise CommandError(f"--checkpoint keeps imports in cache_dir: {reason}; give another folder") from error
    imported = [_imported(each, folder) for each in settings.checkpoints]
    models = [*settings.models, *((each.name, str(each)) for each in imported)]
    found = replace(settings, checkpoint="", model=",".join(f"{name}={place}" for name, place in models))
    try:
        check_models(found)
    except SettingsError as error:
        raise CommandError(error.message) from error
    return found


def _imported(checkpoint: tuple[str, str, Sequence[str]], folder: Path) -> Path:
    """Run the import of a checkpoint. Returns: folder of the model, named by it. Raises as `with_checkpoints`."""
    name, place, options = checkpoint
    own = ("--name", name) if name else ()
    command = [sys.executable, "-P", "-m", "limelight.cli", "import", "hf", place, *options, *own, "--once"]
    running: list[subprocess.Popen[str]] = []
    signals = 0

    def stop(*_: object) -> None:
        nonlocal signals
        signals += 1
        for each in running:
            each.terminate() if signals == 1 else each.kill()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # The import ends when its standard input does: with this process, whatever ends it.
    with subprocess.Popen(
        [*command, "--repository", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        running.append(process)
        if signals:
            process.terminate()
        assert process.stdout is not None
        output = process.stdout.read()
        status = process.wait()
    if signals:
        raise typer.Exit(0)  # as of a server that has nothing to stop yet
    if status < 0:
        how = signal.Signals(-status).name
        raise CommandError(f"the import of {place} was ended by {how}; the system does that where memory runs out")
    if status:
        raise typer.Exit(status)
    return Path(output.strip().rpartition("\n")[2])  # behind what a library may have printed
