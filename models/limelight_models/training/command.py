"""`limelight train`. Light to import: torch is loaded when training begins."""

from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from limelight.base import installing
from limelight.base.commands import CommandError
from limelight.base.program import command_line
from limelight_models.index import ALIGNMENTS, names

_REPOSITORY = "bundles"


def train(
    model: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(names())}; those after a dash are there for comparison, "
            "as are NAME-uniform and NAME-frozen of each.",
            autocompletion=lambda: list(names()),
        ),
    ],
    mechanism: Annotated[
        str, typer.Option(help="For the model `mechanism`: which; `limelight mechanisms` lists them.")
    ] = "",
    attention: Annotated[
        str,
        typer.Option(
            help=f"In the place of the model's softmax: {', '.join(ALIGNMENTS)}.",
            autocompletion=lambda: list(ALIGNMENTS),
        ),
    ] = "",
    data: Annotated[
        str,
        typer.Option(
            help="A file, or a folder with train, dev and test, in a format above; or `builtin`, or `builtin:NAME`."
        ),
    ] = "builtin",
    examples: Annotated[
        int | None, typer.Option(min=1, help="At most so many of the training examples, drawn by the seed.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; runs/NAME where it is left out.")] = None,
    preset: Annotated[
        str,
        typer.Option(help="Sizes: tiny (a trial of a moment), demo (for builtin data), full (for your own), or paper."),
    ] = "",
    seed: Annotated[int | None, typer.Option(help="Decides weights, order, dropout and splits.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="At most so many passes over the data.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Examples a step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(min=0.0, help="The highest of the schedule.")] = None,
    supervision: Annotated[
        float | None, typer.Option(min=0.0, help="Weight of looking where examples say so, beside answering rightly.")
    ] = None,
    time_limit: Annotated[float, typer.Option(min=0.0, help="Minutes after which the best so far is taken.")] = 0.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Begin again in a folder that is not empty.")] = False,
    columns: Annotated[
        str,
        typer.Option(
            help="Where --data has more columns than the model reads, or others first: which, by their names, as "
            "en,fr, or by their numbers, as 2,1, where the file does not begin with names."
        ),
    ] = "",
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda, cuda:1 and so on, or mps.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="Threads of PyTorch; more rarely help models this small.")] = 1,
    repository: Annotated[Path | None, typer.Option(help="Export there when done.")] = None,
    name: Annotated[str, typer.Option(help="The model's name in a repository; MODEL where it is left out.")] = "",
    data_name: Annotated[str, typer.Option(help="What the data are called in the bundle.")] = "",
    licence: Annotated[str, typer.Option(help="Licence of the data, for the bundle.")] = "",
    gold: Annotated[
        str, typer.Option(help="A file of examples that say where to look (word alignments): to measure that on.")
    ] = "",
) -> None:
    """Train a model; Ctrl-C saves, --resume goes on. Leaves a run folder to be exported.

    The ending of --data says its format (docs/data.md has all that each model reads):

    \b
      .csv       fields between commas; the first line names them: label,text
      .tsv       fields between tabs, with or without a line of names
      .jsonl     a JSON object a line: {"label": "good", "text": "A fine film."}
      .parquet   columns with these names
      .conll     a word and its tag a line
      .npz, IDX  graphs, series on them, spoken digits; pictures as MNIST has them

    \b
      classes of texts           label, text
      classes of pairs of texts  label, first, second
      texts to texts             source, target
      captions of pictures       image, target
      recordings of speech       audio, target
      questions about pictures   label, image, question
    """
    try:
        import torch

        from limelight_bundle.errors import LimelightError
        from limelight_models.training.session import Order, default_name
        from limelight_models.training.session import train as train_model
        from limelight_models.training.show import Show
        from limelight_models.training.stop import Interrupted, Stop
    except ModuleNotFoundError as error:
        raise CommandError(
            f"training needs {error.name}, which is not installed: {installing.extra('train')}"
        ) from error

    torch.set_num_threads(threads)
    options = {
        "seed": seed,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "supervision": supervision,
    }
    changes = {key: value for key, value in options.items() if value is not None}
    out = out or Path("runs") / (name or default_name(model, mechanism, attention))
    if resume and (changes or overwrite):
        raise CommandError(f"--resume goes on with the settings of {out}; leave out the others")
    order = Order(
        model=model,
        mechanism=mechanism,
        attention=attention,
        out=out,
        data=data,
        examples=examples or 0,
        preset=preset,
        changes=changes,
        name=name,
        data_name=data_name,
        licence=licence,
        gold=gold,
        columns=tuple(each.strip() for each in columns.split(",")) if columns else (),
        device=device,
        resume=resume,
        overwrite=overwrite,
    )
    try:
        with Show() as show:
            metrics = train_model(order, stop=Stop(minutes=time_limit), told=show.told, said=show.said)
    except Interrupted:
        again = command_line("train", model, "--out", out, "--resume")
        raise CommandError(f"interrupted; go on with: {again}", status=130) from None
    except LimelightError as error:
        raise CommandError(error.message) from error
    except OSError as error:
        raise CommandError(f"{error.filename or out}: {error.strerror or error}") from error
    for metric in metrics:
        beside = "" if metric.baseline is None else f" ({metric.baseline_name}: {metric.baseline:.4f})"
        typer.echo(f"{metric.split} {metric.name}: {metric.value:.4f}{beside}")
    if repository is None:
        typer.echo(f"export it with: {command_line('export', out, '--repository', _REPOSITORY)}")
    else:
        _export(out, repository)


def _export(run: Path, repository: Path) -> None:
    """Export by whatever is registered for it: models know nothing of export."""
    found = entry_points(group="limelight.commands", name="export")
    if not found:
        again = command_line("export", run, "--repository", repository)
        raise CommandError(f"no exporter is installed; later: {again}")
    next(iter(found)).load()(run, repository=repository)
