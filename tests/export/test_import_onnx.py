"""`limelight import onnx`: ONNX files of other people, with a card."""

import re
import resource
import shlex
import shutil
import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.transformers.float16 import convert_float_to_float16
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import limelight
from limelight import cli
from limelight_bundle.reader import read_bundle
from limelight_export.execution import limits
from limelight_export.importing.onnx_file.inspection import inspect_onnx
from tests.export.onnx_files import (
    CARD,
    ENCODER,
    HEADER,
    PAIR_CARD,
    READER,
    SEGMENTS,
    SEGMENTS_CARD,
    STEP,
    TILES,
    TILES_CARD,
    VOCABULARY,
    model,
    write,
)
from tests.kit.serving import Running, serving

IDS = np.array([3, 1, 4, 1, 5])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the reader's file and its card."""
    write(tmp_path / "reader.onnx", model())
    (tmp_path / "card.toml").write_text(CARD)
    return tmp_path


def run_import(folder: Path, *options: str, file: str = "reader.onnx") -> int:
    """Import a file of a folder into its repository; gives the exit status."""
    arguments = ["import", "onnx", str(folder / file), "--card", str(folder / "card.toml")]
    return cli.main([*arguments, "--repository", str(folder / "repository"), *options])


def refusal(folder: Path, capsys: pytest.CaptureFixture[str], *options: str, file: str = "reader.onnx") -> str:
    """Import a file that is refused; gives the sentence. Nothing is left behind."""
    capsys.readouterr()
    assert run_import(folder, *options, file=file) == 1
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and "Traceback" not in said
    assert not list((folder / "repository").rglob("*.onnx"))
    return said


