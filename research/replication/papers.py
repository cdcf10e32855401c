"""Claims of papers about their models, and verdicts from the runs here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limelight_models.index import ZOO, published
from research.mechanisms.statistics import holm
from research.replication.differences import (
    ALIGNMENT_ERRORS,
    ALONE,
    CLAIMED,
    CONICITY,
    OPPOSITE,
    SHOWN,
    Difference,
    differences,
)
from research.replication.figures import WEIGHT, Record, is_made
from research.replication.tables import written

_GATE, _CROSS = f"{WEIGHT}, gate.0", f"{WEIGHT}, decoder.cross"


@dataclass(frozen=True)
class Claim:
    """That a model has more than others. better, above: names of the zoo.

    less: by how many points it may have less where the claim is that it is no worse. figure: of which it is claimed,
    where it is not the model's own (`differences`). own: a claim of this project and not of the paper, whose comparison
    the paper does not make.
    """

    paper: str
    says: str
    better: str
    above: tuple[str, ...]
    less: float = 0.0
    figure: str = ""
    own: bool = False

    @property
    def model(self) -> str:
        """The model's row of the catalogue."""
        return ZOO[published(self.better)].row


CLAIMS = (
    Claim("Bahdanau 2015", "an alignment for each word beats one vector", "bahdanau", ("bahdanau-last",)),
    Claim("Bahdanau 2015", "coverage (Tu 2016) helps", "bahdanau-coverage", ("bahdanau",), own=True),
    Claim("Luong 2015", "a window around a predicted place is no worse (by a point)", "luong-local-p", ("luong",), 1),
    Claim("Luong 2015", "and aligns as well", "luong-local-p", ("luong",), 1, ALIGNMENT_ERRORS),
    Claim("Cheng 2016", "two directions that agree rewrite better than apart", "agreement", ("agreement-apart",)),
    Claim("Cheng 2016", "and look more where they should", "agreement", ("agreement-apart",), figure=_CROSS),
    Claim("Luong 2015", "input feeding helps", "luong", ("luong-unfed",)),
    Claim(
        "Xu 2015",
        "hard attention is no worse than soft (by a point)",
        "show-attend-tell-hard",
        ("show-attend-tell",),
        1,
    ),
    Claim(
        "Xu 2015",
        "attention beats equal weights, and frozen ones",
        "show-attend-tell",
        ("show-attend-tell-uniform", "show-attend-tell-frozen"),
        own=True,
    ),
    Claim(
        "Lu 2016",
        "co-attention beats the question's or the picture's alone",
        "hiecoatt",
        ("hiecoatt-question", "hiecoatt-image"),
    ),
    Claim("Yang 2016", "attention beats averages of words and sentences", "han", ("han-mean",)),
    Claim(
        "Li 2018", "transfer beats the labelled domain alone, and pivots alone", "hatn", ("hatn-source", "hatn-pnet")
    ),
    Claim("Vaswani 2017", "attention alone beats recurrence with attention", "transformer", ("bahdanau",)),
    Claim(
        "Vaswani 2017",
        "what it answers by is the attention that it learned",
        "transformer",
        ("transformer-uniform", "transformer-frozen"),
        own=True,
    ),
    Claim(
        "Correia 2019",
        "learned sparsity costs no accuracy (no worse by a point)",
        "adaptively-sparse",
        ("transformer",),
        1,
    ),
    Claim(
        "Bhojanapalli 2020",
        "many heads of a fixed size beat as many that share",
        "fixed-heads",
        ("fixed-heads-divided",),
    ),
    Claim("Tay 2021", "weights without comparisons do as well (by a point)", "synthesizer", ("transformer",), 1),
    Claim("Tay 2021", "and so do those of places alone", "synthesizer-random", ("transformer",), 1),
    Claim("Bapna 2018", "a mixture of layers trains deep encoders better", "transparent", ("transparent-last",)),
    Claim("Dehghani 2019", "steps as a token needs them beat the same number", "universal", ("universal-fixed",)),
    Claim("Veličković 2018", "GATv2's score (Brody 2022) beats the paper's", "gat-v2", ("gat",), own=True),
    Claim("Zhang 2018", "a gate of each head beats heads that all count in full", "gaan", ("gaan-ungated",)),
    Claim("Touvron 2021", "a teacher's classes teach better than the label twice", "deit", ("deit-label",)),
    Claim("Touvron 2021", "and better than its softened probabilities", "deit", ("deit-soft",)),
    Claim("El-Nouby 2021", "attention between channels adds to neighbouring patches", "xcit", ("xcit-local",)),
    Claim("Wang 2020", "learning a teacher's last layer first beats the task alone", "minilm", ("minilm-alone",)),
    Claim("Wallaart 2019", "more hops beat one", "lcr-rot-hop", ("lcr-rot-hop-one",)),
    Claim(
        "Wallaart 2019",
        "targets of one sentence are told apart",
        "lcr-rot-hop",
        ("lcr-rot-hop-uniform",),
        figure="told apart",
        own=True,
    ),
    Claim("Kiela 2018", "several embeddings beat each alone", "dme", ("dme-neighbours", "dme-spelling", "dme-learned")),
    Claim("Kiela 2018", "and all of them beside each other", "dme", ("dme-concatenated",)),
    Claim(
        "Kiela 2018",
        "and so they do where the sentence decides",
        "dme-contextualised",
        ("dme-neighbours", "dme-spelling", "dme-learned"),
    ),
    Claim("Shen 2018", "self-attention beats a BiLSTM of its size", "disan", ("disan-bilstm",)),
    Claim("Shen 2018", "attention among chosen tokens beats that among all", "resan", ("resan-soft",)),
    Claim("Sukhbaatar 2015", "several hops beat one", "memn2n", ("memn2n-one",)),
    Claim("Cui 2017", "a second attention beats the average of the first", "aoa-reader", ("aoa-reader-average",)),
    Claim(
        "Barbieri 2018",
        "weights for each label beat one row of weights for all",
        "label-wise-lstm",
        ("label-wise-lstm-shared",),
    ),
    Claim("Mohankumar 2020", "states differ more", "diversity-lstm", ("diversity-lstm-plain",), figure=CONICITY),
    Claim(
        "Mohankumar 2020",
        "which costs little accuracy (two points at most)",
        "diversity-lstm",
        ("diversity-lstm-plain",),
        2,
    ),
    Claim("Zhang 2019", "attention lowers the Fréchet distance", "sagan", ("sagan-plain",)),
    Claim("Li 2019", "both co-attentions count", "psac", ("psac-question", "psac-video")),
    Claim("Yu 2018", "self-attention adds to convolutions", "qanet", ("qanet-convolved",)),
    Claim("Yu 2018", "what attention learns adds to frozen weights", "qanet", ("qanet-frozen",), own=True),
    Claim("Yang 2016", "two attention layers beat one", "san", ("san-one",)),
    Claim("Tan 2019", "more layers in which the streams meet are better", "lxmert", ("lxmert-one",)),
    Claim("Tan 2019", "two streams beat one, as Lu 2019 has it of ViLBERT", "lxmert", ("visualbert",), own=True),
    Claim(
        "Li 2019", "regions from the first layer on beat regions in the last alone", "visualbert", ("visualbert-late",)
    ),
    Claim("Yu 2019", "two layers beat one, and their encoder beats stacking", "mcan", ("mcan-one", "mcan-stacked")),
    Claim("Yu 2019", "four layers beat two", "mcan-four", ("mcan",)),
    Claim("Wang 2019", "two samplers beat soft attention", "rban", ("rban-soft",)),
    Claim("Oktay 2018", "gates find small objects better", "attention-unet", ("attention-unet-uniform",)),
    Claim(
        "Oktay 2018", "a gate learns what is sought", "attention-unet", ("attention-unet-frozen",), 0, _GATE, own=True
    ),
    Claim(
        "Winata 2019",
        "several embeddings of words beat each alone",
        "mme-words",
        ("mme-neighbours", "mme-spelling", "mme-learned"),
    ),
    Claim("Winata 2019", "words, subwords and characters beat words alone", "mme", ("mme-words",)),
    Claim("Wang 2018", "reconstruction in the loss helps", "rnn-capsule", ("rnn-capsule-probability",)),
    Claim(
        "Parikh 2016",
        "attention within sentences adds to that between them (86.8 % beside 86.3 % on all of SNLI)",
        "decomposable-attention-within",
        ("decomposable-attention",),
    ),
    Claim(
        "Rocktäschel 2016",
        "each word's attention beats that of the last state (83.5 % beside 82.3 % on all of SNLI)",
        "word-by-word",
        ("word-by-word-once",),
    ),
    Claim(
        "dos Santos 2016",
        "weights by the other text beat the largest of each feature",
        "attentive-pooling",
        ("attentive-pooling-largest",),
    ),
    Claim("Lin 2017", "the penalty helps", "structured", ("structured-free",)),
    Claim("Lin 2017", "several rows beat one", "structured", ("structured-one",)),
)


