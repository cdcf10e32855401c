"""Saved answers are read as they were; any other file gets one message, and nothing of it is run."""

import copy
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import limelight
from limelight.archive import DOCUMENT
from tests.client.served import DOCUMENT as WORDS
from tests.client.served import TEXT
from tests.kit.forwarder import Forwarder

NOT_SAVED = "is not an answer that Limelight saved: "


@pytest.fixture(scope="module")
def file(_running: Forwarder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "answer.npz"
    with limelight.Client(_running.target) as client:
        client.attend("paper", {"text": WORDS}).save(path)
    return path


@pytest.mark.parametrize(
    ("model", "inputs", "options"),
    [
        ("tiny", {"text": TEXT}, {}),
        ("tiny", {"text": TEXT}, {"top_k": 1}),
        ("paper", {"text": WORDS}, {}),
        ("echo", {"text": TEXT}, {"sequences": 2, "generation": limelight.Generation(strategy="beam", hypotheses=2)}),
        ("report", {"text": "the mat is wet \u00df\U0001f600"}, None),
    ],
)
def test_what_is_saved_is_read_as_it_was(
    client: limelight.Client, tmp_path: Path, model: str, inputs: dict[str, Any], options: dict[str, Any] | None
):
    answers: list[Any] = [client.predict(model, inputs)]
    if options is not None:
        whole = client.attend(model, inputs, **options)
        answers += [whole, *whole.maps]
    for number, answer in enumerate(answers):
        answer.save(path := tmp_path / f"{number}.saved")
        read = limelight.load(str(path))
        assert read == answer and type(read) is type(answer) and repr(read) == repr(answer)
        assert pickle.loads(pickle.dumps(read)) == copy.deepcopy(read) == answer
        maps = read.maps if isinstance(read, limelight.Attended) else ()
        assert not any(each.weights.flags.writeable for each in maps)
        before = path.read_bytes()
        read.save(path)
        assert path.read_bytes() == before
    assert {each.suffix for each in tmp_path.iterdir()} == {".saved"}


def test_numpy_reads_the_arrays_of_a_file(file: Path):
    with np.load(file, allow_pickle=False) as members:
        assert [members[name].dtype for name in members if members[name].ndim == 2]


def rewritten(file: Path, change: Callable[[Any], Any]) -> bytes:
    """The file with another document: what `change` returns, or made of the one that it is given."""
    with np.load(file) as members:
        there = {name: members[name] for name in members}
    document = json.loads(there[DOCUMENT].tobytes())
    document = document if (made := change(document)) is None else made
    there[DOCUMENT] = np.frombuffer(json.dumps(document).encode(), np.uint8)
    np.savez(data := io.BytesIO(), **there)
    return data.getvalue()


def of_map(**changed: Any) -> Callable[[Any], None]:
    """Changes fields of the first map."""

    def change(document: Any) -> None:
        next(each for each in document["records"] if each["type"] == "AttentionMap")["fields"].update(changed)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.update(format=2), "it has format 2, and this version reads format 1"),
        (lambda document: [], "its document is not one of Limelight"),
        (lambda document: document.update(records={}), "its document has no records"),
        (lambda document: document.update(records=[]), "its last record is not an answer"),
        (lambda document: document["records"].append(document["records"][0]), "its last record is not an answer"),
        (lambda document: document["records"].append({"type": "Path", "fields": {}}), "its type 'Path' is unknown"),
        (lambda document: document["records"][-1]["fields"].clear(), "its field 'prediction' is missing"),
        (of_map(evil=1), "its field 'evil' is unknown; it may be of a newer version"),
        (of_map(heads=[True]), "its field 'heads' has a value of another type"),
        (of_map(heads=[0, 1]), "map 'word' has weights [1, 8] for 2 heads"),
        (of_map(name=None), "its field 'name' has a value of another type"),
        (of_map(query={"record": 10**6}), "refers to nothing before it"),
        (of_map(query={"record": -1}), "refers to nothing before it"),
        (of_map(weights={"array": "../etc/passwd"}), "member '../etc/passwd' is missing"),
        (of_map(weights={"mapping": [[[], 1]]}), "TypeError: "),
    ],
)
def test_a_document_that_does_not_fit_gets_one_message(
    file: Path, tmp_path: Path, change: Callable[[Any], Any], message: str
):
    (path := tmp_path / "changed.npz").write_bytes(rewritten(file, change))
    with pytest.raises(ValueError) as refused:
        limelight.load(path)
    assert str(refused.value).startswith(f"{path} {NOT_SAVED}") and message in str(refused.value)


