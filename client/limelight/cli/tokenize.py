"""`limelight tokenize`."""

from limelight.base.commands import CommandError
from limelight.base.counts import counted
from limelight.cli import as_json, options
from limelight.cli.chat_options import Chat, System, write_as_chat
from limelight.cli.connection import Connection, with_connection_options
from limelight.cli.inputs import read_instance
from limelight.described import TEXTS, reading_texts
from limelight.tokens import Tokenized


@with_connection_options
def tokenize(
    connection: Connection,
    model: options.ModelName,
    values: options.Words = None,
    named: options.NamedInputs = None,
    example: options.Example = None,
    truncate: options.Truncate = False,
    chat: Chat = "",
    system: System = "",
    as_document: options.Json = False,
    version: options.Version = 0,
) -> None:
    """Show the tokens that a model reads: `limelight tokenize dates "7 March 2021"`

    A line for each token: its id, its place in the text, and its piece of it. The model is not run.
    """
    with connection.client() as client:
        description = reading_texts(client.model(model, version))
        if all(each.kind not in TEXTS for each in description.inputs):
            raise CommandError(f"model {model!r} reads no text", status=2)
        instance = read_instance(description, positional=values or (), named=named or (), example=example)
        write_as_chat(description, instance, chat, system)
        answer = client.tokenize(model, instance, version=version, truncate=truncate)
    if as_document:
        as_json.write(answer.to_dict())
    else:
        print("\n".join(_lines(answer)))


def _lines(answer: Tokenized) -> list[str]:
    sets = [each for each in answer.label_sets.values() if each.kind == "tokens"]
    shown = []
    for each in sets:
        if len(sets) > 1:
            shown.append(f"{each.name}:")
        offsets = each.offsets or [("", "")] * len(each)
        for number, (start, end), special, text in zip(
            each.ids.tolist(), offsets, each.special, each.labels, strict=True
        ):
            shown.append(f"{number:>7}  {'' if special else f'{start}:{end}':>9}  {text if special else repr(text)}")
    return [*shown, f"({counted(len(answer), 'token')}{', truncated' if answer.truncated else ''})"]
