"""Plain formats, and what is said of files that are wrong."""

import gzip
import json
import struct
from pathlib import Path

import numpy as np
import pytest

from limelight_bundle.preprocess.images import decode_image
from limelight_bundle.values import Image, Sentences, Text
from limelight_models.data import folder, idx, row_files, rows
from limelight_models.data.dataset import DataError


def write(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("header", ["", "en\tfr\n", "source\ttarget\n"])
def test_tsv_of_pairs(tmp_path: Path, header: str) -> None:
    path = write(tmp_path / "a.tsv", f"{header}Go!\tVa !\n")
    (read,) = row_files.read(path, rows.PAIRS)
    assert read.instance == {"text": Text("Go!"), "target": Text("Va !")}


def test_json_lines(tmp_path: Path) -> None:
    lines = [
        {"label": 1, "sentences": ["One.", " ", "Two."]},
        {"label": "no", "text": "One. Two."},
        {"label": "no", "document": "Three.", "id": 5},
    ]
    path = write(tmp_path / "a.jsonl.gz", "\n".join(map(json.dumps, lines)))
    found = [(each.label, each.instance["document"]) for each in row_files.read(path, rows.DOCUMENTS)]
    assert found == [("1", Sentences(("One.", "Two."))), ("no", Text("One. Two.")), ("no", Text("Three."))]
    path = write(tmp_path / "b.jsonl", '{"source": "a", "target": "b"}')
    assert row_files.read(path, rows.PAIRS)[0].instance == {"text": Text("a"), "target": Text("b")}


def test_words_with_tags(tmp_path: Path) -> None:
    lines = "-DOCSTART- -X- O\n\nIn\tO\nNew\tB-place\r\nYork NNP I-place\n\n\n#go\tO"
    path = write(tmp_path / "a.conll.gz", lines)
    wanted = [(("In", "New", "York"), ("O", "B-place", "I-place")), (("#go",), ("O",))]
    found = [(each.instance["document"].texts, each.labels) for each in row_files.read(path, rows.TAGGED)]  # type: ignore[union-attr]
    assert found == wanted
    path = write(tmp_path / "b.jsonl", json.dumps({"words": ["a", "b"], "tags": ["O", "B-c"]}))
    assert row_files.read(path, rows.TAGGED)[0].labels == ("O", "B-c")
    for part in ("train", "test"):
        write(tmp_path / f"{part}.conll", "a\tO\n\n" * 10)
    assert len(folder.load(tmp_path, rows.TAGGED).test) == 10
    with pytest.raises(DataError, match="holds words with tags, not texts"):
        row_files.read(tmp_path / "test.conll", rows.TEXTS)


@pytest.mark.parametrize(
    ("name", "kind", "text", "message"),
    [
        ("a.tsv", rows.DOCUMENTS, "good\tfine\nbad", "line 2: has 1 field; label<TAB>text is wanted"),
        ("a.tsv", rows.PAIRS, "a\tb\n\na\tb\tc", "line 3: has 3 fields; source<TAB>target is wanted"),
        ("a.tsv", rows.DOCUMENTS, "good\t ", "line 1: has an empty text"),
        ("a.tsv", rows.DOCUMENTS, "\tfine", "line 1: has an empty label"),
        ("a.tsv", rows.PAIRS, "a\t ", "line 1: has an empty source or target"),
        ("a.conll", rows.TAGGED, "a\tO\nb", "line 2: is no word and its tag"),
        ("a.jsonl", rows.TAGGED, '{"words": ["a"], "tags": []}', 'line 1: has no "tags" that are a list'),
        ("a.jsonl", rows.TAGGED, '{"words": ["a"], "tags": ["O", "O"]}', "line 1: has 1 words and 2 tags"),
        ("a.jsonl", rows.POINTS, '{"points": [[1], [2, 3]], "order": [0]}', '"points" are no rows of as many numbers'),
        ("a.jsonl", rows.POINTS, '{"points": [[1], [2]], "order": [2]}', '"order" is no list of numbers from 0 to 1'),
        ("a.jsonl", rows.POINTS, '{"points": [[1], [2]], "order": [1, 1]}', 'line 1: "order" has a point twice'),
        ("a.tsv", rows.RECORDINGS, "no.wav\tone", "line 1: the recording 'no.wav' is no file below the folder"),
        ("a.tsv", rows.RECORDINGS, "../a.wav\tone", "line 1: the recording '../a.wav' is no file below"),
        ("a.tsv", rows.RECORDINGS, "a.tsv\tone", "line 1: the recording 'a.tsv' is not a WAV file"),
        ("a.jsonl", rows.DOCUMENTS, "{", "line 1: is not JSON"),
        ("a.jsonl", rows.DOCUMENTS, "[1]", "line 1: is not a JSON object"),
        ("a.jsonl", rows.DOCUMENTS, '{"text": "a"}', 'line 1: has no "label"'),
        ("a.jsonl", rows.DOCUMENTS, '{"label": 1}', 'line 1: has no "text" that is a text'),
        ("a.jsonl", rows.DOCUMENTS, '{"label": 1, "sentences": [3]}', 'line 1: "sentences" is no list of texts'),
        ("a.jsonl", rows.PAIRS, '{"source": "a"}', 'line 1: has no "target" that is a text'),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, name: str, kind: str, text: str, message: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(DataError) as caught:
        row_files.read(path, kind)
    assert str(path) in caught.value.message and message in caught.value.message


def pairs(count: int, first: int = 0) -> str:
    return "".join(f"source {number}\ttarget {number}\n" for number in range(first, first + count))


def test_one_file_is_split_by_the_seed(tmp_path: Path) -> None:
    path = write(tmp_path / "all.tsv", pairs(50))
    made = folder.load(path, rows.PAIRS, seed=1, licence="CC0-1.0")
    assert (len(made.train), len(made.dev), len(made.test), made.name, made.licence) == (40, 5, 5, "all", "CC0-1.0")
    whole = {each.instance["text"] for part in (made.train, made.dev, made.test) for each in part}
    assert len(whole) == 50
    assert made == folder.load(path, rows.PAIRS, seed=1, licence="CC0-1.0")
    assert made.fingerprint != folder.load(path, rows.PAIRS, seed=2).fingerprint


def test_a_folder_has_a_file_a_part(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", pairs(20))
    write(tmp_path / "valid.jsonl.gz", '{"source": "a", "target": "b"}')
    write(tmp_path / "test.tsv", pairs(3, 100))
    write(tmp_path / "README.md", "not data")
    made = folder.load(tmp_path, rows.PAIRS)
    assert (len(made.train), len(made.dev), len(made.test)) == (20, 1, 3)
    (tmp_path / "valid.jsonl.gz").unlink()
    made = folder.load(tmp_path, rows.PAIRS)
    assert (len(made.train), len(made.dev), len(made.test)) == (18, 2, 3)


def test_a_year_may_stand_behind_a_part(tmp_path: Path) -> None:
    for name, count in (("train", 20), ("val_2014", 2), ("test2016", 3), ("test_of_old", 9)):
        write(tmp_path / f"{name}.tsv", pairs(count))
    made = folder.load(tmp_path, rows.PAIRS)
    assert (len(made.train), len(made.dev), len(made.test)) == (20, 2, 3)
    write(tmp_path / "test2017.tsv", pairs(3))
    with pytest.raises(DataError, match=r"test2016\.tsv and test2017\.tsv are the same part"):
        folder.load(tmp_path, rows.PAIRS)


def test_columns_are_chosen_by_their_names(tmp_path: Path) -> None:
    table = write(tmp_path / "a.tsv", "en\tde\tfr\nGo!\tLos!\tVa !\n")
    lines = write(tmp_path / "a.jsonl", '{"en": "Go!", "de": "Los!", "fr": "Va !", "target": "?"}')
    for path in (table, lines):
        (found,) = row_files.read(path, rows.PAIRS, columns=("fr", "de"))
        assert found.instance == {"text": Text("Va !"), "target": Text("Los!")}
    # What is not chosen may be called as what is read of other files.
    path = write(tmp_path / "d.tsv", "src\ttgt\tlabel\nGo!\tVa !\t1\n")
    assert row_files.read(path, rows.PAIRS, columns=("src", "tgt"))[0].instance["target"] == Text("Va !")
    path = write(tmp_path / "e.jsonl", '{"sentences": 3, "text": "so", "class": "bad", "evidence": 1}')
    assert row_files.read(path, rows.DOCUMENTS, columns=("class", "text"))[0].instance == {"document": Text("so")}
    with pytest.raises(DataError, match="line 1: has no column 'it'; there are en, de, fr\\. Where"):
        row_files.read(table, rows.PAIRS, columns=("en", "it"))
    with pytest.raises(DataError, match='line 1: has no "target" that is a text'):
        row_files.read(lines, rows.PAIRS, columns=("en", "it"))
    with pytest.raises(DataError, match="en: pairs have 2 columns: source, target"):
        row_files.read(table, rows.PAIRS, columns=("en",))
    with pytest.raises(DataError, match="line 2: has 2 fields; en<TAB>de<TAB>fr is wanted"):
        row_files.read(write(tmp_path / "b.tsv", "en\tde\tfr\nGo!\tLos!\n"), rows.PAIRS, columns=("en", "de"))
    with pytest.raises(DataError, match="columns are chosen of lines; this model learns from images"):
        folder.load(tmp_path, folder.IMAGES, columns=("en", "de"))
    made = folder.load(write(tmp_path / "c.tsv", "en\tde\tfr\n" + "a\tb\tc\n" * 20), rows.PAIRS, columns=("en", "fr"))
    assert len(made.train) == 16 and made.test[0].instance == {"text": Text("a"), "target": Text("c")}


def test_what_a_path_lacks_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file or folder"):
        folder.load(tmp_path / "none", rows.PAIRS)
    with pytest.raises(DataError, match="has no train file; one of train"):
        folder.load(tmp_path, rows.PAIRS)
    write(tmp_path / "train.tsv", "")
    write(tmp_path / "dev.tsv", pairs(1))
    write(tmp_path / "test.tsv", pairs(1))
    with pytest.raises(DataError, match="train has no examples"):
        folder.load(tmp_path, rows.PAIRS)
    write(tmp_path / "train.jsonl", "")
    with pytest.raises(DataError, match=r"train\.jsonl and train\.tsv are the same part"):
        folder.load(tmp_path, rows.PAIRS)
    with pytest.raises(DataError, match="is none of"):
        folder.load(write(tmp_path / "a.txt", ""), rows.PAIRS)
    for few, said in ((1, "1 example"), (2, "2 examples")):
        with pytest.raises(DataError, match=rf"two.tsv: has {said}, and dev and test get .* 3 are the fewest"):
            folder.load(write(tmp_path / "two.tsv", pairs(few)), rows.PAIRS)
    assert len(folder.load(write(tmp_path / "two.tsv", pairs(3)), rows.PAIRS).train) == 1


def idx_bytes(array: np.ndarray, kind: int = 8) -> bytes:
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def images(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 5, 4), np.uint8)


def test_idx_images_come_back_pixel_by_pixel(tmp_path: Path) -> None:
    pixels = images(30)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(pixels)))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx_bytes(np.arange(30, dtype=np.uint8) % 3))
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx_bytes(pixels[:6]))
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(np.zeros(6, np.uint8))))
    made = folder.load(tmp_path, folder.IMAGES)
    assert (len(made.train), len(made.dev), len(made.test), made.labels) == (27, 3, 6, ("0", "1", "2"))
    image = made.test[4].instance["image"]
    assert isinstance(image, Image)
    decoded, size = decode_image(image.data, channels=1, max_pixels=0, field=())
    assert size == (5, 4)
    assert np.array_equal(decoded[:, :, 0], pixels[4])
    assert len(folder.load(tmp_path / "t10k-images-idx3-ubyte", folder.IMAGES).train) == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x00\x00", "is no IDX file"),
        (b"PNG...", "is no IDX file"),
        (idx_bytes(images(1), kind=13), "has elements of type 0x0d"),
        (idx_bytes(images(1))[:9], "ends inside its header"),
        (idx_bytes(images(1))[:-1], "has 19 bytes of data; 20 follow"),
    ],
)
def test_a_broken_idx_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        idx.read_idx(path)
    assert str(path) in caught.value.message


def test_images_and_labels_must_belong_together(tmp_path: Path) -> None:
    path, labels = tmp_path / "train-images-idx3-ubyte", tmp_path / "train-labels-idx1-ubyte"
    path.write_bytes(idx_bytes(images(3)))
    with pytest.raises(DataError, match="its labels are missing; train-labels-idx1-ubyte"):
        folder.load(tmp_path, folder.IMAGES)
    labels.write_bytes(idx_bytes(np.zeros(2, np.uint8)))
    with pytest.raises(DataError, match="has 2 labels for the 3 images"):
        folder.load(tmp_path, folder.IMAGES)
