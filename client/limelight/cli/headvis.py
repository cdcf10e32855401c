"""`limelight headvis`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from limelight.base.commands import CommandError
from limelight.base.errors import InputError
from limelight.cli import options
from limelight.cli.connection import Connection, with_connection_options
from limelight.cli.input_rows import instances
from limelight.headvis import write

File = Annotated[
    Path, typer.Option("--file", metavar="FILE", help="Inputs by name: .jsonl, .csv, .tsv or .parquet; many texts.")
]
Folder = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder to write, HeadVis' data/.")]


@with_connection_options
def headvis(
    connection: Connection, model: options.ModelName, file: File, out: Folder, version: options.Version = 0
) -> int | None:
    """Write a model's heads for HeadVis: `limelight headvis my-bert --file texts.jsonl --out data`

    HeadVis shows heads by their figures over many texts, from files alone: serve its dist/ beside this folder. The
    exit status is 1 if rows of the file failed.
    """
    with connection.client() as client:
        description = client.model(model, version)
        read, wrong = [], []
        for number, instance in instances(file, description):
            if isinstance(instance, InputError):
                wrong.append(f"line {number}: {instance}")
            else:
                read.append(instance)
        if not read:
            raise CommandError(f"{file} has no row that can be asked" + (f"; {wrong[0]}" if wrong else ""))
        try:
            failed = write(
                out,
                description,
                read,
                lambda asked, names: client.attend_many(model, asked, version=version, maps=names),
            )
        except OSError as error:
            raise CommandError(f"{error.filename or out}: {error.strerror}") from error
    for line in (*wrong, *(error.message for error in failed)):
        print(f"limelight: {line}", file=sys.stderr)
    print(f"{len(read) - len(failed)} texts: {out / 'config.json'}")
    return 1 if wrong or failed else None