def own_answer(file: Path, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    """Answers of the file itself."""
    session = onnxruntime.InferenceSession(file.read_bytes(), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    """One server with every variant that is asked over the socket."""
    folder = tmp_path_factory.mktemp("served")
    write(folder / "reader.onnx", model())
    (folder / "card.toml").write_text(CARD)
    assert run_import(folder) == 0
    # No output is attention; the mask is INT64 and means padding; ids are INT32; a long input makes the map optional.
    hidden = model(
        reader="reader (int32[batch, length] ids, int64[batch, length] mask) => (float[batch, 3] logits)",
        allowed="  flag = Cast<to=9>(mask)\n  is_real = Not(flag)\n  allowed = Unsqueeze(is_real, axes12)",
        number="  number = Cast<to=1>(is_real)",
        attn="  inner = Softmax<axis=-1>(masked)",
        c0="  c0 = MatMul(inner, v)",
    )
    write(folder / "hidden.onnx", hidden)
    card = CARD.replace('"reader"', '"hidden"').replace("length = 40", "length = 400")
    card = card.replace('mask = "mask"', 'mask = { name = "mask", padding = true }').replace('"attn"', '"inner"')
    (folder / "card.toml").write_text(card)
    assert run_import(folder, file="hidden.onnx") == 0
    with serving(folder / "repository") as running:
        yield running, folder


def client_of(running: Running) -> limelight.Client:
    return limelight.Client(f"127.0.0.1:{running.server.port}")


@pytest.mark.parametrize("name", ["reader", "hidden"])
def test_a_file_is_served_with_its_own_answers(served: tuple[Running, Path], name: str) -> None:
    running, folder = served
    expected = own_answer(folder / "reader.onnx", ids=IDS[None], mask=np.ones((1, 5), bool))
    with client_of(running) as client:
        answer = client.attend(name, {"ids": IDS.astype(np.int32 if name == "hidden" else np.int64)})
    weights = answer["encoder.0.self"].weights
    np.testing.assert_allclose(weights, expected["attn"][0], atol=1e-5)
    scores = np.exp(expected["logits"][0])
    assert answer.prediction.probability == pytest.approx(float(scores.max() / scores.sum()), abs=1e-4)


def test_a_row_of_an_exposed_map_is_selected_in_the_graph(served: tuple[Running, Path]) -> None:
    running, folder = served
    bundle = read_bundle(folder / "repository" / "hidden" / "1").bundle
    assert {"gated-maps", "row-probes"} <= set(bundle.required_features)
    assert "projections" not in bundle.required_features
    expected = own_answer(folder / "reader.onnx", ids=np.resize(IDS, (1, 60)), mask=np.ones((1, 60), bool))
    with client_of(running) as client:
        answer = client.attend("hidden", {"ids": np.resize(IDS, 60).astype(np.int32)}, heads=[1], queries=[-1])
    np.testing.assert_allclose(answer["encoder.0.self"].weights, expected["attn"][0, 1:, -1:], atol=1e-5)


@pytest.mark.parametrize("name", ["reader", "hidden"])
def test_attention_inside_a_file_is_changed_as_requests_say(served: tuple[Running, Path], name: str) -> None:
    running, folder = served
    asked = [
        limelight.scale_keys("encoder.0.self", [0, 3], 0.25),
        limelight.scale_heads("encoder.0.self", {1: 0.5}),
    ]
    with client_of(running) as client:
        inputs = {"ids": IDS.astype(np.int32 if name == "hidden" else np.int64)}
        answer = client.attend(name, inputs, interventions=asked, outputs=["logits"])
    ids, mask = IDS[None], np.ones((1, 5), bool)
    weights = own_answer(folder / "reader.onnx", ids=ids, mask=mask)["attn"]
    weights[..., [0, 3]] *= 0.25
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(answer["encoder.0.self"].weights, weights[0], atol=1e-5)
    weights[:, 1] *= 0.5  # of context vectors, which are sums of it
    reader = HEADER.replace("mask)", "mask, float[batch, 2, length, length] given)") + " => (float[batch, 3] logits)"
    write(folder / "given.onnx", model(reader=reader, c0="  c0 = MatMul(given, v)"))
    wanted = own_answer(folder / "given.onnx", ids=ids, mask=mask, given=weights)
    np.testing.assert_allclose(answer.prediction.outputs["logits"], wanted["logits"][0], atol=1e-5)


def test_the_description_says_where_the_samples_come_from(served: tuple[Running, Path]) -> None:
    with client_of(served[0]) as client:
        summary = client.model("reader").summary
    assert summary.startswith("Reads ids. Imported from the ONNX file reader.onnx; its samples are the answers")
    assert "drawn at random" in summary


def test_inspect_writes_a_card_that_imports(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The mask means padding, which inspection finds out by running the file.
    inverted = model(
        allowed="  is_real = Not(mask)\n  allowed = Unsqueeze(is_real, axes12)", number="  number = Cast<to=1>(is_real)"
    )
    write(folder / "reader.onnx", inverted)
    card = folder / "card.toml"
    card.unlink()
    assert cli.main(["inspect", str(folder / "reader.onnx"), "--write-card", str(card)]) == 0
    said = capsys.readouterr().out
    assert "input ids: int64[batch, length]" in said
    assert "attn: looks like attention, rows sum to 1: [batch, 2, length, length]" in said
    assert 'mask = { name = "mask", padding = true }' in card.read_text()
    assert f"maximum = {VOCABULARY - 1}" in card.read_text()
    assert run_import(folder) == 0, capsys.readouterr().err
    assert [each.name for each in read_bundle(folder / "repository" / "reader" / "1").bundle.description.maps] == [
        "attn"
    ]
    assert cli.main(["inspect", str(folder / "reader.onnx"), "--write-card", str(card)]) == 1
    assert "exists already" in capsys.readouterr().err


# Lines after the reader's own, the shape of what they return, and whether that is attention.
LOOKS = {
    "classes of every token": ("tagged = MatMul(context, wo)  out = Softmax<axis=-1>(tagged)", "length, 3", False),
    "classes that are masked and normalised again": (
        "tagged = MatMul(context, wo)  all = Softmax<axis=-1>(tagged)  some = Mul(all, real)"
        "  sums = ReduceSum<keepdims=1>(some, minus1)  out = Div(some, sums)",
        "length, 3",
        False,
    ),
    "words by their probability": (
        "guessed = MatMul(context, turned)  out = Softmax<axis=-1>(guessed)  soft = MatMul(out, table)",
        "length, 20",
        False,
    ),
    "the mean of heads": ("out = ReduceMean<axes=[1], keepdims=0>(attn)", "length, length", True),
    "a part of a difference": (
        "out = Softmax<axis=-1>(scores)  both = Sub(out, attn)  seen = MatMul(both, v)",
        "2, length, length",
        True,
    ),
    "masked once more": ("out = Where(allowed, attn, zero)", "2, length, length", True),
    "pooling": (
        "asked = MatMul(context, wone)  flat = Squeeze(asked, axis2)  looked = Where(mask, flat, low)"
        "  out = Softmax<axis=-1>(looked)  wide = Unsqueeze(out, axis2)  one_by_one = Mul(context, wide)"
        "  pooled = ReduceSum<keepdims=0>(one_by_one, axis1)",
        "length",
        True,
    ),
}


@pytest.mark.parametrize("case", LOOKS)
def test_probabilities_of_classes_do_not_look_like_attention(case: str, folder: Path) -> None:
    lines, shape, is_attention = LOOKS[case]
    made = model(
        reader=f"{HEADER} => (float[batch, 3] logits, float[batch, {shape}] out)",
        logits="".join(f"  {line}\n" for line in ["logits = MatMul(mean, wo)", *lines.split("  ")]),
    )
    random, known = (
        np.random.default_rng(0),
        {each.name: onnx.numpy_helper.to_array(each) for each in made.graph.initializer},
    )
    more = {
        "turned": known["table"].T,
        "wone": random.standard_normal((8, 1)).astype(np.float32),
        "minus1": np.array([-1]),
    }
    made.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in more.items() if name not in known
    )
    found = inspect_onnx(write(folder / "reader.onnx", made))
    assert not found.problem
    assert ("out" in [each.name for each in found.weights]) == is_attention == ('output = "out"' in found.card)
    assert "attn" in [each.name for each in found.weights]


def test_inputs_of_one_length_share_its_label_set(folder: Path) -> None:
    given = "int64[batch, length] ids, int64[batch, length] segments, bool[batch, length] padding"
    file = model(
        reader=READER.splitlines()[2].replace(HEADER, f"reader ({given})"),
        words="  known = Gather(table, ids)\n  kinds = Gather(table, segments)\n  words = Add(known, kinds)",
        allowed="  mask = Not(padding)\n  allowed = Unsqueeze(mask, axes12)",
    )
    card = folder / "card.toml"
    card.unlink()
    path = write(folder / "reader.onnx", file)
    assert cli.main(["inspect", str(path), "--write-card", str(card)]) == 0
    assert 'mask = { name = "padding", padding = true }' in card.read_text()
    assert run_import(folder) == 0
    labels = read_bundle(folder / "repository" / "reader" / "1").bundle.description.label_sets
    assert [each.input for each in labels if each.name == "length"] == ["ids"]


def test_a_file_in_half_precision_gets_fitted_tolerances(folder: Path) -> None:
    write(folder / "reader.onnx", convert_float_to_float16(model()))
    assert run_import(folder) == 0
    tolerances = read_bundle(folder / "repository" / "reader" / "1").bundle.tolerances
    assert {each.name for each in tolerances if each.provider} == {"logits", "encoder.0.self"}


def test_the_commands_and_cards_of_the_documentation_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "import-onnx.md").read_text(encoding="utf-8")
    blocks = {name: re.findall(rf"^```{name}\n(.*?)^```$", page, re.M | re.S) for name in ("console", "toml", "text")}
    monkeypatch.chdir(folder)
    (folder / "card.toml").unlink()
    for command in blocks["console"][0].strip().splitlines():
        assert cli.main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.startswith(blocks["text"][0])
    write_words(folder)
    (folder / "card.toml").write_text(blocks["toml"][0])
    assert run_import(folder) == 0
    with serving(folder / "repository") as running, client_of(running) as client:
        labels = client.attend("reader", {"text": "the dog ran"})["encoder.0.self"].key.labels
    assert list(labels) == ["the", "dog", "ran"]
    # The card of a pair has the entries of the one that is tested.
    assert tomllib.loads(blocks["toml"][1])["generation"].keys() == tomllib.loads(PAIR_CARD)["generation"].keys()


def test_softmaxes_are_exposed_by_a_pattern_each_under_a_name_of_its_own(folder: Path) -> None:
    made = model(
        reader=f"{HEADER} => (float[batch, 3] logits)",
        attn="  first = Softmax<axis=-1>(masked)\n  second = Softmax<axis=-1>(masked)",
        c0="  attn = Add(first, second)\n  c0 = MatMul(attn, v)",
    )
    names = {"first": "/layer.0/attention/Softmax_output_0", "second": "/layer.0/attention/Softmax_1_output_0"}
    for node in made.graph.node:
        for values in (node.input, node.output):
            values[:] = [names.get(name, name) for name in values]
    write(folder / "reader.onnx", made)
    (folder / "card.toml").write_text(CARD[: CARD.index("[maps")])
    assert run_import(folder, "--expose", "*attention*") == 0
    bundle = read_bundle(folder / "repository" / "reader" / "1").bundle
    assert [each.name for each in bundle.description.maps] == ["layer.0.attention", "layer.0.attention.2"]


def write_words(folder: Path) -> None:
    """Write a tokenizer of ten words."""
    words = {word: number for number, word in enumerate("[pad] [unk] the cat sat on a mat dog ran".split())}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[unk]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))


