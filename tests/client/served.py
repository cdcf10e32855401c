"""The server of small models that clients are tested with, and its answers as NumPy computes and people read them."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from limelight_bundle.samples import Sample
from limelight_bundle.values import Array
from limelight_service.repository.catalogue import State, VersionStatus
from tests.kit import bundles
from tests.kit.bundles import LABELS, softmax
from tests.kit.forwarder import Forwarder
from tests.kit.serving import eventually, serving

TEXT = "the cat sat"
SENTENCES = ("the cat dog .", "sat on mat far")
DOCUMENT = " ".join(SENTENCES)
PICTURE = (np.arange(64, dtype=np.uint8) * 4).reshape(8, 8)


@contextmanager
def small_models(repository: Path) -> Iterator[Forwarder]:
    """Serve small models: `tiny` classifies texts, `paper` documents (edges), `glance` images (a grid), `asked` images
    with a question, `pair` two; `echo` generates, `report` has several results. `broken` is refused; `coming` loads.
    """
    bundles.tiny(repository, max_tokens=1024, max_characters=50_000)
    bundles.paper(repository, max_sentences=1000)
    bundles.echo(repository, written_target=True)
    bundles.glance(repository)
    bundles.glance(repository, "asked", asked=True)
    bundles.tiny(repository, "pair", max_tokens=1024, pair=True)
    bundles.tiny(repository, "report", max_tokens=1024, max_characters=50_000, every_result=True)
    graph = bundles.tiny(repository, "broken").path / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:-1])
    with serving(repository) as running, Forwarder(running.server.address) as forwarder:
        catalogue = running.server.models.catalogue  # type: ignore[union-attr]
        running.on_loop(lambda: catalogue.keep(VersionStatus("coming", 1, State.LOADING)))
        assert eventually(lambda: catalogue.has("coming"))
        yield forwarder


def tiny(text: str = TEXT) -> Sample:
    """The answer of `tiny`."""
    return bundles.tiny_answer(bundles.ids_of(text))


def paper() -> Sample:
    """The answer of `paper` to DOCUMENT."""
    return bundles.paper_answer(bundles.padded([bundles.ids_of(each).tolist() for each in SENTENCES]))


def echo(text: str = TEXT) -> Sample:
    """The answer of `echo`."""
    return bundles.echo_answer(bundles.ids_of(text))


def steps(answer: Sample) -> tuple[str, ...]:
    """The words that `echo` puts out, with the token that ends them."""
    return tuple(bundles.WORDS[token] for token in answer.token_ids)


def said(answer: Sample) -> str:
    """The text that `echo` puts out."""
    return " ".join(each for each in steps(answer) if each != "[END]")


def probability(answer: Sample) -> float:
    """The probability of the tokens that `echo` puts out."""
    chances = softmax(answer.outputs["scores"].astype(np.float64))
    return float(np.prod(chances[np.arange(len(answer.token_ids)), answer.token_ids]))


def looks(layer: int = 0) -> Array:
    """The weights [entry] that the class token of `glance` gives to PICTURE, averaged over heads."""
    return np.asarray(bundles.glance_answer(PICTURE).maps[f"encoder.{layer}.self"].weights.mean(axis=0)[0])


def nested() -> Array:
    """The weight of each word of DOCUMENT in its sentence, times that of the sentence."""
    maps = paper().maps
    return np.asarray(maps["word"].weights[0] * maps["sentence"].weights[0, 0].repeat(4))


def strength(weight: float, equal: float) -> float:
    """The strength of a weight's colour where no weight is above four times as much as equal ones."""
    return max(0.0, (weight - equal) / (min(1.0, 4 * equal) - equal))


def ranked(logits: Array) -> list[tuple[str, float]]:
    """The classes by their probability."""
    found = zip(LABELS, softmax(logits.astype(np.float64)).tolist(), strict=True)
    return sorted(found, key=lambda each: -each[1])


def label(answer: Sample) -> str:
    """The most probable class."""
    return ranked(answer.outputs["logits"])[0][0]


def headline(answer: Sample) -> str:
    """The classes as they stand above maps."""
    return ", ".join(f"{label} {probability:.2f}" for label, probability in ranked(answer.outputs["logits"]))


def lines(answer: Sample) -> str:
    """The classes as `limelight predict` prints them."""
    return "".join(f"{probability:.4f}  {label}\n" for label, probability in ranked(answer.outputs["logits"]))


def words(texts: Iterable[str], weights: Array) -> str:
    """Words with weights as a pipe gets them; NaN is no weight."""
    shown = zip(texts, weights.tolist(), strict=True)
    return " ".join(f"{text}({'-' if math.isnan(weight) else f'{weight:.4f}'})" for text, weight in shown)
