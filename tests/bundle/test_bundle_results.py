"""Results of a description: which entries of a label set they are of."""

from collections.abc import Mapping

import pytest

from bundle.checks.description import check_description
from bundle.checks.features import used_features
from bundle.errors import BundleError
from bundle.v1 import bundle_pb2
from limelight.v1 import model_pb2, values_pb2
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


def test_a_selection_of_entries_is_a_feature_that_a_reader_must_know() -> None:
    for bundle, feature in (
        (tagger(words_stated=True, selection={"words": True}), "selected-entries"),
        (tagger(words_stated=False, selection={"token_id": 0}), "selected-entries"),
        (spans("second"), "span-parts"),
        (spans(none=True), "no-span"),
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
        (spans("third"), "is of the part 'third'; a pair has first and second"),
    ],
)
def test_a_selection_that_cannot_be_made_is_refused(bundle: bundle_pb2.Bundle, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        check_description(bundle)