def test_inputs_and_outputs_of_other_types_and_layouts_are_converted_in_the_graph(folder: Path) -> None:
    write(folder / "tiles.onnx", model(TILES))
    (folder / "card.toml").write_text(TILES_CARD)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "picture.png")
    assert run_import(folder, file="tiles.onnx") == 0
    segments = model(
        SEGMENTS,
        words="  real_ones = Cast<to=9>(mask)\n  known = Gather(table, ids)\n"
        "  which = Gather(table, kinds)\n  words = Add(known, which)",
        allowed="  allowed = Unsqueeze(real_ones, axes12)",
        number="  number = Cast<to=1>(real_ones)",
    )
    write(folder / "segments.onnx", segments)
    (folder / "card.toml").write_text(SEGMENTS_CARD)
    (folder / "labels.txt").write_text("a\nb\nc\n")
    write_words(folder)
    assert run_import(folder, file="segments.onnx") == 0
    tiles = own_answer(folder / "tiles.onnx", pixels=(pixels / 255)[None].astype(np.float16))
    ids, kinds = np.array([[2, 3, 4, 6, 8]]), np.array([[0, 0, 0, 1, 1]])
    pair = own_answer(folder / "segments.onnx", ids=ids, kinds=kinds, mask=np.ones((1, 5), np.int64))
    with serving(folder / "repository") as running, client_of(running) as client:
        picture = client.attend("tiles", {"picture": folder / "picture.png"})
        texts = client.attend("segments", {"pair": ("the cat sat", "a dog")})
    np.testing.assert_allclose(picture["rows"].weights[0], tiles["look"][0, :, 0], atol=1e-3)
    assert picture.prediction.probability == pytest.approx(float(tiles["chances"].max()), abs=1e-3)
    np.testing.assert_allclose(texts["self"].weights, pair["attn"][0], atol=1e-5)
    assert list(texts["self"].key.labels) == ["the", "cat", "sat", "a", "dog"]


