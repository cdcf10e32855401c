"""The commands `limelight import` and `limelight inspect`. Libraries are imported when an import begins."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from limelight.base import installing
from limelight.base.commands import CommandError
from limelight_bundle.errors import LimelightError
from limelight_bundle.reader import BundleFolder
from limelight_export.command import parity_line
from limelight_export.next_commands import next_commands
from limelight_export.precision import Precision

importing = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

_References = Annotated[
    Path | None,
    typer.Option(
        "--reference",
        metavar="FILE",
        help="File of at least 100 inputs like those of callers, to measure drift of attention with: texts, one a "
        "line, or JSON where its name ends with .jsonl.",
    ),
]

_NoInterventions = Annotated[
    bool, typer.Option("--no-interventions", help="Leave out the graph whose attention requests can change.")
]


@importing.callback()
def _importing() -> None:
    """Make a verified bundle of a model that was made elsewhere."""


@importing.command("hf")
def import_hf(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="DIR|ORG/NAME[@REVISION]",
            help="Folder with config.json and model.safetensors, or a repository of a hub, which is downloaded.",
        ),
    ],
    repository: Annotated[
        Path, typer.Option(help="Repository folder; the bundle is written to REPOSITORY/<model>/<version>.")
    ],
    name: Annotated[
        str,
        typer.Option(help="Name of the model; the folder's unless given, or the architecture's where that is `model`."),
    ] = "",
    task: Annotated[
        str,
        typer.Option(
            help="Task, where it is another than the checkpoint states: classification, cross-encoder, "
            "token-classification, question-answering, masked-words, embedding, speech-translation, image-embedding, "
            "text-embedding."
        ),
    ] = "",
    pooling: Annotated[
        str,
        typer.Option(
            help="How tokens' vectors become one, for an embedding without modules.json: mean, cls, max, lasttoken."
        ),
    ] = "",
    label: Annotated[
        list[str] | None, typer.Option(help="Class of a picture, for a model that compares pictures with texts.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="File with such classes, one in a line.")] = None,
    prompt: Annotated[
        str, typer.Option(help="Text of a class, in which {} stands for its label.")
    ] = "a photo of a {}.",
    language: Annotated[
        str, typer.Option(help="Language of speech, such as en or English; the model detects it unless given.")
    ] = "",
    example: Annotated[
        list[str] | None, typer.Option(help="Text for the server's self-test; a pair's texts are separated by a tab.")
    ] = None,
    references: _References = None,
    max_tokens: Annotated[
        int, typer.Option(min=0, help="Most tokens of an input; the model's own limit unless given.")
    ] = 0,
    size: Annotated[
        str,
        typer.Option(
            metavar="ROWSxCOLUMNS",
            help="Size to which pictures are stretched for a model that finds objects; the checkpoint's unless given.",
        ),
    ] = "",
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Probability above which an object is returned; 0.5 unless given."),
    ] = None,
    version: Annotated[int, typer.Option(min=0, help="Version to write; 0 for the next one.")] = 0,
    precision: Annotated[
        Precision, typer.Option(help="Precision of computation: float16 for GPUs, int8 for CPUs.")
    ] = Precision.FLOAT32,
    half_weights: Annotated[
        bool,
        typer.Option("--half-weights", help="Store weights as float16, which halves the files; compute in float32."),
    ] = False,
    no_interventions: _NoInterventions = False,
    once: Annotated[bool, typer.Option(hidden=True, help="As `limelight serve` needs it: `import_once`.")] = False,
) -> None:
    """Import a Hugging Face checkpoint, and verify that its answers and maps equal those of transformers."""
    _require("transformers", "torch", "onnx_ir", "onnxscript", "safetensors")
    from limelight_export.importing.huggingface.checkpoint import read_checkpoint, read_description
    from limelight_export.importing.huggingface.hub import download, hub_name
    from limelight_export.importing.huggingface.import_cache import import_once
    from limelight_export.importing.huggingface.importer import check_description, import_checkpoint
    from limelight_export.importing.huggingface.tasks.task import ImportOptions

    folder = Path(checkpoint)
    if once:
        _end_with_standard_input()
    with _one_line_errors(folder):
        listed = [] if labels is None else labels.read_text(encoding="utf-8").split("\n")
        options = ImportOptions(
            name=name,
            pooling=pooling,
            labels=(*(label or ()), *filter(None, map(str.strip, listed))),
            prompt=prompt,
            language=language,
            examples=tuple(example or ()),
            references=references,
            max_tokens=max_tokens,
            size=_rows_and_columns(size),
            threshold=threshold,
        )
        if on_hub := hub_name(checkpoint):
            with _interrupted_at_once():
                folder = download(
                    *on_hub,
                    check=lambda found: check_description(read_description(found), task=task, options=options),
                    say=_progress,
                )
        choices: dict[str, Any] = {
            "task": task,
            "version": version,
            "precision": precision,
            "half_weights": half_weights,
            "interventions": not no_interventions,
        }
        report = _stopwatch()

        def write(into: Path) -> BundleFolder:
            return import_checkpoint(folder, into, options=options, report=report, **choices)

        if once:
            _clean_up_on_signals()
            typer.echo(import_once(read_checkpoint(folder), repository, options, choices, write, say=_progress))
            return
        written = write(repository)
    within = "" if precision is Precision.FLOAT32 else f", within the tolerances fitted for {precision}"
    typer.echo(f"{written.path}: answers and maps equal transformers' eager attention{within}")
    states = {each.name for each in written.bundle.description.hidden}  # as many as maps; bundle.json has theirs
    for each in written.bundle.parity:
        if each.name not in states:
            typer.echo(f"  {parity_line(each)}")
    for line in next_commands(repository, written.bundle):
        typer.echo(line)


@importing.command("convert-weights")
def convert(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with config.json and pickled weights.")],
    out: Annotated[Path, typer.Option(help="Folder to write: the same checkpoint with model.safetensors.")],
) -> None:
    """Convert pickled weights to safetensors; nothing but tensors is read from the pickle."""
    _require("torch", "safetensors")
    from limelight_export.importing.huggingface.convert_weights import convert_weights

    with _one_line_errors(folder):
        typer.echo(str(convert_weights(folder, out)))


@importing.command("onnx")
def import_onnx_file(
    file: Annotated[Path, typer.Argument(help="ONNX file.")],
    card: Annotated[Path, typer.Option(help="Card in TOML; `limelight inspect --write-card` writes a first one.")],
    repository: Annotated[
        Path, typer.Option(help="Repository folder; the bundle is written to REPOSITORY/<model>/<version>.")
    ],
    samples: Annotated[
        Path | None, typer.Option(help="Inputs in an .npz file, with or without outputs that they must give.")
    ] = None,
    references: _References = None,
    expose: Annotated[
        list[str] | None,
        typer.Option(help="Softmax node or value inside the file whose map becomes an output; * stands for any part."),
    ] = None,
    version: Annotated[int, typer.Option(min=0, help="Version to write; 0 for the next one.")] = 0,
    no_interventions: _NoInterventions = False,
) -> None:
    """Make a bundle of an ONNX file, and verify that its answers equal the file's."""
    with _one_line_errors(file):
        from limelight_export.importing.onnx_file.importing import OnnxImport, import_onnx

        folder = import_onnx(
            OnnxImport(file, card, samples, expose or (), references, not no_interventions), repository, version=version
        )
    _say(f"{folder.path}: answers equal {file.name}'s")
    for each in folder.bundle.parity:
        _say(f"  {parity_line(each)}")
    if folder.bundle.single_rows and not folder.bundle.HasField("generation"):
        _say("  rows run one at a time: the card states no mask or no batch, or the file takes one row")
    for line in next_commands(repository, folder.bundle):
        _say(line)


