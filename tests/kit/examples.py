"""A few small examples of every kind of data that published models learn from, and instances that resemble them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice

import numpy as np
from hypothesis import strategies as st

from limelight.v1 import model_pb2
from limelight_bundle.values import Audio, Graph, Image, Instance, Pair, Sentences, TensorValue, Text, Value
from limelight_models.data import folder, images, passages, rows, sounds, tokenizers
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.folder import Kind
from limelight_models.data.gold import Box, Gold, Span

TEXTS = (
    "The cat sat on the mat, and a bird flew over the house.",
    "It rains all day long. We stay at home!",
    "A dog ran far away.",
)
SOURCES = ("my cat sat", "birds fly low", "we go home")  # of few characters, each of which can be a token
TARGETS = ("bird flew", "cats play", "no home")
LABELS = ("a", "b", "c")
CELL = 2  # pixels of a side of a cell that has a class
FEATURES = 5  # of a node of a graph
SIZE, _FILM = (8, 12), (12, 36)  # rows and columns of a picture, and of one that can be a film of three frames
GRID = (SIZE[0] // CELL, SIZE[1] // CELL)
_FRAME = (Gold((Box("image", 0, 0, 4, 4),)),)
RATE = 8000  # samples a second of a recording
_WORDS = 8  # of a drawn text, at most


def picture(seed: int, size: tuple[int, int] = SIZE, scale: int = 1) -> Image:
    """A picture of random pixels. scale: how many times as large as it is as a rule."""
    rows_, columns = (scale * side for side in size)
    return images.png(np.random.default_rng(seed).integers(0, 256, (rows_, columns), np.uint8))


def graph(nodes: int, edges: Sequence[tuple[int, int]]) -> Graph:
    """A graph with names and random features."""
    features = np.random.default_rng(nodes).random((nodes, FEATURES), np.float32)
    names = tuple(f"node {number}" for number in range(nodes))
    return Graph(features, np.array(edges, np.int64).reshape(-1, 2).T.copy(), None, names)


def labelled(*instances: Instance, gold: Sequence[Gold] = ()) -> list[Example]:
    """Examples of the classes in turn."""
    return [Example(each, label, gold=tuple(gold)) for each, label in zip(instances, cycle(LABELS), strict=False)]


def tags(count: int) -> tuple[str, ...]:
    """A class for each part of something; `ground` is what is nothing."""
    return tuple(islice(cycle(("ground", *LABELS)), count))


def of_texts(scale: int) -> list[Example]:
    return labelled(*({"text": Text(each)} for each in TEXTS))


def of_several(scale: int) -> list[Example]:
    several = (("a", "b"), ("c",), ("b", "c"))
    return [Example({"text": Text(each)}, labels=some) for each, some in zip(TEXTS, several, strict=True)]


def of_documents(scale: int) -> list[Example]:
    return labelled(*({"document": Text(each)} for each in TEXTS), gold=[Gold((Span("document", 0, 8),))])


def of_pairs(scale: int) -> list[Example]:
    return [Example({"text": Text(a), "target": Text(b)}) for a, b in zip(SOURCES, TARGETS, strict=True)]


def of_text_pairs(scale: int) -> list[Example]:
    return labelled(*({"pair": Pair(a, b)} for a, b in zip(TEXTS, reversed(TEXTS), strict=True)))


def of_stories(scale: int) -> list[Example]:
    """The facts of a text are its sentences; the first answers the question."""
    told = (
        Sentences(tuple(each.split(". ")))
        for each in ("A cat sat. It rains", "A dog ran", "It rains. A dog ran. We go")
    )
    asked = [{"document": facts, "question": Text(text)} for facts, text in zip(told, SOURCES, strict=True)]
    return labelled(*asked, gold=[Gold((Span("document", 0, 5, sentence=0),))])


def of_passages(scale: int) -> list[Example]:
    return [
        passages.asked(told, question, [(answer, told.index(answer))])
        for question, told, answer in zip(SOURCES, TEXTS, ("The cat", "all day long", "A dog"), strict=True)
    ]


def of_aspects(scale: int) -> list[Example]:
    parts = (
        ("The cat sat on the mat,", "and a bird", "flew over the house."),
        ("It rains all day long.", "We", "stay at home!"),
        (".", "A dog", "ran far away."),
    )
    return labelled(
        *({"left": Text(left), "target": Text(target), "right": Text(right)} for left, target, right in parts)
    )


def of_captions(scale: int) -> list[Example]:
    gold = (Gold(_FRAME[0].keys, of=Span("target", 0, 3)),)
    return [
        Example({"image": picture(seed, scale=scale), "target": Text(text)}, gold=gold)
        for seed, text in enumerate(TARGETS)
    ]


def sound(seed: int, length: int) -> Audio:
    """A recording of noise."""
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, length)
    return sounds.wav(noise.astype(np.float32), RATE)


def of_recordings(scale: int) -> list[Example]:
    recorded = (sound(seed, length) for seed, length in enumerate((900, 300, 620)))
    return [Example({"audio": audio, "target": Text(text)}) for audio, text in zip(recorded, TARGETS, strict=True)]


def of_questions(scale: int) -> list[Example]:
    pictures = (picture(seed, _FILM, scale) for seed in range(len(TEXTS)))
    asked = [{"image": image, "question": Text(text)} for image, text in zip(pictures, TEXTS, strict=True)]
    return labelled(*asked, gold=_FRAME)


def of_masks(scale: int) -> list[Example]:
    cells = scale**2 * GRID[0] * GRID[1]
    return [Example({"image": picture(seed, scale=scale)}, labels=tags(cells)) for seed in range(2)]


def of_tagged(scale: int) -> list[Example]:
    sentences = (tuple(text.split()) for text in TEXTS)
    return [Example({"document": Sentences(words)}, labels=tags(len(words))) for words in sentences]


def of_points(scale: int) -> list[Example]:
    made = ([[0.1, 0.2], [0.9, 0.4], [0.3, 0.8]], [[0.5, 0.5]], [[0.2, 0.7], [0.6, 0.1], [0.4, 0.4], [0.8, 0.9]])
    orders = ("012", "0", "130")
    return [
        Example({"points": TensorValue(np.array(points, np.float32))}, labels=tuple(order))
        for points, order in zip(made, orders, strict=True)
    ]


def of_images(scale: int) -> list[Example]:
    return labelled(*({"image": picture(seed, scale=scale)} for seed in range(3)), gold=_FRAME)


def of_drawings(scale: int) -> list[Example]:
    return [
        Example({"class": Text(label)}, label, picture=picture(seed, scale=scale))
        for seed, label in enumerate(("cat", "grey cat", "dog"))
    ]


def of_graphs(scale: int) -> list[Example]:
    made = (graph(3, [(0, 1), (2, 1)]), graph(1, []), graph(4, [(0, 1), (1, 2), (2, 0)]))
    return [Example({"graph": each}, labels=tags(len(each.nodes))) for each in made]


def of_series(scale: int) -> list[Example]:
    """Two steps are to be forecast."""
    return [replace(each, labels=(), numbers=np.full((len(each.labels), 2), 0.5, np.float32)) for each in of_graphs(1)]


EXAMPLES: Mapping[Kind, Callable[[int], list[Example]]] = {
    rows.TEXTS: of_texts,
    rows.DOCUMENTS: of_documents,
    rows.PAIRS: of_pairs,
    rows.TEXT_PAIRS: of_text_pairs,
    rows.ASPECTS: of_aspects,
    rows.ASPECT_QUESTIONS: of_text_pairs,
    rows.CAPTIONS: of_captions,
    rows.RECORDINGS: of_recordings,
    rows.QUESTIONS: of_questions,
    rows.MASKS: of_masks,
    rows.TAGGED: of_tagged,
    rows.SEVERAL: of_several,
    rows.POINTS: of_points,
    folder.IMAGES: of_images,
    folder.DRAWINGS: of_drawings,
    folder.GRAPHS: of_graphs,
    folder.SERIES: of_series,
    folder.TRANSFER: of_documents,
    folder.STORIES: of_stories,
    folder.PASSAGES: of_passages,
}


def dataset(kind: Kind, scale: int = 1) -> Dataset:
    """The examples of a kind as every part of a data set; of two domains, those of the second without their labels.

    scale: how many times as large as usual pictures are.
    """
    made = tuple(EXAMPLES[kind](scale))
    other = tuple(Example(each.instance) for each in made) if kind == folder.TRANSFER else ()
    return Dataset(name="none", licence="CC0-1.0", summary="", train=made + other, dev=made, test=made)


def resembling(inputs: Sequence[model_pb2.InputDescription], made: Sequence[Example]) -> st.SearchStrategy[Instance]:
    """Instances with the inputs of examples: the same words in other places, other pixels, other graphs."""
    drawn = {each.name: _like(each, [example.instance[each.name] for example in made]) for each in inputs}
    found: st.SearchStrategy[Instance] = st.fixed_dictionaries(drawn)
    return found


def _like(described: model_pb2.InputDescription, values: Sequence[Value]) -> st.SearchStrategy[Value]:
    known = " ".join(tokenizers.texts_of(values)).split() or ["none"]
    words = st.lists(st.sampled_from(known), min_size=1, max_size=_WORDS)
    sentences = words.map(" ".join)
    match values[0]:
        case Text() if described.kind == model_pb2.INPUT_KIND_DOCUMENT:
            return st.lists(sentences, min_size=1, max_size=4).map(lambda each: Text(".\n".join(each) + "."))
        case Text() if described.optional:  # it forces what is put out
            return st.sampled_from(values)
        case Text():
            return sentences.map(Text)
        case Sentences():
            return st.one_of(words.map(lambda each: Sentences(tuple(each))), sentences.map(Text))
        case Pair():
            return st.builds(Pair, sentences, sentences)
        case Image() as image:
            rows_, columns = images.read(image).shape
            return st.integers(0, 1000).map(lambda seed: picture(seed, (rows_, columns)))
        case Audio():
            return st.builds(sound, st.integers(0, 1000), st.integers(1, 900))
        case Graph():
            return graphs()
        case TensorValue():  # points
            point = st.tuples(*[st.floats(0, 1, width=32)] * values[0].array.shape[1])
            return st.lists(point, min_size=1, max_size=7).map(lambda each: TensorValue(np.array(each, np.float32)))
    raise TypeError(f"no model here takes a {type(values[0]).__name__}")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """One node or several; edges in one direction, both, or none; loops."""
    nodes = draw(st.integers(1, 7))
    node = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=14, unique=True))
    made = graph(nodes, edges)
    features = np.random.default_rng(draw(st.integers(0, 1000))).random(made.nodes.shape, np.float32)
    return Graph(features, made.edges, None, made.names)
