"""A made-up vocabulary for small task models: no data set is needed to build, train or serve them."""

from bundle.values import Instance, Pair, Text
from models.data import tokenizers
from models.testbed.text import Texts

WORDS = "the a cat dog bird sat ran flew on over far away quickly mat tree house and not very . ".split()


def texts() -> Texts:
    """Three classes over two dozen words."""
    tokenizer = tokenizers.words([" ".join(WORDS)], vocabulary=len(WORDS) + 2)
    return Texts(tokenizer=tokenizer, labels=("calm", "lively", "neither"), d=16)


SENTENCES = ("the cat sat on the mat and a bird flew over the house very quickly .", "dog", "a dog ran far away")
INSTANCES: dict[str, tuple[Instance, ...]] = {
    "sentence": tuple({"text": Text(each)} for each in SENTENCES),
    "pair": (
        {"pair": Pair(SENTENCES[0], SENTENCES[2])},
        {"pair": Pair("bird", SENTENCES[0])},
        {"pair": Pair(SENTENCES[2], "not far")},
    ),
    "aspect": (
        {"left": Text("the"), "target": Text("very quickly"), "right": Text("ran away over the mat")},
        {"left": Text("the cat sat on a"), "target": Text("mat"), "right": Text(".")},
        {"left": Text("."), "target": Text("dog"), "right": Text("sat")},
    ),
    "document": (
        {"document": Text("The cat sat. A dog ran far away over the mat. Not very quickly.")},
        {"document": Text("Bird.")},
        {"document": Text("A bird flew over the house. The dog sat.")},
    ),
}
