"""Reasons for which mechanisms enter a kind of task, and those of the registry that enter none."""

from collections.abc import Mapping

ENTERS: Mapping[str, str] = {  # by the form of a task
    "asking": (
        "Here: scores that compare a key with what is asked, and alignments that need no order of the keys. Not "
        "applicable: scores that read no query or no key, windows and monotonic alignments (what is asked for may"
        " stand anywhere), bounds and memories (nothing is asked twice). De-attention has its paper's doubled gate."
    ),
    "writing": (
        "Here: scores that compare, and what acts on places, on the order of steps or on earlier weights where "
        "the task has such an order: windows where an output stands near its place, monotonic alignments where "
        "places never go back, bounds where no letter is needed twice. Not applicable: scores that read no query."
    ),
    "beside": (
        "Here: what lets a word know places: relations, windows, distances, directions; and content alone beside "
        "it. Not applicable: one look at a text, memories, bounds."
    ),
    "sentence": (
        "Here: queries that are constant, left out or made of the text itself, and several of them. Not "
        "applicable: scores that compare with a question (none is asked), windows, memories, bounds."
    ),
    "pair": ("Here: every form of co-attention, and each sentence by itself. Not applicable: one text's mechanisms."),
    "aspect": ("Here: what joins a target with its two sides. Not applicable: mechanisms without a target."),
    "story": (
        "Here: scores and alignments for one fact; hops, and what asks the next one, for more. Not applicable: "
        "places and windows (how long ago a fact was told is in its key already)."
    ),
}
ABSENT: Mapping[str, str] = {
    "task model": "is the self-attentive query, left out, behind one more layer",
    "task model with a query model": "is the additive score behind one more layer",
    "general attention module": "is what every line is built from",
    "Nadaraya-Watson regression": "is the Gaussian kernel with its width fixed",
    "single-level": "is what every line is that names no levels",
    "attention-via-attention": "weighs the letters inside words: no task here needs both",
    "hierarchical": "weighs words and sentences of documents: the study of signals has it on marked reviews",
    "hierarchical, sentences read in order": "as the other hierarchy",
    "single-representational": "is what every line is that names no representations",
    "dynamic meta-embeddings": "chooses between embeddings of a word: the table of published models has it",
    "contextualised meta-embeddings": "as the other meta-embeddings",
    "outer-product": "gives a matrix, not a vector: no model here reads one",
    "random features": "estimates that may be negative: the study has positive ones",
    "reinforced, queries and keys": "leaves out queries: here each of them is asked for an answer",
    "positional mask": "is in the study with the mask that fits the task, earlier words",
    "single-dimensional": "is what every line is that names no features",
    "feature-wise additive": "gives each feature a score of its own: feature-wise scaled dot stands for it",
    "token2token": "is directional self-attention without directions, which knows no places",
    "bilinear affinity": "is attentive pooling",
    "specialised query, average": "asks with the average of the text: a constant, which is here, says as much",
    "multi-head with a syntactic head": "learns from parsed sentences: no task here has any",
    "selective grid of Gaussians, of a picture": "reads pictures: here are texts",
    "hard monotonic, normalised energy": "is hard monotonic with another score",
    "basic query of auxiliary variables": "no task here has any",
    "attention that was trained on rationales": "the study of signals has it on marked reviews",
    "coverage, symbolic": "is what coverage-aware reads",
    "coverage by fertility": "as symbolic coverage",
    "predicted fertility": "as symbolic coverage",
    "coverage, sub-symbolic": "keeps vectors where coverage-aware has numbers",
    "multi-hop, context in the query": "is the multi-hop that mixes question and context",
}