def test_heads_that_are_folded_into_the_batch(folder: Path) -> None:
    folded = model(
        reader=f"{HEADER} => (float[batch, 3] logits, float[folded, length, length] flat)",
        c0="  shape = Shape(attn)\n  rest = Slice(shape, axis2, four)\n  whole = Concat<axis=0>(minus, rest)\n"
        "  flat = Reshape(attn, whole)\n  c0 = MatMul(attn, v)",
    )
    for name, value in (("four", [4]), ("minus", [-1])):
        folded.graph.initializer.append(onnx.numpy_helper.from_array(np.array(value), name))
    write(folder / "reader.onnx", folded)
    axes = 'output = "flat"\naxes = ["batch*head", "query", "key"]\nheads = 2'
    (folder / "card.toml").write_text(CARD.replace('output = "attn"', axes))
    assert run_import(folder) == 0


def test_samples_of_an_archive_and_what_they_must_give(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = np.array([[1, 2, 3], [4, 5, 6]])
    expected = own_answer(folder / "reader.onnx", ids=ids, mask=np.ones((2, 3), bool))["logits"]
    np.savez(folder / "samples.npz", ids=ids, logits=expected)
    assert run_import(folder, "--samples", str(folder / "samples.npz")) == 0
    bundle = read_bundle(folder / "repository" / "reader" / "1").bundle
    assert "answers of ONNX Runtime to given inputs" in bundle.description.summary
    assert len(bundle.description.examples) == 2
    np.savez(folder / "samples.npz", ids=ids, logits=expected + np.array([0, 0, 0.1]))
    assert run_import(folder, "--samples", str(folder / "samples.npz")) == 1
    assert (
        "the file's answer to sample 0 differs from the given one: logits differs by up to 0.1"
        in capsys.readouterr().err
    )


def test_samples_that_cannot_be_read_are_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids, samples = np.array([[1, 2, 3]]), folder / "samples.npz"
    for given, sentence in (
        ({"ids": ids + 0.5}, "sample 0: 1.5 is not a number of the type int64"),
        ({"ids": np.int64(1)}, "'ids' is one value; its first axis counts the samples"),
        ({"ids": ids, "logits": np.array([["a", "b", "c"]])}, "'logits' of sample 0 holds <U1, not numbers"),
    ):
        np.savez(samples, **given)
        assert run_import(folder, "--samples", str(samples)) == 1
        assert sentence in capsys.readouterr().err
    np.save(folder / "samples.npy", ids)
    samples.write_bytes(b"")
    for each in (folder / "samples.npy", samples):
        assert run_import(folder, "--samples", str(each)) == 1
        assert "the samples are not a readable .npz file" in capsys.readouterr().err
    for ids_of_card in ("[[1, 2], [3]]", '["a"]', "[nan]", "[99999999999999999999]"):
        (folder / "card.toml").write_text(f"{CARD}\n[[examples]]\nids = {ids_of_card}")
        assert run_import(folder) == 1
        assert "limelight: examples[0]: " in capsys.readouterr().err


def test_weights_in_another_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def save(name: str) -> None:
        onnx.save(model(), folder / "reader.onnx", save_as_external_data=True, location=name, size_threshold=0)

    save("reader.data")
    assert run_import(folder) == 0
    data = (folder / "reader.data").read_bytes()
    for broken, sentence in (
        (data[:300], "its weights in reader.data cannot be read"),
        (None, "'reader.data', which is not beside it"),
    ):
        if broken is None:
            (folder / "reader.data").unlink()
        else:
            (folder / "reader.data").write_bytes(broken)
        assert run_import(folder) == 1
        assert sentence in capsys.readouterr().err
    outside = model()
    tensor = outside.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    write(folder / "reader.onnx", outside)
    assert run_import(folder) == 1
    assert "outside its folder" in capsys.readouterr().err


def test_a_fixed_batch_of_one_is_served_one_row_at_a_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The graph itself holds the 1, as exporters without dynamic axes write it.
    fixed = model(
        reader="reader (int64[1, length] ids) => (float[1, 3] logits, float[1, 2, length, length] attn)",
        allowed="  q9 = Identity(q)",
        bias="  k9 = Identity(k)",
        masked="  masked = Identity(scores)",
        number="  n9 = Identity(v)",
        real="  c9 = Identity(context)",
        kept="  kept = Identity(context)",
        count="  flat = Reshape(total, one_row)",
        mean="  mean = Identity(flat)",
    )
    fixed.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 8]), "one_row"))
    write(folder / "reader.onnx", fixed)
    (folder / "card.toml").write_text(CARD.replace('mask = "mask"\n', ""))
    assert run_import(folder) == 0, capsys.readouterr().err
    assert "rows run one at a time" in capsys.readouterr().out
    assert read_bundle(folder / "repository" / "reader" / "1").bundle.single_rows
    with serving(folder / "repository") as running, client_of(running) as client:
        rows = [{"ids": np.arange(1, length)} for length in (3, 9, 4)]
        for row, answer in zip(rows, client.attend("reader", rows), strict=True):
            expected = own_answer(folder / "reader.onnx", ids=row["ids"][None])
            np.testing.assert_allclose(answer["encoder.0.self"].weights, expected["attn"][0], atol=1e-5)


