"""Bundles that must not be loaded, and what is said of each."""

import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from onnx import NodeProto, TensorProto, helper

from limelight.v1 import model_pb2
from limelight_bundle.checks.bindings import check_bindings
from limelight_bundle.checks.bounds import check_bounds
from limelight_bundle.checks.description import check_description
from limelight_bundle.errors import BundleError
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.reader import read_bundle
from limelight_bundle.v1 import bundle_pb2
from tests.bundle import small


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small.write(tmp_path / "repository").path


def refused(folder: Path, reason: str) -> None:
    with pytest.raises(BundleError, match=reason) as caught:
        read_bundle(folder)
    assert str(folder.parent.parent) not in caught.value.message, "a message names no path outside the bundle"


BROKEN = [b"", b"{", b"[1]", b"3", b"null", b'{"graphs": 3}', b'{"files": [1]}', b"\xff\xfe", b"[" * 100_000]
OUTSIDE = ["../words.json", "/etc/passwd", "a/../words.json", "./words.json", "", "a//b", "c:\\x"]


def test_a_whole_bundle_is_read(folder: Path) -> None:
    found = read_bundle(folder)
    assert found.bundle.description.name == "echo"
    assert found.bundle.description.version == 1
    assert found.file("model.onnx").is_file()
    assert len(found.digest) == 64
    with pytest.raises(BundleError, match="not among"):
        found.file("bundle.json")


def test_unknown_fields_are_ignored(folder: Path) -> None:
    small.edit_json(folder, invented_later={"deep": [1]})
    assert read_bundle(folder).bundle.description.name == "echo"


def test_the_digest_changes_with_any_file(folder: Path) -> None:
    before = read_bundle(folder).digest
    small.change(folder, words=small.tokenizer().encode() + b" ")
    assert read_bundle(folder).digest != before


@pytest.mark.parametrize("name", ["model.onnx", "words.json", "samples.npz"])
def test_a_changed_file(folder: Path, name: str) -> None:
    data = bytearray((folder / name).read_bytes())
    data[-1] ^= 1
    (folder / name).write_bytes(data)
    refused(folder, f"{name} is not the exported file: its SHA-256 differs")


@pytest.mark.parametrize("name", ["bundle.json", "model.onnx", "words.json", "samples.npz"])
def test_a_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    refused(folder, f"{name} is missing")


@pytest.mark.parametrize("text", BROKEN)
def test_broken_json(folder: Path, text: bytes) -> None:
    (folder / "bundle.json").write_bytes(text)
    refused(folder, "bundle.json is not a bundle in JSON")


@pytest.mark.parametrize("version", [0, 2, 2**31 - 1])
def test_another_schema(folder: Path, version: int) -> None:
    small.edit_json(folder, schema_version=version)
    refused(folder, f"schema version {version}; this release reads 1 to 1")


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leaves_the_folder(folder: Path, path: str) -> None:
    (folder.parent / "words.json").write_bytes((folder / "words.json").read_bytes())

    def leave(bundle: bundle_pb2.Bundle) -> None:
        next(each for each in bundle.files if each.path == "words.json").path = path

    small.change(folder, leave)
    refused(folder, "is not a plain file name inside the bundle")


@pytest.mark.parametrize("name", ["bundle.json", "model.onnx", "words.json"])
def test_a_symbolic_link_in_place_of_a_file(folder: Path, name: str, tmp_path: Path) -> None:
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    refused(folder, f"{name} is a symbolic link")


def test_a_symbolic_link_in_place_of_a_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / "words.json").rename(tmp_path / "elsewhere" / "words.json")
    (folder / "inner").symlink_to(tmp_path / "elsewhere")

    def nest(bundle: bundle_pb2.Bundle) -> None:
        next(each for each in bundle.files if each.path == "words.json").path = "inner/words.json"

    small.change(folder, nest)
    refused(folder, "is a symbolic link")


def test_a_symbolic_link_in_place_of_the_version_or_the_model(folder: Path) -> None:
    version, model = folder.parent / "2", folder.parent.parent / "other"
    version.symlink_to(folder)
    refused(version, "not a regular folder")
    model.symlink_to(folder.parent)
    refused(model / "1", "not a regular folder")
    refused(folder.parent / "3", "not a regular folder")


def test_a_bundle_goes_by_the_name_and_version_of_its_folder(folder: Path) -> None:
    before = read_bundle(folder)
    promoted = folder.parent.parent / "promoted" / "7"
    shutil.copytree(folder, promoted)
    for place, name, version in ((folder.rename(folder.parent / "2"), "echo", 2), (promoted, "promoted", 7)):
        found = read_bundle(place)
        assert (found.bundle.description.name, found.bundle.description.version) == (name, version)
        assert (found.origin, found.digest) == ("echo/1", before.digest)