class Hostile:
    def __reduce__(self) -> Any:
        return pytest.fail, ("a pickle was run",)


def test_files_of_other_kinds_get_one_message(tmp_path: Path):
    np.savez(tmp_path / "pickled.npz", **{DOCUMENT: np.array([Hostile()], object)})
    np.savez(tmp_path / "other.npz", weights=np.zeros(3))
    np.savez_compressed(tmp_path / "bomb.npz", **{DOCUMENT: np.zeros(10**6, np.uint8)})
    (tmp_path / "text.npz").write_text("not a zip")
    (tmp_path / "empty.npz").write_bytes(b"")
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000,)}\n"
    with zipfile.ZipFile(tmp_path / "long.npz", "w") as archive:
        archive.writestr(f"{DOCUMENT}.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    messages = {
        "pickled": "has elements of type object",
        "other": "member 'document' is missing",
        "bomb": "its members are compressed",
        "text": "File is not a zip file",
        "empty": "File is not a zip file",
        "long": "has 0 bytes for the shape [1000000000000] of uint8",
    }
    for name, message in messages.items():
        with pytest.raises(ValueError) as refused:
            limelight.load(tmp_path / f"{name}.npz")
        assert NOT_SAVED in str(refused.value) and message in str(refused.value), name
    with pytest.raises(FileNotFoundError):
        limelight.load(tmp_path / "nothing.npz")


LEAF = st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.text(max_size=3)
ANYTHING = st.recursive(
    LEAF, lambda of: st.lists(of, max_size=2) | st.dictionaries(st.text(max_size=3), of, max_size=2)
)
REFERENCE = st.builds(lambda key, value: {key: value}, st.sampled_from(["record", "array", "mapping"]), ANYTHING)
ANYWHERE = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@ANYWHERE
@given(st.data())
def test_whatever_is_written_into_a_document_gives_an_answer_or_one_message(
    file: Path, tmp_path: Path, data: st.DataObject
):
    def change(document: Any) -> None:
        here = data.draw(st.sampled_from([each for each in document["records"] if each["fields"]]))["fields"]
        here[data.draw(st.sampled_from(sorted(here)))] = data.draw(ANYTHING | REFERENCE)

    (path := tmp_path / "drawn.npz").write_bytes(rewritten(file, change))
    try:
        read = limelight.load(path)
    except ValueError as error:
        assert NOT_SAVED in str(error)
    else:
        assert repr(read) and read.to_dict()


@ANYWHERE
@given(place=st.integers(0), value=st.integers(1, 255), cut=st.integers(0))
def test_damaged_files_are_refused_or_read_as_they_were(file: Path, tmp_path: Path, place: int, value: int, cut: int):
    whole = file.read_bytes()
    damaged = bytearray(whole)
    damaged[place % len(whole)] ^= value
    for content in (bytes(damaged), whole[: cut % len(whole)]):
        (path := tmp_path / "damaged.npz").write_bytes(content)
        try:
            assert limelight.load(path) == limelight.load(file)
        except ValueError as error:
            assert NOT_SAVED in str(error)


PIECES = ["(", "[", "{", "'", '"""', "\\", "#", "\n", ",", "9" * 5000, "1e999", "lambda: 0", "\x00", "'descr': '<f4', "]
HEADERS = st.builds(lambda piece, times: piece * times, st.sampled_from(PIECES), st.sampled_from([1, 2, 200, 9000]))


@ANYWHERE
@given(header=st.lists(HEADERS, max_size=4).map("".join), place=st.integers(-(2**31), 2**31 - 1))
@example(header="(" * 9000, place=0)
@example(header="", place=2**31 - 1)
def test_a_file_of_any_headers_gets_one_message(tmp_path: Path, header: str, place: int):
    data = header.encode()[:65535]
    with zipfile.ZipFile(path := tmp_path / "header.npz", "w") as archive:
        archive.writestr(f"{DOCUMENT}.npy", b"\x93NUMPY\x01\x00" + len(data).to_bytes(2, "little") + data)
    content = bytearray(path.read_bytes())
    content[-6:-2] = (int.from_bytes(content[-6:-2], "little") + place & 0xFFFFFFFF).to_bytes(4, "little")
    path.write_bytes(content)  # the directory of the archive is said to begin elsewhere
    with pytest.raises(ValueError) as refused:
        limelight.load(path)
    assert NOT_SAVED in str(refused.value)