REFUSED_CARDS = {
    "no output of that name": (
        'output = "attn"',
        'output = "atn"',
        "names the output 'atn', which reader.onnx has neither",
    ),
    "an axis of another length": (
        'key = "length"',
        'key = "one"',
        "has 'one' as key, always 1, and that axis of the output 'attn' is as long as 'length'",
    ),
    "too few axes": (
        'output = "attn"',
        'output = "attn"\naxes = ["batch", "query", "key"]',
        "has the axes ['batch', 'query', 'key'], and the output 'attn' has the shape [5, 2, 3, 3] at length 3, batch 5",
    ),
    "no label set of that name": (
        'key = "length"',
        'key = "words"',
        "the label set 'words'; the card has 'one', 'length'",
    ),
    "too few classes": ('"a", "b", "c"', '"a", "b"', "reads scores of 2 classes, [batch, 2], from the output 'logits'"),
    "no input of that name": (
        "[inputs.ids]",
        "[inputs.tokens]",
        "the card's inputs state 'tokens', which reader.onnx does not take",
    ),
    "no mask": (
        'mask = "mask"\n',
        "",
        "reader.onnx takes 'mask' (bool[batch, length]), which no input of the card states",
    ),
    "an inverted mask": ('mask = "mask"', 'mask = { name = "mask", padding = true }', ""),
    "an unknown entry": ('labels = ["a"', 'lables = ["a"', "results.class.lables is unknown"),
    "a wrong kind": (
        'kind = "tensor"',
        'kind = "tensr"',
        "inputs.ids.kind is 'tensr'; it is one of 'text', 'image', 'tensor'",
    ),
    "a wrong type": (
        "largest = { length = 40 }",
        "largest = 40",
        "inputs.ids.largest is 40; it is a table of a whole number",
    ),
    "no TOML": ('name = "reader"', "name = reader", "the card is not valid TOML"),
    "a wrong name": ('name = "reader"', 'name = "../reader"', "is not a model name"),
    "a largest size below 0": ("length = 40", "length = -1", "the largest size of 'length' of the card's input 'ids'"),
    "an endless axis": ("length = 40", f"length = {2**62}", "of the card's input 'ids' must be from 1 to 2147483647"),
    "a maximum below the minimum": (
        "maximum = 19",
        "maximum = -5",
        "the maximum of the card's input 'ids' must be from 1",
    ),
    "a maximum of many digits": (
        "maximum = 19",
        f"maximum = {'9' * 5000}",
        "the card is not valid TOML: Exceeds the limit",
    ),
    "labels without end": (
        "[results",
        f"[labels]\nhop = {10**12}\n[results",
        "the entries of the labels 'hop' must be from",
    ),
    "a nesting without end": ("minimum = 1", f"minimum = {'[' * 9999}", "the card is nested too deeply"),
    "a vocabulary too large": ("maximum = 19", "maximum = 20", "the tensor 'ids' takes up to 20 according to the card"),
}


