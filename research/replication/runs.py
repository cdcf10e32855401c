"""The runs behind docs/results.md: which model is trained on which data, and how."""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.records import ROOT

RUNS = ROOT / "runs" / "results"
RECORD = ROOT / "research" / "records" / "training.json.xz"
PAGES = ROOT / "docs"


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
_SQUAD = ("squad_small", "CC-BY-SA-4.0")
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
    Run("gat-v2", "gat-v2"),
    *(
        Run(f"citations-{model}-{seed}", model, options=("--seed", str(seed)))
        for seed in range(2)
        for model in (*(f"gaan{control}" for control in _CONTROLS), "gaan-ungated")
    ),
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
            *(f"dme-{other}" for other in ("contextualised", "neighbours", "spelling", "learned", "concatenated")),
        )
    ),
    *(
        Run(f"sst2-{model}-{seed}", model, *_SST2, ("--seed", str(seed), "--epochs", "4"))
        for seed in range(2)
        for model in (*(f"diversity-lstm{control}" for control in _CONTROLS), "diversity-lstm-plain")
    ),
    *(
        Run(f"label-wise-lstm{other}", f"label-wise-lstm{other}", options=("--epochs", "5"))
        for other in (*_CONTROLS, "-shared")
    ),
    *(Run(f"memn2n{other}", f"memn2n{other}") for other in (*_CONTROLS, "-one")),
    *(Run(f"aoa-reader{other}", f"aoa-reader{other}") for other in (*_CONTROLS, "-average")),
    *(Run(f"qanet{other}", f"qanet{other}") for other in (*_CONTROLS, "-convolved")),
    # Passages are cut to 160 tokens: an answer behind them cannot be found, and counts as wrong.
    *(
        Run(f"squad-qanet{other}", f"qanet{other}", *_SQUAD, ("--preset", "demo", "--epochs", "6"))
        for other in (*_CONTROLS, "-convolved")
    ),
    *(
        Run(
            f"{task[:3]}-memn2n{other}", f"memn2n{other}", f"babi/en-10k/{task}_train.txt", "CC-BY-3.0", ("--epochs", n)
        )
        for task, n in (("qa1_single-supporting-fact", "3"), ("qa6_yes-no-questions", "5"))
        for other in (*_CONTROLS, "-one")
    ),
    *(
        Run(f"snli-{model}-{seed}", model, *_SNLI, ("--seed", str(seed)))
        for seed in range(3)
        for model in (*(f"disan{control}" for control in _CONTROLS), "disan-bilstm")
    ),
    *(
        Run(f"snli-{model}-0", model, *_SNLI, ("--seed", "0"))
        for model in (
            *(f"decomposable-attention{other}" for other in (*_CONTROLS, "-within")),
            *(f"attentive-pooling{other}" for other in (*_CONTROLS, "-largest")),
            *(f"word-by-word{other}" for other in (*_CONTROLS, "-once")),
        )
    ),
    *(
        Run(f"snli-resan{other}-0", f"resan{other}", *_SNLI, ("--epochs", "4", "--seed", "0"))
        for other in (*_CONTROLS, "-soft")
    ),
    *(
        Run(f"sst2-{model}-0", model, *_SST2, ("--epochs", "3", "--seed", "0"))
        for model in (*(f"structured{control}" for control in _CONTROLS), "structured-free", "structured-one")
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
            *("luong", "luong-local-p", "luong-unfed", "bahdanau", "bahdanau-last", "bahdanau-coverage"),
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
        Run(
            f"reverse-agreement{other}{f'-{seed}' if seed else ''}",
            f"agreement{other}",
            "builtin:reverse",
            options=("--epochs", "3", "--seed", str(seed)),
        )
        for seed in range(3)
        for other in ("", "-apart", *(() if seed else ("-uniform", "-frozen")))
    ),
    *(
        Run(f"wnut17-mme{other}", f"mme{other}", "ner_wnut17", "CC-BY-4.0")
        for other in (*_CONTROLS, "-words", "-characters", "-neighbours", "-spelling", "-learned")
    ),
    Run("roles-mme", "mme", "builtin:roles", options=("--supervision", "0.5")),
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
    *(Run(f"xcit{other}", f"xcit{other}") for other in (*_CONTROLS, "-local")),
    *(Run(f"minilm{other}", f"minilm{other}") for other in (*_CONTROLS, "-alone")),
    *(Run(model, model) for model in (*(f"deit{control}" for control in _CONTROLS), "deit-soft", "deit-label")),
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
        Run(f"questions-{model}", model, options=("--epochs", "6"))
        for model in (
            *(f"san{other}" for other in (*_CONTROLS, "-one")),
            *(f"lxmert{other}" for other in (*_CONTROLS, "-one")),
            *(f"visualbert{other}" for other in (*_CONTROLS, "-late")),
        )
    ),
    *(
        Run(f"films-{model}", model)
        for model in (*(f"psac{control}" for control in _CONTROLS), "psac-question", "psac-video")
    ),
    *(
        Run(f"nlvr-{model}", model, "nlvr_mini", "CC-BY-4.0")
        for model in (
            *(f"hiecoatt{other}" for other in (*_CONTROLS, "-question", "-image")),
            "visualbert",
        )
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
    # Transformers that exchange a part of the Transformer, and that itself, beside each other.
    *(
        Run(f"reverse-{model}", model, "builtin:reverse", options=("--epochs", "6", "--batch-size", "32"))
        for model in (
            "transformer",
            *(f"synthesizer{other}" for other in ("", "-random", "-uniform", "-frozen")),
            *(f"adaptively-sparse{control}" for control in _CONTROLS),
            *(f"transparent{other}" for other in ("", "-last", "-uniform", "-frozen")),
        )
    ),
    *(
        Run(f"reverse-{model}", model, "builtin:reverse", options=("--epochs", "4", "--batch-size", "32"))
        for model in (
            *(f"fixed-heads{other}" for other in ("", "-divided", "-uniform", "-frozen")),
            *(f"universal{other}" for other in ("", "-fixed", "-uniform", "-frozen")),
        )
    ),
)
