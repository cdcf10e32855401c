"""From what a caller sends to rows: texts, documents, pairs, and tensors in their place."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limelight.v1 import attention_pb2, model_pb2, values_pb2
from limelight_bundle.errors import BundleError, InputError, OutOfRangeError
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.rows import Row
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Image, Instance, Pair, Sentences, TensorValue, Text
from tests.bundle import small


def preprocessor(bundle: bundle_pb2.Bundle) -> Preprocessor:
    return Preprocessor.from_parts(bundle, {"words.json": small.tokenizer(), "pairs.json": small.pairs()})


def document_bundle() -> bundle_pb2.Bundle:
    """Sentences of words: at most 3 of 4."""
    bundle = small.bundle()
    tensor = bundle.description.inputs[0].tensors[0]
    bundle.description.inputs[0].kind = model_pb2.INPUT_KIND_DOCUMENT
    tensor.dimensions.insert(0, model_pb2.Dimension(name="sentence", maximum=3))
    tensor.dimensions[1].maximum = 4
    tensor.fill = 0
    split = bundle_pb2.PreprocessingStep(split_sentences=bundle_pb2.SplitSentences())
    bundle.preprocessing[0].steps.insert(0, split)
    labels = bundle.description.label_sets
    labels[0].parent = "sentences"
    kind = attention_pb2.LABEL_KIND_SENTENCES
    labels.add(name="sentences", kind=kind, input="text", tensor="ids", dimension="sentence")
    return bundle


def pair_bundle() -> bundle_pb2.Bundle:
    """Two texts side by side."""
    bundle = small.bundle()
    description = bundle.description.inputs[0]
    description.kind = model_pb2.INPUT_KIND_PAIR
    other = description.tensors.add()
    other.CopyFrom(description.tensors[0])
    other.name, other.dimensions[0].name = "other", "other_word"
    bundle.tensors.add(tensor="other", mask="other_mask")
    kind = attention_pb2.LABEL_KIND_TOKENS
    bundle.description.label_sets.add(name="others", kind=kind, input="text", tensor="other", dimension="other_word")
    bundle.preprocessing[0].steps[0].tokenize.second_tensor = "other"
    return bundle


def joined_pair_bundle(*, segments: bool = True) -> bundle_pb2.Bundle:
    """Two texts in one sequence: [CLS] first [SEP] second [SEP]."""
    bundle = small.bundle()
    description = bundle.description.inputs[0]
    description.kind = model_pb2.INPUT_KIND_PAIR
    description.tensors[0].maximum = len(small.WORDS) + 1
    description.tensors[0].dimensions[0].maximum = 7
    tokenize = bundle.preprocessing[0].steps[0].tokenize
    tokenize.special_tokens = True
    tokenize.tokenizer = "pairs.json"
    if segments:
        tokenize.segment_tensor = "segments"
        other = description.tensors.add()
        other.CopyFrom(description.tensors[0])
        other.name, other.minimum, other.maximum = "segments", 0, 1
        bundle.tensors.add(tensor="segments")
    return bundle


def tensor_bundle() -> bundle_pb2.Bundle:
    """A float tensor [frame, 2], beside the text."""
    bundle = small.bundle()
    frames = model_pb2.TensorDescription(
        name="frames",
        data_type=values_pb2.DATA_TYPE_FLOAT32,
        dimensions=[model_pb2.Dimension(name="frame", maximum=5), model_pb2.Dimension(name="band", size=2)],
    )
    bundle.description.inputs.add(name="frames", kind=model_pb2.INPUT_KIND_TENSOR, optional=True, tensors=[frames])
    return bundle


def refused(
    bundle: bundle_pb2.Bundle, instance: Instance, path: str, reason: str, kind: type[InputError] = InputError
) -> None:
    with pytest.raises(kind, match=reason) as caught:
        preprocessor(bundle).row(instance, field=("instances", 2))
    assert caught.value.field == f"instances[2].{path}"


def places(row: Row, name: str) -> list[tuple[int, int]]:
    return list(zip(row.labels[name].starts, row.labels[name].ends, strict=True))


def test_a_text() -> None:
    row = preprocessor(small.bundle()).row({"text": Text("the 😀 cat")})
    np.testing.assert_array_equal(row.tensors["ids"], [5, 10, 3])
    assert row.tensors["ids"].dtype == np.int64
    assert row.tensors["ids_mask"].tolist() == [True] * 3
    assert row.sizes == {"word": 3}
    words = row.labels["words"]
    assert (words.texts, words.ids, words.inputs) == (["the", "😀", "cat"], [5, 10, 3], ("text",))
    assert places(row, "words") == [(0, 3), (4, 5), (6, 9)]
    assert not words.special and not words.parents and not words.input_indices
    assert row.labels["one"].size == 1
    assert not row.truncated


def test_the_folder_gives_the_same_rows_as_its_parts(tmp_path: Path) -> None:
    made = Preprocessor(small.write(tmp_path)).row({"text": Text("a cat sat")})
    np.testing.assert_array_equal(
        made.tensors["ids"], preprocessor(small.bundle()).row({"text": Text("a cat sat")}).tensors["ids"]
    )


def test_a_text_over_the_limit_is_cut_only_where_that_is_allowed() -> None:
    long = {"text": Text("a a a the the the cat cat")}
    refused(small.bundle(), long, 'inputs["text"]', "has more than 6 tokens; shorten it or set truncate")
    row = preprocessor(small.bundle()).row(long, truncate=True)
    assert row.tensors["ids"].tolist() == [2, 2, 2, 5, 5, 5]
    assert row.truncated
    assert row.labels["words"].size == 6


def test_a_text_of_too_many_characters_is_refused_even_to_be_cut() -> None:
    with pytest.raises(InputError, match="has 61 characters; at most 60"):
        preprocessor(small.bundle()).row({"text": Text("a" * 61)}, truncate=True)


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_an_empty_text(text: str) -> None:
    refused(small.bundle(), {"text": Text(text)}, 'inputs["text"]', "is empty")
    refused(document_bundle(), {"text": Text(text)}, 'inputs["text"]', "is empty")


def test_a_document_is_split_and_its_words_are_placed_in_the_text() -> None:
    text = "The cat. 😀 a cat sat?  a!"
    row = preprocessor(document_bundle()).row({"text": Text(text)}, truncate=True)
    assert row.tensors["ids"].tolist() == [[1, 3, 6, 0], [10, 2, 3, 4], [2, 7, 0, 0]]
    assert row.tensors["ids_mask"].tolist() == (row.tensors["ids"] != 0).tolist()
    assert row.sizes == {"sentence": 3, "word": 4}
    words, found = row.labels["words"], row.labels["sentences"]
    assert words.texts == ["The", "cat", ".", "😀", "a", "cat", "sat", "a", "!"]
    assert [text[begin:end] for begin, end in places(row, "words")] == words.texts
    assert words.ids == [1, 3, 6, 10, 2, 3, 4, 2, 7]
    assert (words.parents, words.parent, words.inputs) == ([0, 0, 0, 1, 1, 1, 1, 2, 2], "sentences", ("text",))
    assert [text[begin:end] for begin, end in places(row, "sentences")] == ["The cat.", "😀 a cat sat?", "a!"]
    assert (found.size, found.texts, found.ids, found.inputs) == (3, (), (), ("text",))
    assert row.truncated, "one sentence has five words"


def test_words_of_sentences_that_were_sent_are_placed_in_their_sentence() -> None:
    row = preprocessor(document_bundle()).row({"text": Sentences(("the cat", "a cat"))})
    assert row.labels["words"].starts == [0, 4, 0, 2]
    assert row.labels["words"].parents == [0, 0, 1, 1]
    assert places(row, "sentences") == [(0, 7), (0, 5)]


def test_documents_over_their_limits() -> None:
    refused(document_bundle(), {"text": Text("a. a. a. a.")}, 'inputs["text"]', "has more than 3 sentences; shorten it")
    sent = {"text": Sentences(("a",) * 4)}
    refused(document_bundle(), sent, 'inputs["text"]', "has 4 sentences; at most 3 are allowed")
    row = preprocessor(document_bundle()).row({"text": Text("a. a. a. a.")}, truncate=True)
    assert row.sizes["sentence"] == row.labels["sentences"].size == 3
    assert row.truncated
    long = {"text": Sentences(("a", "a a a a a"))}
    refused(document_bundle(), long, 'inputs["text"].sentences.texts[1]', "has more than 4 tokens")
    refused(document_bundle(), {"text": Sentences(("a", ""))}, 'inputs["text"].sentences.texts[1]', "is empty")
    refused(document_bundle(), {"text": Sentences(())}, 'inputs["text"]', "is empty")


def test_a_pair() -> None:
    row = preprocessor(pair_bundle()).row({"text": Pair("the cat", "a")})
    assert row.tensors["ids"].tolist() == [5, 3]
    assert row.tensors["other"].tolist() == [2]
    assert row.tensors["other_mask"].tolist() == [True]
    assert row.sizes == {"word": 2, "other_word": 1}
    assert (row.labels["words"].inputs, row.labels["others"].inputs) == (("text.first",), ("text.second",))
    assert (row.labels["words"].texts, row.labels["others"].texts) == (["the", "cat"], ["a"])
    refused(pair_bundle(), {"text": Pair("the", " ")}, 'inputs["text"].second', "is empty")
    refused(pair_bundle(), {"text": Pair("a a a a a a a", "a")}, 'inputs["text"].first', "more than 6 tokens")


def test_a_pair_in_one_sequence() -> None:
    row = preprocessor(joined_pair_bundle()).row({"text": Pair("the cat", "😀 sat")})
    assert row.tensors["ids"].tolist() == [12, 5, 3, 13, 10, 4, 13]
    assert row.tensors["segments"].tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert row.tensors["ids_mask"].all()
    assert row.sizes == {"word": 7}
    words = row.labels["words"]
    assert words.texts == ["[CLS]", "the", "cat", "[SEP]", "😀", "sat", "[SEP]"]
    assert words.special == [True, False, False, True, False, False, True]
    assert words.inputs == ("text.first", "text.second")
    assert words.input_indices == [0, 0, 0, 0, 1, 1, 1]
    assert places(row, "words") == [(0, 0), (0, 3), (4, 7), (0, 0), (0, 1), (2, 5), (0, 0)]


def test_a_pair_in_one_sequence_is_cut_as_a_whole() -> None:
    bundle = joined_pair_bundle(segments=False)
    long = {"text": Pair("a a a a a", "the the")}
    refused(bundle, long, 'inputs["text"]', "has more than 7 tokens; shorten it or set truncate")
    row = preprocessor(bundle).row(long, truncate=True)
    assert row.tensors["ids"].tolist() == [12, 2, 2, 13, 5, 5, 13]
    assert row.truncated


def test_a_pair_in_one_sequence_that_was_sent_as_tensors() -> None:
    ids = TensorValue(np.array([12, 5, 13, 3, 13]))
    row = preprocessor(joined_pair_bundle(segments=False)).row({"ids": ids})
    words = row.labels["words"]
    assert words.texts == ["[CLS]", "the", "[SEP]", "cat", "[SEP]"]
    assert words.special == [True, False, True, False, True]
    assert (words.inputs, words.input_indices) == (("text",), ())
    segments = TensorValue(np.array([0, 0, 0, 1, 1]))
    words = preprocessor(joined_pair_bundle()).row({"ids": ids, "segments": segments}).labels["words"]
    assert (words.inputs, words.input_indices) == (("text.first", "text.second"), [0, 0, 0, 1, 1])
    other: Instance = {"ids": ids, "segments": TensorValue(np.array([0, 0]))}
    refused(joined_pair_bundle(), other, 'inputs["segments"].tensor.shape', "has 2 for word where another tensor has 5")


def test_a_text_that_holds_the_token_that_fills() -> None:
    bundle = document_bundle()
    bundle.description.inputs[0].tensors[0].fill = bundle.tensors[0].pad_value = small.WORDS.index("a")
    row = preprocessor(bundle).row({"text": Sentences(("the cat sat", "a"))})
    assert row.tensors["ids"].tolist() == [[5, 3, 4], [2, 2, 2]]
    assert row.tensors["ids_mask"].tolist() == [[True] * 3, [True, False, False]]


def test_sentences_are_counted_and_texts_measured_before_they_are_tokenised(monkeypatch: pytest.MonkeyPatch) -> None:
    made = preprocessor(document_bundle())
    monkeypatch.setattr("limelight_bundle.text.Encoder.encode", None)  # would raise a TypeError
    for sentences, reason in (
        (("a",) * 4, "has 4 sentences"),
        (("a" * 61,), "has 61 characters"),
        (("a", ""), "empty"),
    ):
        with pytest.raises(InputError, match=reason):
            made.row({"text": Sentences(sentences)})


@pytest.mark.parametrize("value", [Image(b""), Pair("a", "b"), Sentences(("a",)), TensorValue(np.zeros(2, np.int64))])
def test_a_value_of_another_kind(value: Image) -> None:
    refused(small.bundle(), {"text": value}, 'inputs["text"]', r"; expected text \(or tensors under the names 'ids'\)")


def test_names() -> None:
    refused(small.bundle(), {}, 'inputs["text"]', r"is missing; the model takes 'text' \(text\)")
    wanted = r"is not an input of the model; the model takes 'text' \(text\); did you mean 'text'\?"
    refused(small.bundle(), {"txt": Text("a")}, 'inputs["txt"]', wanted)
    both: Instance = {"text": Text("a"), "image": Image(b"")}
    refused(small.bundle(), both, 'inputs["image"]', "is not an input")
    both = {"text": Text("a"), "ids": TensorValue(np.array([2]))}
    refused(small.bundle(), both, 'inputs["ids"]', "is a tensor of the input 'text'; send one of the two")
    mask: Instance = {"ids": TensorValue(np.array([2])), "ids_mask": TensorValue(np.array([True]))}
    refused(small.bundle(), mask, 'inputs["ids_mask"]', "is not an input")


def test_tensors_in_place_of_a_text_get_their_mask_and_labels() -> None:
    row = preprocessor(small.bundle()).row({"ids": TensorValue(np.array([5, 3]))})
    assert row.tensors["ids_mask"].tolist() == [True, True]
    words = row.labels["words"]
    assert (words.texts, words.ids, words.starts, words.ends) == (["the", "cat"], [5, 3], (), ())
    assert words.inputs == ("text",)
    assert row.sizes == {"word": 2}


def test_a_ragged_tensor_in_place_of_a_document() -> None:
    ids = np.array([[5, 3, 6], [2, 0, 0]])
    row = preprocessor(document_bundle()).row({"ids": TensorValue(ids)})
    assert row.tensors["ids_mask"].tolist() == [[True, True, True], [True, False, False]]
    words = row.labels["words"]
    assert (words.texts, words.ids, words.parents) == (["the", "cat", ".", "a"], [5, 3, 6, 2], [0, 0, 0, 1])
    assert row.labels["sentences"].size == 2


I64 = np.int64


@pytest.mark.parametrize(
    ("ids", "path", "reason", "kind"),
    [
        (np.array([2], np.int32), "data_type", "is INT32; expected INT64", InputError),
        (np.array([2], np.float32), "data_type", "is FLOAT32; expected INT64", InputError),
        (np.array([[2]]), "shape", r"has 2 axes; expected \[word\], without a batch axis", InputError),
        (np.array(2), "shape", "has 0 axes", InputError),
        (np.zeros(0, I64), "shape", "has size 0 along word", InputError),
        (np.full(7, 2), "shape", "has 7 for word; at most 6", InputError),
        (np.array([2, 12]), "data", r"has 12 at \[1\]; values are from 1 to 11", OutOfRangeError),
        (np.array([-1, 2]), "data", r"has -1 at \[0\]", OutOfRangeError),
        (np.array([2**62, 2]), "data", "has 4611686018427387904", OutOfRangeError),
        (np.array([2, 0]), "data", r"has 0 at \[1\]", OutOfRangeError),
    ],
)
def test_a_tensor_of_token_ids_that_is_wrong(ids: np.ndarray, path: str, reason: str, kind: type[InputError]) -> None:
    refused(small.bundle(), {"ids": TensorValue(ids)}, f'inputs["ids"].tensor.{path}', reason, kind)


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ([[2, 3], [0, 0]], "has a row that is all padding"),
        ([[2, 0, 2], [2, 3, 2]], r"has padding \(0\) before a real value"),
        ([[2, 3], [2, 12]], r"has 12 at \[1, 1\]"),
    ],
)
def test_a_ragged_tensor_that_is_wrong(ids: list[list[int]], reason: str) -> None:
    value = TensorValue(np.array(ids))
    with pytest.raises(InputError, match=reason) as caught:
        preprocessor(document_bundle()).row({"ids": value})
    assert caught.value.field == 'inputs["ids"].tensor.data'


def test_something_else_under_the_name_of_a_tensor() -> None:
    refused(small.bundle(), {"ids": Text("a")}, 'inputs["ids"]', "must be a tensor")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_float_that_is_no_number(value: float) -> None:
    frames = TensorValue(np.array([[1, 2], [value, 3]], np.float32))
    both: Instance = {"text": Text("a"), "frames": frames}
    refused(tensor_bundle(), both, 'inputs["frames"].tensor.data', "has NaN or infinity")


def test_an_axis_of_fixed_size_and_an_input_that_may_be_left_out() -> None:
    row = preprocessor(tensor_bundle()).row({"text": Text("a"), "frames": TensorValue(np.zeros((3, 2), np.float32))})
    assert row.sizes == {"word": 1, "frame": 3, "band": 2}
    wrong: Instance = {"text": Text("a"), "frames": TensorValue(np.zeros((3, 4), np.float32))}
    refused(tensor_bundle(), wrong, 'inputs["frames"].tensor.shape', "has 4 for band, which is always 2")
    assert "frames" not in preprocessor(tensor_bundle()).row({"text": Text("a")}).tensors


@pytest.mark.parametrize(
    ("fill", "pad_value", "axes", "reason"),
    [
        (0, 1, 2, "is filled with 0, but padded with 1"),
        (0, 0, 1, "has a fill, but no rows that differ in length"),
        (None, 0, 2, "makes rows of different lengths, but the tensor 'ids' has no fill"),
    ],
)
def test_fill_and_pad_value_that_contradict(fill: int | None, pad_value: int, axes: int, reason: str) -> None:
    bundle = document_bundle()
    tensor = bundle.description.inputs[0].tensors[0]
    bundle.tensors[0].pad_value = pad_value
    tensor.ClearField("fill")
    if fill is not None:
        tensor.fill = fill
    if axes == 1:
        del tensor.dimensions[0]
    with pytest.raises(BundleError, match=reason):
        preprocessor(bundle)


def test_axes_of_one_name_have_one_size() -> None:
    bundle = tensor_bundle()
    bundle.description.inputs[1].tensors[0].dimensions[0].name = "word"
    both: Instance = {"text": Text("a cat"), "frames": TensorValue(np.zeros((3, 2), np.float32))}
    refused(bundle, both, 'inputs["frames"]', "has 3 for word where another input has 2")


def test_a_text_is_filled_up_to_the_size_of_its_tensor() -> None:
    bundle = small.bundle()
    (word,) = bundle.description.inputs[0].tensors[0].dimensions
    word.maximum, word.size = 0, small.LIMIT
    fill = bundle.preprocessing[0].steps.add(fill_tokens={"tensor": "ids", "token": 6, "text": "<filled>"}).fill_tokens
    filled = [6] * (small.LIMIT - 2)
    row = preprocessor(bundle).row({"text": Text("a cat")})
    assert row.tensors["ids"].tolist() == row.labels["words"].ids == [2, 3, *filled]
    assert (row.sizes["word"], list(row.labels["words"].texts)) == (small.LIMIT, ["a", "cat", *["<filled>"] * 4])
    assert list(row.labels["words"].special) == [False, False, True, True, True, True]
    refused(bundle, {"text": Text("a " * 7)}, 'inputs["text"]', "has more than 6 tokens")
    refused(bundle, {"ids": TensorValue(np.array([2]))}, 'inputs["ids"].tensor.shape', "1 for word, which is always 6")
    fill.token = len(small.WORDS)
    with pytest.raises(BundleError, match="fills up with the token 12, which the tensor 'ids' cannot have"):
        preprocessor(bundle)


INPUT, LABELS = "description.inputs.0", "description.label_sets.0"
STEP = "preprocessing.0.steps.0.tokenize"
SPLIT = {"split_sentences": {}}
TOKENIZE = {"tokenize": {"tokenizer": "words.json", "tensor": "ids"}}


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("preprocessing", None, "the input 'text': text has no step, but the model takes tensors"),
        (
            f"{INPUT}.kind",
            model_pb2.INPUT_KIND_IMAGE,
            "step 1, tokenize, accepts a pair or sentences or text",
        ),
        (
            f"{STEP}.tensor",
            "words",
            "outputs the tensor 'words', which the input does not have",
        ),
        (
            f"{STEP}.tokenizer",
            "../words.json",
            "the tokenizer '../words.json', which does not",
        ),
        ("preprocessing.0.input", "txt", "there is preprocessing of the input 'txt', which the model does not have"),
        (
            f"{LABELS}.dimension",
            "letter",
            "'words' refers to the axis 'letter', which its tensor does not",
        ),
        (f"{LABELS}.tensor", "other", "'words' refers to the tensor 'other', which its input does not"),
        (
            f"{INPUT}.tensors",
            {"name": "more", "data_type": 5},
            "of the input 'text' outputs its tensor 'more'",
        ),
        (
            f"{INPUT}.tensors.0.data_type",
            values_pb2.DATA_TYPE_INT32,
            "'ids', which is described with another",
        ),
        (f"{INPUT}.tensors.0.dimensions", {"name": "letter"}, "'ids' with 1 axes, which is described with"),
        (f"{STEP}.second_tensor", "ids", "has a second tensor, but gets text, not a pair"),
        ("preprocessing.0.steps", {}, "the input 'text': step 2 is unknown to this release"),
        ("steps", [SPLIT, TOKENIZE], "'ids' with 2 axes"),
        ("steps", [TOKENIZE, {"fill_tokens": {"tensor": "ids"}}], "fills up the tensor 'ids', which has no fixed size"),
        ("steps", [SPLIT], "its steps end with sentences, but the model takes tensors"),
        ("steps", [{"split_lines": {"max_characters": -1}}, TOKENIZE], "splits at a negative number of characters"),
    ],
)
def test_steps_that_do_not_fit(path: str, value: Any, reason: str) -> None:
    bundle = small.bundle()
    if path == "steps":
        del bundle.preprocessing[0].steps[:]
        bundle.preprocessing[0].steps.extend(bundle_pb2.PreprocessingStep(**each) for each in value)
    else:
        small.put(bundle, path, value)
    with pytest.raises(BundleError, match=reason):
        preprocessor(bundle)