def is_compared(figure: str, metrics: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a claim may be about a figure of a run that has these: only of such are examples kept."""
    return figure == metrics[0]["name"] or figure in {each.figure for each in CLAIMS} | CLAIMED


@dataclass(frozen=True)
class Compared:
    """A claim beside one model on one set of data. found: None where nothing was trained. adjusted: its p value."""

    claim: Claim
    other: str
    found: Difference | None
    adjusted: float = 1.0

    @property
    def verdict(self) -> str:
        """The verdict on the claim."""
        return "not trained yet" if self.found is None else self.found.verdict(self.claim.less, self.adjusted)


def compared(record: Record) -> list[Compared]:
    """Compare the models of every claim, on every set of data; p values are adjusted for being many (Holm)."""
    pairs = [
        (claim, other, found)
        for claim in CLAIMS
        for other in claim.above
        for found in differences(record, claim.better, other, claim.figure) or [None]
    ]
    adjusted = holm([None if found is None else found.p_value(claim.less) for claim, _, found in pairs])
    return [Compared(*pair, p) for pair, p in zip(pairs, adjusted, strict=True)]


def title(model: str) -> str:
    """Write the name by which a model is trained."""
    return f"`{model}`"


def papers(comparisons: Sequence[Compared], record: Record) -> list[str]:
    """A row for each claim, each model that it puts below, and each set of data."""
    heads = ("id", "claim", "on", "figure", "beside", "here", "there", "difference (95 %)", "seeds", "")
    made = {run["data"]["name"] for run in record.values() if is_made(run)}
    rows: list[tuple[str, ...]] = []
    for each in comparisons:
        claim, found = each.claim, each.found
        says = f"{'' if claim.own else f'{claim.paper}: '}{claim.says}{' (ours)' if claim.own else ''}"
        cells = ("", "", title(each.other), "", "", "", "")
        if found is not None:
            on = f"{found.data}{' (made here)' if found.data in made else ''}"
            cells = (on, found.figure, title(each.other), *found.cells)
        rows.append((claim.model, says, *cells, each.verdict))
    return written(heads, rows)


def verdicts(comparisons: Sequence[Compared]) -> list[str]:
    """A line for each model: what is seen of its paper's claims."""
    rows = []
    found = [each for each in comparisons if not each.claim.own]
    for model in dict.fromkeys(each.claim.model for each in found):
        own = [each for each in found if each.claim.model == model]
        counts = [f"{sum(each.verdict == kind for each in own)}" for kind in (SHOWN, ALONE, OPPOSITE)]
        claims = "; ".join(dict.fromkeys(each.claim.says for each in own))
        rows.append((model, own[0].claim.paper, claims, *counts, str(len(own)), _summary(own)))
    return written(("id", "paper", "claims", "shown", "shown alone", "the opposite", "comparisons", "in a word"), rows)


def _summary(found: Sequence[Compared]) -> str:
    """Say it in a word: of a model's comparisons, how many are on the paper's side."""
    if all(each.found is None for each in found):
        return found[0].verdict
    seen = [each.verdict in (SHOWN, ALONE) for each in found]
    if all(seen):
        return "reproduced" if all(each.verdict == SHOWN for each in found) else "reproduced, alone"
    if any(seen):
        return "partly"
    return "the opposite" if any(each.verdict == OPPOSITE for each in found) else "not shown"
