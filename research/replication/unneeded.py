"""Models that were not shown to be better than a control without learned attention, and why."""

from research.replication.differences import UNSHOWN, differences
from research.replication.figures import Record
from research.replication.names import CONTROLS, TITLES, title
from research.replication.tables import written

# By the data. Guesses, but for those that docs/mechanisms.md tests.
WHY = {
    "Dates as people write them": "what recurrent states carry of a date is enough",
    "snli_small": "no mechanism was shown to beat an average there (docs/mechanisms.md)",
    "Slips in functions of the Python standard library": "states of words and lines carry much of it",
    "Messages with made-up names": "having several embeddings helps, choosing among them adds little",
    "sst2": "a few words say it, wherever they stand (the negative control of docs/mechanisms.md)",
    "movie_reviews+rationales_movies": "1,600 long reviews are few, and their opinion is said many times",
    "mams_atsa": "no mechanism beats an average there (docs/mechanisms.md)",
    "ner_wnut17": "having several embeddings helps, choosing among them does not",
    "Opinions of a made-up restaurant: questions": "few forms of sentences: the states of the reader tell them apart",
    "Made-up reviews: films to restaurants": "the task is solved without",
    "mr_polarity+mams_atsa": "sentences are short, and what is carried over is in their words",
    "Handwritten digits on a canvas: masks": "each cell shows what it belongs to: nothing has to be found elsewhere",
    "Handwritten digits on a canvas: questions": "what random maps compare learns to fit them (docs/mechanisms.md)",
    "Docstrings of the Python standard library": "the names of a family stand all over a text",
    "nlvr_mini": "868 statements are too few to learn it either way",
}


def unneeded(record: Record) -> list[str]:
    """A row for each model, set of data and control that the model was not shown to be better than."""
    heads = ("model", "on", "figure", "control", "model's", "control's", "difference (95 %)", "seeds", "why")
    rows = [
        (title(base), each.data, each.figure, CONTROLS[control], *each.cells, WHY.get(each.data, "–"))
        for base in TITLES
        for control in CONTROLS
        for each in differences(record, base, f"{base}-{control}")
        if each.verdict() in UNSHOWN
    ]
    return written(heads, rows)