def inspect(
    file: Annotated[Path, typer.Argument(help="ONNX file.")],
    write_card: Annotated[Path | None, typer.Option(help="Write a first card to this file.")] = None,
) -> None:
    """Show the inputs and outputs of an ONNX file, and what of it looks like attention."""
    with _one_line_errors(file):
        from limelight_export.importing.onnx_file.card_file import shape_of
        from limelight_export.importing.onnx_file.inspection import inspect_onnx

        found = inspect_onnx(file)
        if write_card is not None:
            if write_card.exists():
                raise CommandError(f"{write_card} exists already")
            write_card.write_text(found.card, encoding="utf-8")
    _say(f"{file.name}: operator set {found.file.opset}, {len(found.file.model.graph.node)} nodes")
    for name, own in found.file.inputs.items():
        _say(f"input {name}: {shape_of(own)}")
    for name, axes in found.outputs.items():
        _say(f"output {name}: {found.file.outputs[name].dtype}[{', '.join(map(str, axes))}]")
    for each in found.weights:
        what = "inside, looks" if each.is_inner else "looks"
        unclear = "" if each.map else "; which label sets its axes are is not clear: name it in the card"
        _say(f"{each.name}: {what} like attention, rows sum to 1: [{', '.join(map(str, each.axes))}]{unclear}")
    for name in found.others:
        _say(f"{name}: no values are weighed by it: not taken for attention")
    if found.problem:
        _say(f"not run on random inputs: {found.problem}")
    if write_card is not None:
        _say(f"wrote {write_card}")


