"""Results of a description: the outputs and the entries of label sets that they are of."""

from collections.abc import Mapping

import pytest

from limelight.v1 import attention_pb2, model_pb2, values_pb2
from limelight_bundle.checks.description import check_description
from limelight_bundle.checks.features import used_features
from limelight_bundle.errors import BundleError
from limelight_bundle.v1 import bundle_pb2
from tests.bundle import small


def tagger(*, words_stated: bool, selection: Mapping[str, object]) -> bundle_pb2.Bundle:
    """Make a bundle whose result has classes of a selection of tokens."""
    bundle = small.bundle()
    axes = [model_pb2.Dimension(name="word"), model_pb2.Dimension(name="class", size=1)]
    bundle.description.outputs.add(name="tags", data_type=values_pb2.DATA_TYPE_FLOAT32, dimensions=axes)
    bundle.description.label_sets[0].words = words_stated
    classes = model_pb2.ClassesDescription(output="tags", labels=["a"], label_set="words")
    for name, value in selection.items():
        setattr(classes, name, value)
    bundle.description.results.add(name="tags", classes=classes)
    return bundle


def pointer(axis: str = "word", **changes: object) -> bundle_pb2.Bundle:
    """Make a bundle whose result has the words as classes, of each word."""
    bundle = small.bundle()
    axes = [model_pb2.Dimension(name="word"), model_pb2.Dimension(name=axis)]
    bundle.description.outputs.add(name="heads", data_type=values_pb2.DATA_TYPE_FLOAT32, dimensions=axes)
    fields = {"output": "heads", "label_set": "words", "class_label_set": "words", **changes}
    bundle.description.results.add(name="heads", classes=model_pb2.ClassesDescription(**fields))  # type: ignore[arg-type]
    return bundle


def spans(part: str = "", *, none: bool = False) -> bundle_pb2.Bundle:
    """Make a bundle whose result is of spans."""
    bundle = small.bundle()
    bundle.description.results.add(
        name="spans",
        spans=model_pb2.SpansDescription(
            start_output="echo", end_output="echo", label_set="words", part=part, first_token_is_none=none
        ),
    )
    return bundle


def detector(
    *, labels: int = 2, queries: int = 3, boxes: int = 4, grid: str = "cells", threshold: float = 0.5
) -> bundle_pb2.Bundle:
    """Make a bundle whose result is of boxes."""
    bundle = small.bundle()
    for name, sizes in {"scores": (3, 3), "boxes": (3, boxes)}.items():
        axes = [model_pb2.Dimension(size=size) for size in sizes]
        bundle.description.outputs.add(name=name, data_type=values_pb2.DATA_TYPE_FLOAT32, dimensions=axes)
    names = [f"query {number}" for number in range(queries)]
    bundle.description.label_sets.add(name="queries", kind=attention_pb2.LABEL_KIND_LATENTS, names=names)
    cells = attention_pb2.Grid(rows=2, columns=2)
    bundle.description.label_sets.add(name="cells", kind=attention_pb2.LABEL_KIND_GRID, input="text", grid=cells)
    described = model_pb2.BoxesDescription(
        scores_output="scores", boxes_output="boxes", labels=["a", "b", "c"][:labels], label_set="queries", grid=grid,
        threshold=threshold,
    )  # fmt: skip
    bundle.description.results.add(name="objects", boxes=described)
    return bundle


def test_a_selection_of_entries_is_a_feature_that_a_reader_must_know() -> None:
    for bundle, feature in (
        (tagger(words_stated=True, selection={"words": True}), "selected-entries"),
        (tagger(words_stated=False, selection={"token_id": 0}), "selected-entries"),
        (spans("second"), "span-parts"),
        (spans(none=True), "no-span"),
        (detector(), "boxes"),
        (pointer(), "pointers"),
        (pointer(distinct=True), "pointers"),
    ):
        check_description(bundle)
        assert feature in used_features(bundle)
    for bundle in (tagger(words_stated=True, selection={}), spans()):
        check_description(bundle)
        assert not {"selected-entries", "span-parts", "no-span"} & set(used_features(bundle))


@pytest.mark.parametrize(
    ("bundle", "message"),
    [
        (tagger(words_stated=False, selection={"words": True}), "'words', which does not state the words of tokens"),
        (tagger(words_stated=True, selection={"words": True, "token_id": 3}), "of words and of tokens with one id"),
        (pointer("other"), "points at 'words', which the last axis of 'heads' does not have"),
        (pointer(labels=["a"]), "has labels, though its classes are the entries of 'words'"),
        (pointer(class_label_set="none"), "refers to the label set 'none', which is not described"),
        (spans("third"), "is of the part 'third'; a pair has first and second"),
        (detector(labels=0), "'objects' names no class"),
        (detector(labels=3), "has 4 classes with that of no object, but the output 'scores' has size 3"),
        (detector(boxes=5), "has 4 numbers for each box, but the output 'boxes' has size 5"),
        (detector(queries=2), "refers to 'queries', which does not count 'scores'"),
        (detector(grid="words"), "refers to 'words', which is not a grid"),
        (detector(grid="nothing"), "refers to the label set 'nothing', which is not described"),
        (detector(threshold=1.5), "has the threshold 1.5; it is from 0 to 1"),
        (detector(threshold=float("nan")), "has the threshold nan; it is from 0 to 1"),
    ],
)
def test_a_result_that_cannot_be_made_is_refused(bundle: bundle_pb2.Bundle, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        check_description(bundle)