@pytest.mark.parametrize("version", ["0", "01", "-1", "latest"])
def test_a_version_that_is_none(folder: Path, version: str) -> None:
    refused(folder.rename(folder.parent / version), "its folder is not <model>/<version>")


@pytest.mark.parametrize("model", ["Echo", "echo.old", ".echo"])
def test_a_name_that_no_model_may_have(folder: Path, model: str) -> None:
    renamed = folder.parent.rename(folder.parent.parent / model)
    refused(renamed / "1", "its folder is not <model>/<version>")


def in_a_branch(node: NodeProto) -> NodeProto:
    """An `If` that holds a node."""
    output = helper.make_tensor_value_info("chosen", TensorProto.FLOAT, ["batch", "word"])
    branch = helper.make_graph([node], "branch", [], [output])
    return helper.make_node("If", ["condition"], ["chosen"], then_branch=branch, else_branch=branch)


@pytest.mark.parametrize("within", [lambda node: node, lambda node: in_a_branch(in_a_branch(node))])
def test_an_operator_that_is_not_allowed(folder: Path, within: Callable[[NodeProto], NodeProto]) -> None:
    draw = helper.make_node("RandomNormalLike", ["echo"], ["chosen"])
    small.change(folder, model=small.graph(within(draw)).SerializeToString())
    refused(folder, r"model.onnx uses the operator ai.onnx.RandomNormalLike, which is not allowed")


def test_a_sum_that_is_wrong_on_several_threads(folder: Path) -> None:
    add = helper.make_node("ScatterND", ["echo", "places", "updates"], ["chosen"], reduction="add")
    small.change(folder, model=small.graph(add).SerializeToString())
    refused(folder, "model.onnx uses ScatterND with a reduction")
    plain = helper.make_node("ScatterND", ["echo", "places", "updates"], ["chosen"])
    small.change(folder, model=small.graph(plain).SerializeToString())
    assert read_bundle(folder)


@pytest.mark.parametrize("inner", [lambda node: node, in_a_branch])
def test_an_operator_that_is_not_allowed_in_a_function(folder: Path, inner: Callable[[NodeProto], NodeProto]) -> None:
    draw = inner(helper.make_node("RandomNormalLike", ["x"], ["chosen"]))
    function = helper.make_function(
        "own", "Draw", ["x", "condition"], ["chosen"], [draw], [helper.make_opsetid("", 20)]
    )
    call = helper.make_node("Draw", ["echo", "ids_mask"], ["drawn"], domain="own")
    small.change(folder, model=small.graph(call, functions=(function,)).SerializeToString())
    refused(folder, "RandomNormalLike")


def test_a_function_of_allowed_operators_is_allowed(folder: Path) -> None:
    function = helper.make_function(
        "own", "Twice", ["x"], ["y"], [helper.make_node("Add", ["x", "x"], ["y"])], [helper.make_opsetid("", 20)]
    )
    call = helper.make_node("Twice", ["echo"], ["twice"], domain="own")
    small.change(folder, model=small.graph(call, functions=(function,)).SerializeToString())
    assert read_bundle(folder)


@pytest.mark.parametrize("domain", ["own", "com.microsoft", "ai.onnx.ml", "ai.onnx.preview.training"])
def test_an_operator_of_a_domain_that_is_not_allowed(folder: Path, domain: str) -> None:
    small.change(folder, model=small.graph(helper.make_node("Run", ["echo"], ["x"], domain=domain)).SerializeToString())
    refused(folder, rf"{domain}\.Run")


@pytest.mark.parametrize("place", ["initializer", "attribute", "sparse"])
@pytest.mark.parametrize("location", ["/etc/passwd", "../../secret", "unlisted.data"])
def test_weights_outside_the_bundle(folder: Path, location: str, place: str) -> None:
    (folder / "unlisted.data").write_bytes(bytes(16))
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    model = small.graph()
    if place == "initializer":
        model.graph.initializer.append(tensor)
    elif place == "sparse":
        model.graph.sparse_initializer.add(values=tensor, dims=[4])
    else:
        node = model.graph.node.add(op_type="Constant", output=["w"])
        node.attribute.add(name="value", type=4, t=tensor)
    small.change(folder, model=model.SerializeToString())
    refused(folder, "reads weights from a file that the bundle does not list")


def test_a_graph_that_is_none(folder: Path) -> None:
    small.change(folder, model=b"\x08no graph")
    refused(folder, "model.onnx is not a readable ONNX graph")


@pytest.mark.parametrize("value", [0.51, -1e-6, math.inf, math.nan])
@pytest.mark.parametrize("field", ["absolute", "relative"])
def test_a_tolerance_that_no_export_needs(value: float, field: str) -> None:
    bundle = small.bundle()
    place = len(bundle.tolerances)
    setattr(bundle.tolerances.add(provider="CUDAExecutionProvider", name="echo"), field, value)
    with pytest.raises(BundleError, match=rf"tolerances\[{place}\].{field} is .*must be"):
        check_bounds(bundle)


