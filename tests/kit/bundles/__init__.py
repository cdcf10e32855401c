"""Small bundles with real ONNX graphs, and NumPy as the oracle that wrote their samples.

Weights are drawn from a fixed seed. The graphs are written in ONNX's own text syntax.
"""

from tests.kit.bundles.of_documents import padded, paper, paper_answer
from tests.kit.bundles.of_graphs import drawn_graph, web, web_answer
from tests.kit.bundles.of_noise import noisy
from tests.kit.bundles.of_pictures import QUESTION, glance, glance_answer, picture, png
from tests.kit.bundles.of_steps import ECHO_EXAMPLES, echo, echo_answer, echo_maps, log_probabilities
from tests.kit.bundles.of_text import TINY_EXAMPLES, tiny, tiny_answer, tiny_layers
from tests.kit.bundles.parts import (
    BEGIN,
    END,
    LABELS,
    MOST_NEW_TOKENS,
    MOST_TOKENS,
    PAD,
    TARGETS,
    VOCABULARY,
    WIDTH,
    WORDS,
    ids_of,
    row,
    softmax,
)

ALL = (tiny, paper, picture, echo, noisy, web)
__all__ = [
    "ALL", "BEGIN", "ECHO_EXAMPLES", "END", "LABELS", "MOST_NEW_TOKENS", "MOST_TOKENS", "PAD", "QUESTION", "TARGETS",
    "TINY_EXAMPLES", "VOCABULARY", "WIDTH", "WORDS", "drawn_graph", "echo", "echo_answer", "echo_maps", "glance",
    "glance_answer", "ids_of", "log_probabilities", "noisy", "padded", "paper", "paper_answer",
    "picture", "png", "row", "softmax", "tiny", "tiny_answer", "tiny_layers", "web",
    "web_answer",
]  # fmt: skip