@pytest.mark.parametrize("case", REFUSED_CARDS)
def test_a_wrong_card_is_one_sentence(case: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, sentence = REFUSED_CARDS[case]
    assert old in CARD
    (folder / "card.toml").write_text(CARD.replace(old, new))
    assert sentence in refusal(folder, capsys)


REFUSED_GRAPHS = {
    "weights that do not sum to 1": (
        {
            "c0": "  two = Add(attn, attn)\n  c0 = MatMul(attn, v)",
            "reader": READER.splitlines()[2].replace("attn", "two"),
        },
        CARD.replace('"attn"', '"two"'),
        "a row of the map encoder.0.self sums to 2",
    ),
    "an answer that depends on other rows": (
        {
            "logits": "  all = ReduceMean<axes=[0], keepdims=1>(mean)\n"
            "  mixed = Add(mean, all)\n  logits = MatMul(mixed, wo)"
        },
        CARD,
        "differs from its answer alone: logits differs by up to",
    ),
    "an answer that reads padding": (
        {"allowed": "  every = Or(mask, yes)\n  allowed = Unsqueeze(every, axes12)"},
        CARD,
        "does the model read padding?",
    ),
    "NaN": (
        {"logits": "  bad = Sqrt(mean)\n  logits = MatMul(bad, wo)"},
        CARD,
        "answers with NaN or infinity in 'logits'",
    ),
    "an operator that is not allowed": (
        {"words": "  noise = RandomUniformLike(table)\n  words = Gather(table, ids)"},
        CARD,
        "uses the operator ai.onnx.RandomUniformLike, which is not allowed",
    ),
    "a frozen axis": (
        {"split": "", "reader": READER.splitlines()[2].replace("int64[batch, length] ids", "int64[batch, 16] ids")},
        CARD,
        "axis 1 of reader.onnx's input 'ids' is always 16, and the card says that it varies (length)",
    ),
    "an operator set of the future": (
        {"<ir_version": '<ir_version: 8, opset_import: ["" : 99]>'},
        CARD,
        "ONNX Runtime cannot load the graph reader.onnx",
    ),
    "texts as tensors": (
        {"reader": READER.splitlines()[2].replace("int64[batch, length] ids", "string[batch, length] ids")},
        CARD,
        "inputs.ids.dtype is 'object'; it is one of 'float32'",
    ),
    "an operator set that cannot be converted": (
        {"<ir_version": '<ir_version: 7, opset_import: ["" : 3]>'},
        CARD,
        "the file uses operator set 3, and cannot be converted to 13",
    ),
    "no operator set": (
        {"<ir_version": '<ir_version: 7, opset_import: ["ai.onnx.ml" : 3]>'},
        CARD,
        "the file does not say which set of standard operators it uses",
    ),
    "axes that are not stated": (
        {"reader": READER.splitlines()[2].replace("int64[batch, length] ids", "int64[] ids")},
        CARD,
        "the file does not state the axes of 'ids'",
    ),
}


@pytest.mark.parametrize("case", REFUSED_GRAPHS)
def test_a_wrong_file_is_one_sentence(case: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes, card, sentence = REFUSED_GRAPHS[case]
    made = model(**{name: line for name, line in changes.items() if name != "split"})
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "yes"))
    write(folder / "reader.onnx", made)
    (folder / "card.toml").write_text(card)
    assert sentence in refusal(folder, capsys)


def test_a_file_that_mixes_rows_runs_one_row_at_a_time_if_its_card_says_so(folder: Path) -> None:
    changes, card, _ = REFUSED_GRAPHS["an answer that depends on other rows"]
    write(folder / "reader.onnx", model(**changes))
    (folder / "card.toml").write_text("batch = false\n" + card)
    assert run_import(folder) == 0
    assert read_bundle(folder / "repository" / "reader" / "1").bundle.single_rows


# As the standard operators were written before version 13.
OLD = {
    "allowed": "  allowed = Unsqueeze<axes=[1, 2]>(mask)",
    "attn": "  attn = Softmax<axis=3>(masked)",
    "real": "  real = Unsqueeze<axes=[2]>(number)",
    "total": "  total = ReduceSum<keepdims=0, axes=[1]>(kept)",
    "count": "  count = ReduceSum<keepdims=0, axes=[1]>(real)",
    "<ir_version": '<ir_version: 3, opset_import: ["" : 9]>',
    "bias": "  shut = Not(allowed)\n  shut1 = Cast<to=1>(shut)\n  bias = Mul(shut1, low)",
}


def with_weights_as_inputs(made: onnx.ModelProto) -> None:
    for each in made.graph.initializer:
        made.graph.input.append(onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims))


def with_axes(**names: object) -> Callable[[onnx.ModelProto], None]:
    """Give the axes of a file other names, or sizes, or none."""

    def change(made: onnx.ModelProto) -> None:
        for value in (*made.graph.input, *made.graph.output):
            for each in value.type.tensor_type.shape.dim:
                new = names.get(each.dim_param, each.dim_param or each.dim_value)
                each.Clear()
                if isinstance(new, int):
                    each.dim_value = new
                elif new:
                    each.dim_param = new

    return change


def with_the_domain_spelled_out(made: onnx.ModelProto) -> None:
    for each in (*made.graph.node, *made.opset_import):
        each.domain = "ai.onnx"


def with_an_odd_output(made: onnx.ModelProto) -> None:
    made.graph.output[0].name = made.graph.node[-1].output[0] = "logits\x1b[2J\u202e"


UNUSUAL: dict[str, tuple[dict[str, str], Callable[[onnx.ModelProto], None]]] = {
    "weights are inputs": ({"<ir_version": '<ir_version: 3, opset_import: ["" : 17]>'}, with_weights_as_inputs),
    "an old operator set": (OLD, with_weights_as_inputs),
    "an old operator set, spelled out": (OLD, with_the_domain_spelled_out),
    "a format of the future": ({"<ir_version": '<ir_version: 99, opset_import: ["" : 17]>'}, lambda made: None),
    "the domain spelled out": ({}, with_the_domain_spelled_out),
    "axes without names": ({}, with_axes(batch=None, length=None)),
    "axes of unknown names": ({}, with_axes(batch="?", length="?")),
    "axes of no size": ({}, with_axes(batch=0, length=-1)),
    "axes of odd names": ({}, with_axes(batch="a/b", length='\x1b[31m"\x7f\n]')),
    "axes of each other's names": ({}, with_axes(batch="length", length="batch")),
    "axes of the name of a label set": ({}, with_axes(length="one")),
    "an output of an odd name": ({}, with_an_odd_output),
    "an input that goes out again": ({}, lambda made: made.graph.output.append(made.graph.input[0])),
    "a weight that goes out": (
        {},
        lambda made: made.graph.output.append(onnx.helper.make_tensor_value_info("table", 1, [VOCABULARY, 8])),
    ),
}


