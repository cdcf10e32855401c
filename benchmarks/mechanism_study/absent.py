"""Mechanisms of the registry that enter no task of the study, and why."""

from collections.abc import Mapping

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
    "multi-hop, context in the query": "is the multi-hop that mixes question and context",
}
