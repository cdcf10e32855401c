"""Trains the models of docs/results.md, collects what was measured, and writes that page.

    python benchmarks/results.py train --data ../shared/data    one run after another; Ctrl-C and again goes on
    python benchmarks/results.py beams ROW ...                  of rows that write texts, what several beams add
    python benchmarks/results.py collect                        runs/results/*/*.json -> results/training.json
    python benchmarks/results.py write                          results/training.json -> docs/results.md

Only figures are kept, never a row of the data.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_EPOCHS_KEPT = 10
_BEAMS = "beams.json"
_PLACES = ("path", "gold", "columns")  # of files: the command says them
ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "runs" / "results"
RECORD = ROOT / "benchmarks" / "results" / "training.json"
PAGE = ROOT / "docs" / "results.md"


@dataclass(frozen=True)
class Run:
    """A row of the page. data: a folder below --data, a `builtin:NAME`, or empty for the data that come with the model.

    gold: a file below --data of examples that say where to look.
    """

    name: str
    model: str
    data: str = ""
    licence: str = ""
    options: tuple[str, ...] = ()
    gold: str = ""

    def command(self, data: Path) -> list[str]:
        """The arguments of `limelight`."""
        where: list[str] = []
        if self.data.startswith("builtin:"):
            where = ["--data", self.data]
        elif self.data:
            where = ["--data", str(data / self.data), "--data-name", Path(self.data).stem, "--licence", self.licence]
        marked = ["--gold", str(data / self.gold)] if self.gold else []
        return ["train", self.model, *where, *marked, *self.options]


_SST2 = ("sst2", "none stated")
_MNIST = "CC-BY-SA-3.0, unverified"
_SNLI = ("snli_small", "CC-BY-SA-4.0")
_MAMS = ("mams_atsa", "Apache-2.0")
_REVIEWED = ("mr_polarity+mams_atsa", "CC BY 4.0 and Apache-2.0")
_CONTROLS = ("", "-uniform", "-frozen")
_REVIEWS = ("movie_reviews+rationales_movies", "CC BY 4.0; of the rationales none stated")
_CAPTIONS = ("multi30k", "none stated: research", ("--columns", "en,fr", "--epochs", "8"), "word_alignments/enfr.jsonl")
_TATOEBA = ("tatoeba_en_fr", "CC-BY-2.0", ("--epochs", "8"), "word_alignments/enfr.jsonl")
TABLE = (
    Run("han", "han"),
    Run("han-mean", "han-mean"),
    # Settings were chosen on the split of seed 0; these are others.
    *(Run(f"{model}-{seed}", model, options=("--seed", str(seed))) for seed in (3, 4) for model in ("han", "han-mean")),
    *(Run(model, model) for model in ("han-uniform", "han-frozen")),
    *(
        Run(f"han-{control}-{seed}", f"han-{control}", options=("--seed", str(seed)))
        for seed in (3, 4)
        for control in ("uniform", "frozen")
    ),
    *(Run(f"bahdanau{other}", f"bahdanau{other}") for other in (*_CONTROLS, "-last")),
    Run("gat", "gat"),
    Run("gat-mean", "gat-mean"),
    Run("vit", "vit"),
    *(Run(model, model) for model in (*(f"rban{control}" for control in _CONTROLS), "rban-soft")),
    *(Run(model, model) for model in (*(f"hatn{control}" for control in _CONTROLS), "hatn-source", "hatn-pnet")),
    *(Run(model, model) for model in ("cct", "cct-supervised")),
    *(Run(f"han-code{other}", f"han-code{other}") for other in (*_CONTROLS, "-supervised")),
    Run("numbers-transformer", "transformer", "builtin:numbers"),
    *(
        Run(f"movie_reviews-{model}", model, *_REVIEWS, ("--epochs", "5"))
        for model in ("han", "han-mean", "han-uniform", "han-frozen")
    ),
    *(
        Run(f"movie_reviews-{model}", model, *_REVIEWS)
        for model in (*(f"rnn-capsule{control}" for control in _CONTROLS), "rnn-capsule-probability")
    ),
    *(Run(f"tatoeba-bahdanau{other}", f"bahdanau{other}", *_TATOEBA) for other in (*_CONTROLS, "-last")),
    *(
        Run(f"cora-{model}-{seed}", model, "citation_graphs/cora.npz", "MIT", ("--seed", str(seed)))
        for seed in range(3)
        for model in ("gat", "gat-mean")
    ),
    *(
        Run(f"sst2-{model}-{seed}", model, *_SST2, ("--seed", str(seed)))
        for seed in range(3)
        for model in (*(f"rnn-capsule{control}" for control in _CONTROLS), "rnn-capsule-probability")
    ),
    *(
        Run(f"sst2-{model}-{seed}", model, *_SST2, ("--seed", str(seed)))
        for seed in range(3)
        for model in (
            *(f"dme{control}" for control in _CONTROLS),
            *(f"dme-{other}" for other in ("contextualised", "neighbours", "spelling", "learned")),
        )
    ),
    *(
        Run(f"snli-{model}-{seed}", model, *_SNLI, ("--seed", str(seed)))
        for seed in range(3)
        for model in (*(f"disan{control}" for control in _CONTROLS), "disan-bilstm")
    ),
    *(
        Run(f"reverse-luong{other}", f"luong{other}", "builtin:reverse", options=("--epochs", "5"))
        for other in ("", "-uniform", "-frozen", "-dot", "-concat", "-location", "-local-m", "-local-p", "-unfed")
    ),
    *(Run(f"tatoeba-luong{other}", f"luong{other}", *_TATOEBA) for other in (*_CONTROLS, "-local-p", "-unfed")),
    # Letters are units of sound: pieces of several would be learned by heart, a recording being in many utterances.
    *(
        Run(
            f"speech-{model}{f'-{seed}' if seed else ''}",
            model,
            "speech_fsdd",
            "CC-BY-SA-4.0",
            ("--preset", "demo", "--epochs", "8", "--seed", str(seed)),
        )
        for seed in range(3)
        for model in (
            *("luong", "luong-local-p", "luong-unfed", "bahdanau", "bahdanau-last"),
            *(() if seed else ("luong-uniform", "luong-frozen", "luong-local-m", "luong-location")),
            *(() if seed else ("bahdanau-uniform", "bahdanau-frozen")),
        )
    ),
    # As many epochs as RNNsearch has there.
    *(Run(f"transformer{control}", f"transformer{control}", options=("--epochs", "16")) for control in _CONTROLS),
    *(
        Run(f"tatoeba-transformer{control}", f"transformer{control}", *_TATOEBA[:2], gold=_TATOEBA[3])
        for control in _CONTROLS
    ),
    *(
        Run(f"multi30k-{model}", model, *_CAPTIONS)
        for model in (*(f"luong{control}" for control in _CONTROLS), "luong-local-p")
    ),
    *(
        Run(f"tatoeba-{model}-{seed}", model, *_TATOEBA[:2], (*_TATOEBA[2], "--seed", str(seed)), _TATOEBA[3])
        for seed in (1, 2)
        for model in ("bahdanau", "bahdanau-last", "luong", "luong-local-p", "luong-unfed")
    ),
    *(
        Run(
            f"reverse-luong{other}-{seed}",
            f"luong{other}",
            "builtin:reverse",
            "",
            ("--epochs", "5", "--seed", str(seed)),
        )
        for seed in (1, 2)
        for other in ("", "-local-p", "-unfed")
    ),
    *(
        Run(f"wnut17-mme{other}", f"mme{other}", "ner_wnut17", "CC-BY-4.0")
        for other in (*_CONTROLS, "-words", "-characters", "-neighbours", "-spelling", "-learned")
    ),
    *(
        Run(f"names-mme{other}{f'-{seed}' if seed else ''}", f"mme{other}", options=("--seed", str(seed)))
        for seed in range(3)
        for other in (*_CONTROLS, "-words", "-characters", "-neighbours", "-spelling", "-learned")
    ),
    *(
        Run(f"{model}{other}", f"{model}{other}")
        for model, others in (
            ("show-attend-tell", ("-hard", "-free", "-untaught", "-supervised")),
            ("attention-unet", ("-features",)),
            ("sagan", ("-plain",)),
        )
        for other in (*_CONTROLS, *others)
    ),
    # What is claimed of these is no share of examples: only other seeds tell how far to trust a difference.
    *(
        Run(f"{model}-{seed}", model, options=("--seed", str(seed)))
        for seed in (1, 2)
        for model in (
            *("show-attend-tell", "show-attend-tell-uniform", "attention-unet", "attention-unet-uniform"),
            *("sagan", "sagan-plain"),
        )
    ),
    *(
        Run(f"wnut17-mme{other}-{seed}", f"mme{other}", "ner_wnut17", "CC-BY-4.0", ("--seed", str(seed)))
        for seed in (1, 2)
        for other in ("", "-characters", "-neighbours", "-spelling", "-learned")
    ),
    *(
        Run(f"mnist-{model}", model, "mnist", _MNIST, ("--epochs", "12"))
        for model in ("sagan", "sagan-uniform", "sagan-plain")
    ),
    Run("mnist-vit", "vit", "mnist", _MNIST, ("--epochs", "6")),
    *(
        Run(f"questions-{model}", model)
        for model in (
            *(f"hiecoatt{control}" for control in _CONTROLS),
            *(f"hiecoatt-{other}" for other in ("alternating", "question", "image", "supervised")),
            *(f"mcan{control}" for control in _CONTROLS),
            *(f"mcan-{other}" for other in ("one", "four", "stacked")),
        )
    ),
    *(
        Run(f"films-{model}", model)
        for model in (*(f"psac{control}" for control in _CONTROLS), "psac-question", "psac-video")
    ),
    *(
        Run(f"nlvr-hiecoatt{other}", f"hiecoatt{other}", "nlvr_mini", "CC-BY-4.0")
        for other in (*_CONTROLS, "-question", "-image")
    ),
    *(
        Run(f"mams-{model}-{seed}", model, *_MAMS, ("--seed", str(seed)))
        for seed in range(3)
        for model in (*(f"lcr-rot-hop{control}" for control in _CONTROLS), "lcr-rot-hop-one")
    ),
    *(
        Run(f"mams-{model}-{seed}", model, *_MAMS, ("--seed", str(seed)))
        for seed in range(3)
        for model in (*(f"rban{control}" for control in _CONTROLS), "rban-soft")
    ),
    *(
        Run(f"reviews-{model}-{seed}", model, *_REVIEWED, ("--seed", str(seed)))
        for seed in range(3)
        for model in (*(f"hatn{control}" for control in _CONTROLS), "hatn-source", "hatn-pnet")
    ),
)


def train(data: Path, names: list[str], minutes: float) -> None:
    """Train what is not finished, one run after another."""
    for run in (run for run in TABLE if not names or run.name in names):
        folder = RUNS / run.name
        if (folder / "metrics.json").exists() and json.loads((folder / "metrics.json").read_text())["finished"]:
            continue
        begun = (folder / "resume.safetensors").exists()
        arguments = ["train", run.model, "--resume"] if begun else [*run.command(data), "--overwrite"]
        arguments += ["--out", str(folder), *(["--time-limit", str(minutes)] if minutes else [])]
        print(f"== {run.name}", flush=True)
        subprocess.run(
            [sys.executable, "-m", "limelight.cli", *arguments],
            cwd=ROOT,
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )


def thinned(history: list[dict[str, Any]], best: int) -> list[dict[str, Any]]:
    """Ten epochs or so, and the best one, to four digits."""
    step = -(-len(history) // _EPOCHS_KEPT)
    kept = (each for each in history if each["epoch"] % step == 0 or each["epoch"] in (1, best))
    return [{name: round(value, 4) for name, value in each.items()} for each in kept]


def collect() -> None:
    """Keep the figures of every run that there is; those of others stay as they are."""
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for run in TABLE:
        folder = RUNS / run.name
        if (folder / "metrics.json").exists():
            config = json.loads((folder / "config.json").read_text())
            for place in _PLACES:
                config["data"].pop(place, None)
            metrics = json.loads((folder / "metrics.json").read_text())
            record[run.name] = {
                "command": shlex.join(["limelight", *run.command(Path("../shared/data"))]),
                **metrics,
                "history": thinned(metrics["history"], metrics["best_epoch"]),
                **{key: config[key] for key in ("model", "config", "settings", "data", "versions")},
            }
            if (folder / _BEAMS).exists():
                record[run.name]["beams"] = json.loads((folder / _BEAMS).read_text())
    RECORD.parent.mkdir(exist_ok=True)
    lines = (f"{json.dumps(run.name)}: {json.dumps(record[run.name])}" for run in TABLE if run.name in record)
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> None:
    """Do one of the four."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("train", "beams", "collect", "write"))
    parser.add_argument("names", nargs="*", help="rows, all where none is named")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--minutes", type=float, default=0.0, help="time limit of a run")
    options = parser.parse_args()
    if options.task == "train":
        train(options.data.resolve(), options.names, options.minutes)
    elif options.task == "beams":
        from benchmarks.beams import served

        for name in options.names:
            (RUNS / name / _BEAMS).write_text(json.dumps(served(RUNS / name), indent=1) + "\n")
    elif options.task == "collect":
        collect()
    else:
        from benchmarks.results_page.page import page

        PAGE.write_text(page(json.loads(RECORD.read_text())))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