@pytest.mark.parametrize("case", UNUSUAL)
def test_an_old_or_unusual_file_imports_with_the_card_that_inspect_writes(
    case: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, change = UNUSUAL[case]
    made = model(**lines)
    change(made)
    write(folder / "reader.onnx", made)
    (folder / "card.toml").unlink()
    assert cli.main(["inspect", str(folder / "reader.onnx"), "--write-card", str(folder / "card.toml")]) == 0
    said = capsys.readouterr().out
    assert "not run" not in said and "attn: looks like attention" in said
    assert run_import(folder) == 0, capsys.readouterr().err
    assert not {*said, *capsys.readouterr().out} & {"\x1b", "\u202e"}
    described = read_bundle(folder / "repository" / "reader" / "1").bundle.description
    assert [each.name for each in described.maps] == ["attn"]


NEAR = """
<ir_version: 8, opset_import: ["" : 17]>
near (float[batch, length] x) => (float[batch, near] y)
<int64[1] begin = {0}, int64[1] end = {64}, int64[1] axis = {1}>
{ y = Slice(x, begin, end, axis) }
"""


@pytest.mark.parametrize(("largest", "declared"), [("largest = { length = 300 }", "near"), ("", "Min(64, length)")])
def test_an_axis_that_ends_to_grow_is_not_taken_for_one_of_an_input(
    largest: str, declared: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = onnx.parser.parse_model(NEAR)
    made.graph.output[0].type.tensor_type.shape.dim[1].dim_param = declared
    write(folder / "reader.onnx", made)
    (folder / "card.toml").write_text(UNBOUNDED_CARD + largest)
    assert "axis 1 of the output 'y' varies, but follows no axis of an input" in refusal(folder, capsys)


ENDLESS = """
<ir_version: 8, opset_import: ["" : 17]>
endless (float[batch, length] x) => (float[batch, length] y)
<int64 often = {4611686018427387904}, bool yes = {1}>
{
  y = Loop (often, yes, x) <body = again (int64 step, bool more, float[a, b] given) => (bool stays, float[a, b] made)
  { stays = Identity(more)  made = Identity(given) }>
}
"""
ENORMOUS = """
<ir_version: 8, opset_import: ["" : 17]>
enormous (float[batch, length] x) => (float[rows, columns] y)
<int64[2] sizes = {65536, 65536}>
{ zeros = ConstantOfShape(sizes)  sum = ReduceSum<keepdims=0>(x)  y = Add(zeros, sum) }
"""
WIDE = """
<ir_version: 8, opset_import: ["" : 17]>
wide (float[batch, 1099511627776] x) => (float[batch, 1099511627776] y)
{ y = Softmax(x) }
"""
UNBOUNDED_CARD = """
name = "unbounded"
[inputs.x]
kind = "tensor"
axes = ["length"]
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (ENDLESS, "run on inputs of the shapes {'x': [3, 5]}, takes longer than the 2 s that it may"),
        (ENORMOUS, "run on inputs of the shapes {'x': [3, 5]}, takes more than the 4.0 GiB of memory that it may"),
        (WIDE, "a row of 'x' has 1099511627776 numbers; an input may have up to"),
    ],
)
def test_a_file_without_end_meets_limits(
    text: str, sentence: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_SECONDS", 1.5)
    write(folder / "reader.onnx", onnx.parser.parse_model(text))
    (folder / "card.toml").write_text(UNBOUNDED_CARD)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    assert sentence in refusal(folder, capsys)
    cli.main(["inspect", str(folder / "reader.onnx")])
    captured = capsys.readouterr()
    assert sentence in captured.out + captured.err and "Traceback" not in captured.err
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert not [each for each in threading.enumerate() if each.name == limits._THREAD]


@pytest.mark.parametrize("length", [0, 1, 60, 700])
def test_a_truncated_file_is_one_sentence(length: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (folder / "reader.onnx").read_bytes()
    (folder / "reader.onnx").write_bytes(whole[:length])
    said = refusal(folder, capsys)
    assert "is empty" in said if not length else "not a readable ONNX file" in said or "cannot load" in said
    (folder / "reader.onnx").write_bytes(whole)
    assert run_import(folder) == 0


def test_inputs_of_a_file_become_the_reference_of_drift(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "own.jsonl"
    file.write_text('{"ids": [3, 1, 4]}\n\n' * 60 + "[1, 5, 9, 2]\n" * 40 + "[20]\n")  # the last is refused
    assert run_import(folder, "--reference", str(file)) == 0
    references = read_bundle(folder / "repository" / "reader" / "1").bundle.attention_references
    assert {each.map for each in references} == {"encoder.0.self"}
    assert {each.inputs for each in references} == {100}
    shutil.rmtree(folder / "repository")
    for text, message in (
        ("[1]\n" * 99, "own.jsonl has 99 inputs; a reference of attention needs 100"),
        ('[1]\n{"id": [2]}', "own.jsonl: line 2: it must be an object with the inputs ids"),
        ("[null]", "own.jsonl: line 1: [None] does not hold numbers"),
        ("[1", "own.jsonl: line 1: "),
        ('["a"]', "own.jsonl: line 1: ['a'] does not hold numbers of the type int64"),
    ):
        file.write_text(text)
        assert message in refusal(folder, capsys, "--reference", str(file))
    assert "nothing.txt: No such file" in refusal(folder, capsys, "--reference", str(folder / "nothing.txt"))


def test_an_import_needs_no_pytorch(folder: Path) -> None:
    import subprocess
    import sys

    command = ["import", "onnx", str(folder / "reader.onnx"), "--card", str(folder / "card.toml")]
    command += ["--repository", str(folder / "repository")]
    code = f"import sys; sys.modules['torch'] = None; from limelight import cli; sys.exit(cli.main({command!r}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def write_pair(folder: Path, **changes: str) -> None:
    """Write an encoder, a step, the card and the tokenizer of what is generated."""
    write(folder / "encoder.onnx", model(ENCODER))
    write(folder / "step.onnx", model(STEP, **changes))
    (folder / "card.toml").write_text(PAIR_CARD)
    tokens = ["<pad>", "<begin>", "<end>", *"abcdefghi"]
    made = Tokenizer(models.BPE(vocab={token: n for n, token in enumerate(tokens)}, merges=[], unk_token="<pad>"))
    made.decoder = decoders.Fuse()
    made.add_special_tokens(tokens[:3])
    made.save(str(folder / "output.json"))


def own_generation(folder: Path, ids: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Decode greedily with the files themselves: the tokens, and the weights of each step."""
    encoded = own_answer(folder / "encoder.onnx", ids=ids[None], mask=np.zeros((1, len(ids)), bool))
    step = onnx.load(folder / "step.onnx")
    step.graph.output.append(onnx.ValueInfoProto(name="look"))
    session = onnxruntime.InferenceSession(step.SerializeToString(), providers=["CPUExecutionProvider"])
    tokens, hidden, rows = [1], encoded["start"], []
    while tokens[-1] != 2 and len(tokens) <= 6:
        feeds = {"tokens": np.array([tokens]), "memory": encoded["memory"], "hidden": hidden}
        scores, hidden, look = session.run(None, feeds | {"padding": np.zeros((1, len(ids)), bool)})
        tokens.append(int(scores[0].argmax()))
        rows.append(look[0, 0])
    return tokens[1:], np.stack(rows)


def test_a_pair_generates_beside_rows_of_other_lengths(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pair(folder)
    assert run_import(folder, file="encoder.onnx") == 0, capsys.readouterr().err
    random = np.random.default_rng(0)
    rows = [random.integers(1, VOCABULARY, length) for length in (3, 17, 1, 8, 12)]
    with serving(folder / "repository") as running, client_of(running) as client:
        answers = client.attend("pair", [{"ids": row} for row in rows])
    for row, answer in zip(rows, answers, strict=True):
        tokens, weights = own_generation(folder, row)
        letters = "".join("___abcdefghi"[token] for token in tokens if token > 2)
        assert answer.prediction.text == letters
        np.testing.assert_allclose(answer["decoder.cross"].weights[0, : len(weights)], weights, atol=1e-5)


READS_ALL = {
    "newest": "  known = Gather(table, tokens)\n  newest = Slice(tokens, minus1, far, axis1)",
    "word =": "  word = ReduceSum<keepdims=0>(known, axis1)",
}
PAIR_REFUSALS: dict[str, tuple[dict[str, str], tuple[str, str], str]] = {
    "a step that reads every token": (READS_ALL, ("", ""), "answer differs from encoder.onnx and step.onnx's: "),
    "a mask that is encoded": ({}, ('padding = "mask" }', 'padding = "kept" }'), "does the model read padding?"),
    "no such output": (
        {},
        ('scores = "scores"', 'scores = "score"'),
        "names the output 'score', which step.onnx does not have; it has 'scores', 'next'",
    ),
    "an input that is missing": (
        {},
        (', padding = "mask"', ""),
        "step.onnx takes 'padding' (bool[batch, length]), which the card's generation lacks",
    ),
    "no second file": ({}, ('"step.onnx"', '"steps.onnx"'), "steps.onnx: there is no such file"),
    "a begin token that is no token": ({}, ("begin = 1", "begin = 12"), "`begin` is not an id of its tokenizer"),
}


@pytest.mark.parametrize("case", PAIR_REFUSALS)
def test_a_wrong_pair_is_one_sentence(case: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes, change, sentence = PAIR_REFUSALS[case]
    write_pair(folder, **changes)
    assert change[0] in PAIR_CARD
    (folder / "card.toml").write_text(PAIR_CARD.replace(*change))
    assert sentence in refusal(folder, capsys, file="encoder.onnx")
