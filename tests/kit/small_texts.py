"""A made-up vocabulary for small task models: no data set is needed to build, train or serve them."""

import numpy as np

from limelight_bundle.values import Instance, Pair, TensorValue, Text
from limelight_models.catalogue.testbed.text import Texts
from limelight_models.data import tokenizers
from limelight_models.data.beside import tree_distances
from limelight_models.data.images import png

WORDS = "the a cat dog bird sat ran flew on over far away quickly mat tree house and not very . ".split()


def texts() -> Texts:
    """Three classes over two dozen words."""
    tokenizer = tokenizers.words([" ".join(WORDS)], vocabulary=len(WORDS) + 2)
    return Texts(tokenizer=tokenizer, labels=("calm", "lively", "neither"), d=16)


SENTENCES = ("the cat sat on the mat and a bird flew over the house very quickly .", "dog", "a dog ran far away")
HEADS = (  # of each word of the sentences
    (2, 3, 0, 6, 6, 3, 3, 9, 10, 3, 13, 13, 10, 15, 10, 3),
    (0,),
    (2, 3, 0, 5, 3),
)
INSTANCES: dict[str, tuple[Instance, ...]] = {
    "sentence": tuple({"text": Text(each)} for each in SENTENCES),
    "pair": (
        {"pair": Pair(SENTENCES[0], SENTENCES[2])},
        {"pair": Pair("bird", SENTENCES[0])},
        {"pair": Pair(SENTENCES[2], "not far")},
    ),
    "distances": tuple(
        {"text": Text(each), "distances": TensorValue(tree_distances(heads))}
        for each, heads in zip(SENTENCES, HEADS, strict=True)
    ),
    "variables": tuple(
        {"text": Text(each), "variables": TensorValue(np.array([place, 1, -place], np.float32))}
        for place, each in enumerate(SENTENCES)
    ),
    "picture": tuple(
        {"image": png(np.random.default_rng(seed).integers(0, 256, (24, 24 + 8 * seed), np.uint8))} for seed in range(3)
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
