"""Python values on the wire."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

import limelight
from limelight.base.png import encode_png
from limelight.base.tensors import to_array, to_tensor
from limelight.base.values import to_instance, to_value
from tests.client.served import TEXT, echo, said

WAV = b"RIFF\x24\x00\x00\x00WAVEfmt "


def test_texts_become_text_document_and_pair():
    assert to_value("one").text == "one"
    assert list(to_value(["one", "two"]).document.sentences.texts) == ["one", "two"]
    assert (to_value(("one", "two")).pair.first, to_value(("one", "two")).pair.second) == ("one", "two")
    assert to_value(limelight.Document("one. two")).document.text == "one. two"
    assert list(to_value(limelight.Document(("a", "b"))).document.sentences.texts) == ["a", "b"]
    assert to_value(limelight.Pair("a", "b")).pair.second == "b"


def test_bytes_are_an_image_unless_they_begin_as_a_wav_file_does():
    assert to_value(b"\x89PNG").image == b"\x89PNG"
    assert to_value(WAV).audio.wav == WAV


def test_a_path_is_read_by_its_suffix(tmp_path: Path):
    (tmp_path / "a.PNG").write_bytes(b"picture")
    (tmp_path / "a.wav").write_bytes(WAV)
    (tmp_path / "a.txt").write_text("naïve", encoding="utf-8")
    np.save(tmp_path / "a.npy", np.array([1, 2], np.int32))
    assert to_value(tmp_path / "a.PNG").image == b"picture"
    assert to_value(tmp_path / "a.wav").audio.wav == WAV
    assert to_value(tmp_path / "a.txt").text == "naïve"
    assert to_array(to_value(tmp_path / "a.npy").tensor).tolist() == [1, 2]
    with pytest.raises(ValueError, match="suffix"):
        to_value(tmp_path / "a.bin")
    with pytest.raises(FileNotFoundError):
        to_value(tmp_path / "missing.png")


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32", "int64", "uint8", "bool", ">f4", ">i8"])
def test_arrays_travel_little_endian_and_come_back(dtype: str):
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    tensor = to_value(array).tensor
    assert list(tensor.shape) == [2, 3]
    assert tensor.data == array.astype(array.dtype.newbyteorder("<")).tobytes()
    back = to_array(tensor)
    assert back.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(back, array)


def test_a_transposed_array_is_sent_row_by_row():
    array = np.arange(6, dtype=np.int32).reshape(2, 3).T
    np.testing.assert_array_equal(to_array(to_tensor(array)), [[0, 3], [1, 4], [2, 5]])


def test_a_graph_holds_its_nodes_edges_and_names():
    graph = to_value(limelight.Graph(np.eye(2, dtype=np.float32), [[0, 1], [1, 0]], node_names=["a", "b"])).graph
    assert to_array(graph.nodes).tolist() == [[1, 0], [0, 1]]
    assert to_array(graph.edges).dtype == np.int64
    assert not graph.HasField("edge_features")
    assert list(graph.node_names) == ["a", "b"]


def test_samples_need_their_rate():
    audio = to_value(limelight.Audio([0.0, 0.5], sample_rate=8000)).audio
    assert audio.samples.sample_rate == 8000
    assert to_array(audio.samples.samples).tolist() == [0.0, 0.5]
    with pytest.raises(ValueError, match="sample_rate"):
        to_value(limelight.Audio([0.0]))


@pytest.mark.parametrize("value", [1, 1.5, None, [1, 2], ("a",), (1, 2), [], {"a": 1}, np.array(["text"])])
def test_what_no_input_can_be_is_a_type_error_that_names_the_input(value: object):
    with pytest.raises(TypeError, match="'text'"):
        to_instance({"text": value})  # type: ignore[dict-item]


def test_an_empty_list_is_told_that_it_is_empty():
    with pytest.raises(TypeError, match="the list is empty; a document has a sentence at least"):
        to_instance({"text": []})


def test_a_value_without_a_name_is_refused_by_models_of_several_inputs_or_of_none_yet(client: limelight.Client):
    with pytest.raises(limelight.InputError, match=r"takes 'image' .*, 'question' .*: give values by name"):
        client.predict("asked", "text")
    with pytest.raises(limelight.FailedPrecondition, match="'coming' is not ready, so its inputs are unknown: loading"):
        client.predict("coming", "text")
    assert client.predict("echo", TEXT).text == said(echo())  # its other input is optional


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 1), (3, 5, 2), (3, 5, 3), (3, 5, 4)])
def test_pixels_become_a_png_that_an_image_library_reads(shape: tuple[int, ...]):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    picture = Pillow.open(io.BytesIO(to_value(limelight.Image(pixels)).image))
    assert picture.format == "PNG"
    np.testing.assert_array_equal(np.asarray(picture), pixels.squeeze())


def test_pixels_of_another_type_or_shape_are_refused():
    with pytest.raises(TypeError, match="uint8"):
        encode_png(np.zeros((2, 2)))
    for shape in ((2,), (2, 2, 5), (0, 2)):
        with pytest.raises(ValueError, match="pixels"):
            encode_png(np.zeros(shape, np.uint8))
