"""What the seventeen papers claim of their models, and whether it is seen here."""

from dataclasses import dataclass

from models.zoo.index import ZOO, published
from studies.replication.differences import ALIGNMENT_ERRORS, differences
from studies.replication.figures import WEIGHT, Record
from studies.replication.names import title
from studies.replication.tables import written

_GATE = f"{WEIGHT}, gate.0"


@dataclass(frozen=True)
class Claim:
    """That a model has more than others. better, above: names of the zoo.

    less: by how many points it may have less where the claim is that it is no worse. figure: of which it is claimed,
    where it is not the model's own (`differences`).
    """

    paper: str
    says: str
    better: str
    above: tuple[str, ...]
    less: float = 0.0
    figure: str = ""

    @property
    def model(self) -> str:
        """The model's row of the catalogue."""
        return ZOO[published(self.better)].row


CLAIMS = (
    Claim("Bahdanau 2015", "an alignment for each word beats one vector", "bahdanau", ("bahdanau-last",)),
    Claim("Luong 2015", "a window around a predicted place is no worse (by a point)", "luong-local-p", ("luong",), 1),
    Claim("Luong 2015", "and aligns as well", "luong-local-p", ("luong",), 1, ALIGNMENT_ERRORS),
    Claim("Luong 2015", "input feeding helps", "luong", ("luong-unfed",)),
    Claim("Xu 2015", "it looks at what it names", "show-attend-tell", ("show-attend-tell-uniform",)),
    Claim(
        "Lu 2016",
        "co-attention beats the question's or the picture's alone",
        "hiecoatt",
        ("hiecoatt-question", "hiecoatt-image"),
    ),
    Claim("Yang 2016", "attention beats averages of words and sentences", "han", ("han-mean",)),
    Claim(
        "Li 2018",
        "transfer beats the labelled domain alone, and pivots alone",
        "hatn",
        ("hatn-source", "hatn-pnet"),
    ),
    Claim("Vaswani 2017", "attention alone beats recurrence with attention", "transformer", ("bahdanau",)),
    Claim(
        "Vaswani 2017",
        "what it answers by is the attention that it learned",
        "transformer",
        ("transformer-uniform", "transformer-frozen"),
    ),
    Claim("Wallaart 2019", "more hops beat one", "lcr-rot-hop", ("lcr-rot-hop-one",)),
    Claim(
        "Wallaart 2019",
        "targets of one sentence are told apart",
        "lcr-rot-hop",
        ("lcr-rot-hop-uniform",),
        figure="told apart",
    ),
    Claim(
        "Kiela 2018",
        "several embeddings beat each alone",
        "dme",
        ("dme-neighbours", "dme-spelling", "dme-learned"),
    ),
    Claim(
        "Kiela 2018",
        "and so they do where the sentence decides",
        "dme-contextualised",
        ("dme-neighbours", "dme-spelling", "dme-learned"),
    ),
    Claim("Shen 2018", "self-attention beats a BiLSTM of its size", "disan", ("disan-bilstm",)),
    Claim("Zhang 2019", "attention lowers the Fréchet distance", "sagan", ("sagan-plain",)),
    Claim("Li 2019", "both co-attentions count", "psac", ("psac-question", "psac-video")),
    Claim("Yu 2019", "two layers beat one, and their encoder beats stacking", "mcan", ("mcan-one", "mcan-stacked")),
    Claim("Yu 2019", "four layers beat two", "mcan-four", ("mcan",)),
    Claim("Wang 2019", "two samplers beat soft attention", "rban", ("rban-soft",)),
    Claim("Oktay 2018", "gates find small objects better", "attention-unet", ("attention-unet-uniform",)),
    Claim("Oktay 2018", "a gate learns what is sought", "attention-unet", ("attention-unet-frozen",), 0, _GATE),
    Claim(
        "Winata 2019",
        "several embeddings beat each alone",
        "mme",
        ("mme-neighbours", "mme-spelling", "mme-learned", "mme-characters"),
    ),
    Claim("Wang 2018", "reconstruction in the loss helps", "rnn-capsule", ("rnn-capsule-probability",)),
)


def papers(record: Record) -> list[str]:
    """A row for each claim, each model that it puts below, and each set of data."""
    heads = ("id", "the paper's claim", "on", "figure", "beside", "here", "there", "difference (95 %)", "seeds", "")
    rows: list[tuple[str, ...]] = []
    for claim in CLAIMS:
        first = (claim.model, f"{claim.paper}: {claim.says}")
        for other in claim.above:
            found = differences(record, claim.better, other, claim.figure)
            rows += [
                (*first, each.data, each.figure, title(other), *each.cells, each.verdict(claim.less)) for each in found
            ]
            if not found:
                rows.append((*first, "", "", title(other), "", "", "", "", "not trained yet"))
    return written(heads, rows)