def _say(line: str) -> None:
    typer.echo(_printable(line))


def _printable(line: str) -> str:
    """Return a line that holds names of a file, which may be anything, without control characters."""
    return "".join(each if each.isprintable() or each == "\n" else "\N{REPLACEMENT CHARACTER}" for each in line)


def _progress(line: str) -> None:
    typer.echo(_printable(line), err=True)


def _end_with_standard_input() -> None:
    """Have the process end, as by SIGTERM, once its standard input has ended: the process that started it has."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _interrupted_at_once() -> Iterator[None]:
    """Have Ctrl-C end the process without a word to threads, which would first download what they have begun."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _clean_up_on_signals() -> None:
    """Have the first signal that ends a process end it as Ctrl-C does, by an exception: temporary files are removed."""

    def interrupt(*_: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):  # a second one would interrupt the removal
            signal.signal(each, lambda *_: None)
        raise KeyboardInterrupt

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, interrupt)


def _stopwatch() -> Callable[[str], None]:
    """Return a function that prints a stage that is done, and the time since the stage before it."""
    since = time.monotonic()

    def report(stage: str) -> None:
        nonlocal since
        now = time.monotonic()
        typer.echo(f"{stage}: {now - since:.1f} s", err=True)
        since = now

    return report


def _rows_and_columns(size: str) -> tuple[int, int] | None:
    """Read `800x1056`. Raises CommandError for another form."""
    if not size:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", size)
    if found is None:
        raise CommandError(f"--size {size}: it is rows and columns, such as 800x1056", status=2)
    return int(found[1]), int(found[2])


@contextmanager
def _one_line_errors(path: Path) -> Iterator[None]:
    """Raise what goes wrong as a CommandError. path: what was being read."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise CommandError(f"this needs {error.name}, which is not installed: {installing.extra('serve')}") from error
    except LimelightError as error:
        raise CommandError(_printable(error.message)) from error
    except UnicodeDecodeError as error:  # of the only text that is read here
        raise CommandError(f"the file of --labels is not UTF-8: {error}") from error
    except OSError as error:
        raise CommandError(f"{error.filename or path}: {error.strerror or error}") from error


def _require(*packages: str) -> None:
    """Check that packages are installed, without importing those that take seconds. Raises CommandError."""
    from importlib.util import find_spec

    for package in packages:
        if find_spec(package) is None:
            raise CommandError(
                f"`limelight import` needs {package}, which is not installed: {installing.extra('hf,serve')}"
            )
