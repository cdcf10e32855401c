"""`limelight generate`."""

from typing import Annotated

import typer
from rich.live import Live
from rich.text import Text

from limelight.base import streams
from limelight.base.commands import CommandError
from limelight.cli import as_json, options
from limelight.cli.chat_options import Chat, System, write_as_chat
from limelight.cli.connection import Connection, with_connection_options
from limelight.cli.inputs import read_instance
from limelight.cli.intervention_options import read_interventions
from limelight.events import GeneratedToken, GenerationEnd, GenerationEvent, GenerationStart
from limelight.requests import Attention

StrategyName = Annotated[options.Strategy, typer.Option("--strategy", help="Decoding strategy.")]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature", min=0.0, help="Divisor of the scores before sampling; 0 takes the most probable token."
    ),
]
TopTokens = Annotated[int, typer.Option("--top-k", min=0, help="Sample from the k most probable tokens; 0 for all.")]
TopP = Annotated[
    float | None,
    typer.Option("--top-p", min=0.0, max=1.0, help="Sample from the most probable tokens of this total probability."),
]
Beams = Annotated[int, typer.Option("--beams", min=0, help="Number of beams; 0 means 4.")]
Hypotheses = Annotated[
    int, typer.Option("--hypotheses", min=0, help="Number of sequences that beam search returns; 0 means 1.")
]
MaxNewTokens = Annotated[
    int, typer.Option("--max-new-tokens", min=0, help="Maximum number of tokens; 0 for the model's limit.")
]
Stop = Annotated[list[str] | None, typer.Option("--stop", help="End the text before this string. Repeatable.")]
TargetText = Annotated[str | None, typer.Option("--target-text", help="Force this output.")]
Continue = Annotated[bool, typer.Option("--continue", help="Go on behind --target-text instead of ending with it.")]
TopLogprobs = Annotated[
    int, typer.Option("--top-logprobs", min=0, max=20, help="Number of most probable tokens of each step, for --json.")
]


@with_connection_options
def generate(
    connection: Connection,
    model: options.ModelName,
    values: options.Words = None,
    named: options.NamedInputs = None,
    image: options.ImageFile = None,
    example: options.Example = None,
    truncate: options.Truncate = False,
    strategy: StrategyName = options.Strategy.greedy,
    temperature: Temperature = None,
    top_k: TopTokens = 0,
    top_p: TopP = None,
    beams: Beams = 0,
    hypotheses: Hypotheses = 0,
    max_new_tokens: MaxNewTokens = 0,
    stop: Stop = None,
    seed: options.Seed = None,
    target_text: TargetText = None,
    continue_target: Continue = False,
    top_logprobs: TopLogprobs = 0,
    chat: Chat = "",
    system: System = "",
    mask_heads: options.MaskedHeads = None,
    uniform: options.UniformMaps = None,
    look_away: options.LookedAway = None,
    maps: options.Maps = None,
    as_document: options.Json = False,
    version: options.Version = 0,
) -> None:
    """Generate text, token by token: `limelight generate dates "3 May 2021"`.

    A terminal shows the text as it arrives; a pipe gets one line for each sequence. With --json every event is a line,
    with attention for the maps that --map names.
    """
    with connection.client() as client:
        description = client.model(model, version)
        named = list(named or ())
        if target_text is not None:
            if not description.target_input:
                raise CommandError(f"model {model!r} does not support a forced output", status=2)
            named.append(f"{description.target_input}={target_text}")
        instance = read_instance(description, positional=values or (), named=named, image=image, example=example)
        write_as_chat(description, instance, chat, system)
        events = client.generate(
            model,
            instance,
            version=version,
            truncate=truncate,
            seed=seed,
            interventions=read_interventions(mask_heads, uniform, look_away),
            attention=Attention(maps=maps) if maps else None,
            strategy=strategy.value,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            max_new_tokens=max_new_tokens,
            stop=stop or (),
            beams=beams,
            hypotheses=hypotheses,
            continue_target=continue_target,
            top_logprobs=top_logprobs,
        )
        if as_document:
            for event in events:
                as_json.write(as_json.event(event))
            return
        console = streams.console()
        end: GenerationEvent | None = None
        # Shown live, then replaced by the final text without stop texts.
        with Live(Text(), console=console, transient=True, auto_refresh=False) as live:
            written, seed_used = "", None
            for event in events:
                end = event
                if isinstance(event, GenerationStart):
                    seed_used = event.seed
                if isinstance(event, GeneratedToken) and console.is_terminal:
                    written += event.delta
                    live.update(Text(written, style="dim"), refresh=True)
    if isinstance(end, GenerationEnd):
        for sequence in end.sequences:
            sure = f"  ({sequence.probability:.2f})" if console.is_terminal else ""
            console.print(Text(sequence.text).append(sure, "dim"), soft_wrap=True)
    if seed_used is not None and console.is_terminal:
        console.print(f"(sampled; --seed {seed_used} reproduces it)", style="dim", highlight=False)