def many_results(bundle: bundle_pb2.Bundle, count: int) -> None:
    for number in range(count):
        bundle.description.results.add(name=f"r{number}").embedding.output = "echo"


def many_steps(bundle: bundle_pb2.Bundle, count: int) -> None:
    bundle.preprocessing[0].steps.extend([bundle.preprocessing[0].steps[0]] * count)


def many_inputs(bundle: bundle_pb2.Bundle, count: int) -> None:
    for number in range(count):
        tensor = bundle.description.inputs.add(name=f"in{number}").tensors.add()
        tensor.CopyFrom(bundle.description.inputs[0].tensors[0])
        tensor.name = f"ids{number}"
        bundle.description.inputs[-1].kind = model_pb2.INPUT_KIND_TENSOR
        bundle.tensors.add(tensor=tensor.name, mask=f"mask{number}")
        labels = bundle.description.label_sets.add()
        labels.CopyFrom(bundle.description.label_sets[0])
        labels.name, labels.input, labels.tensor = f"in{number}", f"in{number}", tensor.name


def many_outputs(bundle: bundle_pb2.Bundle, count: int) -> None:
    for number in range(count):
        bundle.description.outputs.add().CopyFrom(bundle.description.outputs[0])
        bundle.description.outputs[-1].name = f"out{number}"
        bundle.graphs[0].outputs.append(f"out{number}")


def many_label_sets(bundle: bundle_pb2.Bundle, count: int) -> None:
    """Each is the next one's parent, so that the last has all of them as ancestors."""
    for number in range(count):
        labels = bundle.description.label_sets.add()
        labels.CopyFrom(bundle.description.label_sets[0])
        labels.name, labels.parent = f"l{number}", f"l{number - 1}" if number else ""


def many_maps(bundle: bundle_pb2.Bundle, count: int) -> None:
    for number in range(count):
        bundle.description.maps.add().CopyFrom(bundle.description.maps[0])
        bundle.maps.add().CopyFrom(bundle.maps[0])
        bundle.description.maps[-1].name = bundle.maps[-1].map = bundle.maps[-1].output = f"m{number}"
        bundle.graphs[0].outputs.append(f"m{number}")


LISTS = [
    (many_results, "description.results has 10000 entries, more than 128"),
    (many_steps, r"preprocessing\[0\].steps has 10001 entries, more than 32"),
    (many_inputs, "description.inputs has 10001 entries, more than 1024"),
    (many_outputs, "description.outputs has 10001 entries, more than 1024"),
    (many_label_sets, "description.label_sets has 10002 entries, more than 2048"),
    (many_maps, "description.maps has 10001 entries, more than 2048"),
]


@pytest.mark.parametrize(("grow", "reason"), LISTS)
def test_more_of_anything_than_models_have(grow: Callable[[bundle_pb2.Bundle, int], None], reason: str) -> None:
    bundle = small.bundle()
    grow(bundle, 10_000)
    with pytest.raises(BundleError, match=reason):
        check_bounds(bundle)


def work(bundle: bundle_pb2.Bundle) -> int:
    """Count what is called and resumed while a bundle is checked."""
    counted = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal counted
        counted += 1

    sys.setprofile(count)
    try:
        check_bounds(bundle)
        check_description(bundle)
        check_bindings(bundle)
        Preprocessor.from_parts(bundle, {"words.json": small.tokenizer()})
    finally:
        sys.setprofile(None)
    return counted


@pytest.mark.parametrize("grow", [grow for grow, _ in LISTS if grow is not many_steps])
def test_checks_take_time_in_proportion_to_what_is_listed(grow: Callable[[bundle_pb2.Bundle, int], None]) -> None:
    none, once, twice = (small.bundle() for _ in range(3))
    grow(once, 50)
    grow(twice, 100)
    one, other = (work(each) - work(none) for each in (once, twice))
    assert other < 2.3 * one


def test_a_file_that_changes_after_it_was_hashed_is_seen(folder: Path) -> None:
    found = read_bundle(folder)
    found.check_unchanged()
    graph = found.path / "model.onnx"
    moved = graph.with_suffix(".moved")
    shutil.copy2(graph, moved)
    moved.replace(graph)  # the same content and time, and yet another file
    with pytest.raises(BundleError, match=r"model\.onnx changed while"):
        found.check_unchanged()
    found = read_bundle(found.path)
    (found.path / "bundle.json").write_bytes((found.path / "bundle.json").read_bytes())
    with pytest.raises(BundleError, match=r"bundle\.json changed while"):
        found.check_unchanged()
    found = read_bundle(found.path)
    graph.unlink()
    with pytest.raises(BundleError, match=r"model\.onnx changed while"):
        found.check_unchanged()
