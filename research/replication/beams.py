"""Held-out texts through a server, greedily and with beams (J7, Vaswani et al. 2017, §6.1: beams of 4)."""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import limelight
from benchmarks.process import ServerProcess
from limelight_models.data import tokenizers
from limelight_models.tasks.generate import bleu
from limelight_models.training.runs import read_run
from limelight_models.training.session import load_again
from research.batches import batches

BEAMS = 4
_TOGETHER = 50  # texts a call


def served(folder: Path) -> list[dict[str, Any]]:
    """Export a run that writes texts, serve it, and ask for what it held out: BLEU, the share that is exactly right,
    and seconds, for one beam and for several.
    """
    run = read_run(folder)
    held_out = load_again(run, folder).test
    texts, wanted = (tokenizers.texts_of([each.instance[name] for each in held_out]) for name in ("text", "target"))
    found = []
    with TemporaryDirectory() as repository:
        command = [sys.executable, "-m", "limelight.cli", "export", str(folder), "--repository", repository]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with ServerProcess(Path(repository)) as server, limelight.Client(server.target) as client:
            for beams in (1, BEAMS):
                began = time.monotonic()
                written = asked(client, run.name, texts, beams)
                seconds = time.monotonic() - began
                exact = sum(a == b for a, b in zip(written, wanted, strict=True)) / len(wanted)
                figures = {each.name: each.value for each in bleu(written, wanted)}
                found.append({"beams": beams, **figures, "exact match": exact, "seconds": round(seconds, 1)})
    return found


def asked(client: limelight.Client, model: str, texts: list[str], beams: int) -> list[str]:
    """The best text of each."""
    how = limelight.Generation(strategy="beam", beams=beams) if beams > 1 else limelight.Generation()
    written: list[str] = []
    for some in batches(texts, _TOGETHER):
        written += [each.text for each in client.predict(model, [{"text": text} for text in some], generation=how)]
    return written
