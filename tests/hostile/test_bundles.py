"""Bundles that mean harm to who loads them, in a repository with a good one: that one serves, and each says why it does
not.
"""

import base64
import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import limelight
from tests.hostile.forge import LOOP, change_graph, copied, edit, put_behind, replace_file, zeros_deflated
from tests.kit import bundles
from tests.kit.processes import alive, children, process, started
from tests.kit.serving import eventually

MEMORY = 600 * 2**20
LIMITS = {"check_cpu_seconds": 2, "check_seconds": 600.0, "max_check_bytes": MEMORY, "load_wait_seconds": 0.0}


def loops(folder: Path) -> None:
    """Never ends, though every operator in it is allowed."""
    values = {"trips": np.array(2**62), "always": np.array(True), "nothing": np.float32(0)}
    change_graph(folder, lambda model: put_behind(model, "logits", LOOP + "logits = Identity(carried)", **values))


def inflates_in_the_graph(folder: Path) -> None:
    """A few bytes of graph that make 40 GB of zeros."""
    nodes = """
        zeros = ConstantOfShape(many)
        sum = ReduceSum <keepdims = 0> (zeros)
        logits = Add(before, sum)
    """
    change_graph(folder, lambda model: put_behind(model, "logits", nodes, many=np.array([10**10])))


def nests_functions(folder: Path) -> None:
    """Functions that call each other twice each, thirty deep: 2**30 nodes once they are written out."""

    def change(model: onnx.ModelProto) -> None:
        version = model.opset_import[0].version
        imports = [onnx.helper.make_opsetid("", version), onnx.helper.make_opsetid("laughs", 1)]
        for depth in range(30):
            kind, domain = (f"F{depth - 1}", "laughs") if depth else ("Identity", "")
            nodes = [
                onnx.helper.make_node(kind, ["x"], ["half"], domain=domain),
                onnx.helper.make_node(kind, ["half"], ["y"], domain=domain),
            ]
            model.functions.append(onnx.helper.make_function("laughs", f"F{depth}", ["x"], ["y"], nodes, imports))
        model.opset_import.add(domain="laughs", version=1)
        put_behind(model, "logits", "logits = Identity(before)")
        model.graph.node[-1].op_type, model.graph.node[-1].domain = "F29", "laughs"

    change_graph(folder, change)


def unpacks(folder: Path) -> None:
    """3 MB of samples, of which one says that it unpacks to 3.2 GB, and does."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (800 * 2**20,)})
    size = 3200 * 2**20
    stored = zlib.compressobj(0, zlib.DEFLATED, -15)
    data = stored.compress(header.getvalue()) + stored.flush(zlib.Z_FULL_FLUSH) + zeros_deflated(3200)
    packed = io.BytesIO((folder / "samples.npz").read_bytes())
    with zipfile.ZipFile(packed, "a") as forged:
        forged.writestr("bomb.npy", data)
        bomb = forged.infolist()[-1]
        bomb.compress_type, bomb.file_size, bomb.CRC = zipfile.ZIP_DEFLATED, size + len(header.getvalue()), 0
    content = bytearray(packed.getvalue())
    content[bomb.header_offset : bomb.header_offset + 30] = bomb.FileHeader(zip64=False)[:30]
    replace_file(folder, "samples.npz", bytes(content))


def pretends_to_be_large(folder: Path) -> None:
    """A file of 8 GB that takes no place on the disk."""
    with (folder / "weights.bin").open("wb") as sparse:
        sparse.truncate(8 * 2**30)
    edit(folder, lambda content: content["files"].append({"path": "weights.bin", "sha256": "0" * 64}))


def lists_files(folder: Path) -> None:
    """5 MB of names."""
    names = [{"path": f"file-{number}", "sha256": "0" * 64} for number in range(50_000)]
    edit(folder, lambda content: content["files"].extend(names))


def change_tokenizer(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = next(each for each in folder.iterdir() if each.suffix == ".json" and each.name != "bundle.json")
    content = json.loads(path.read_text())
    change(content)
    replace_file(folder, path.name, json.dumps(content).encode())


def panics(folder: Path) -> None:
    """A character map of 15 bytes, which the library unwraps without a look."""
    charsmap = base64.b64encode(b"\x04\0\0\0" + b"\0" * 11).decode()
    change_tokenizer(
        folder, lambda content: content.update(normalizer={"type": "Precompiled", "precompiled_charsmap": charsmap})
    )


def panics_inside(folder: Path) -> None:
    """A character map that is no text at all: the library panics while it reads it."""
    change_tokenizer(
        folder, lambda content: content.update(normalizer={"type": "Precompiled", "precompiled_charsmap": [0] * 15})
    )


def explodes(folder: Path) -> None:
    """Forty times, each letter becomes two."""
    steps = [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"} for _ in range(40)]
    change_tokenizer(folder, lambda content: content.update(normalizer={"type": "Sequence", "normalizers": steps}))


def repeats(folder: Path) -> None:
    """A frame that holds a text a thousand times."""
    single = [{"Sequence": {"id": "A", "type_id": 0}}] * 1000
    frame = {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": {}}
    change_tokenizer(folder, lambda content: content.update(post_processor=frame))


def takes_an_operators_place(folder: Path) -> None:
    """A function by the name of an operator that is allowed."""

    def change(model: onnx.ModelProto) -> None:
        imports = [onnx.helper.make_opsetid("", model.opset_import[0].version)]
        inner = [onnx.helper.make_node("Mul", ["x", "x"], ["y"])]
        model.functions.append(onnx.helper.make_function("", "Relu", ["x"], ["y"], inner, imports))
        put_behind(model, "logits", "logits = Relu(before)")

    change_graph(folder, change)


def outside() -> onnx.TensorProto:
    """A tensor whose numbers lie in another bundle."""
    tensor = onnx.TensorProto(name="secret", data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../../tiny/1/model.onnx")
    return tensor


def takes_weights_in_a_branch(folder: Path) -> None:
    """Weights of another bundle, in one branch of two."""

    def change(model: onnx.ModelProto) -> None:
        nodes = """
            logits = If (never) <
                then_branch = one () => (float[N] a) { a = Add(before, before) },
                else_branch = other () => (float[N] b) { b = Identity(before) }
            >
        """
        put_behind(model, "logits", nodes, never=np.array(False))
        model.graph.node[-1].attribute[0].g.initializer.append(outside())

    change_graph(folder, change)


def calls_own(model: onnx.ModelProto, kind: str, domain: str) -> onnx.FunctionProto:
    """Have a model compute its logits by a function of its own, which is one node; gives the function."""
    imports = [onnx.helper.make_opsetid("", model.opset_import[0].version), onnx.helper.make_opsetid("own", 1)]
    inner = [onnx.helper.make_node(kind, ["x"], ["y"], domain=domain)]
    model.functions.append(onnx.helper.make_function("own", "Same", ["x"], ["y"], inner, imports))
    model.opset_import.add(domain="own", version=1)
    put_behind(model, "logits", "logits = Identity(before)")
    model.graph.node[-1].op_type, model.graph.node[-1].domain = "Same", "own"
    return model.functions[-1]


def takes_weights_in_a_function(folder: Path) -> None:
    """Weights of another bundle, as what a function takes where it is given nothing."""

    def change(model: onnx.ModelProto) -> None:
        attributes = calls_own(model, "Identity", "").attribute_proto
        attributes.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(outside())

    change_graph(folder, change)


def calls_itself(folder: Path) -> None:
    """A function that is written out for ever."""
    change_graph(folder, lambda model: calls_own(model, "Same", "own"))


def is_of_another_format(folder: Path) -> None:
    """A graph that the runtime would read, and the check of operators would not."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "model.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    replace_file(folder, "model.onnx", (folder / "model.ort").read_bytes())


def has_another_name(folder: Path) -> None:
    """The same, by the name that has the runtime read it."""
    is_of_another_format(folder)
    replace_file(folder, "model.ort", (folder / "model.ort").read_bytes())
    edit(folder, lambda content: content["graphs"][0].update(file="model.ort"))


def describes_other_outputs(folder: Path) -> None:
    """Four classes in the description, three in the answer."""

    def change(content: dict[str, Any]) -> None:
        content["description"]["outputs"][0]["dimensions"][-1]["size"] = 4

    edit(folder, change)


def cannot_be_read(folder: Path) -> None:
    """A name that leads nowhere but to itself."""
    (folder / "bundle.json").unlink()
    os.mkfifo(folder / "bundle.json")


ATTACKS = {
    loops: "its check takes more than the 2 s of a core",
    inflates_in_the_graph: "bytes of memory that it may",
    nests_functions: "more than 1000000 nodes after its functions are inlined",
    unpacks: "samples.npz unpacks to 3355",
    pretends_to_be_large: "its files have 8589",
    lists_files: "more than 1000 files",
    panics: "character map",
    panics_inside: "tokenizer file is invalid",
    explodes: "can make a text explode",
    repeats: "repeats a text 2000 times",
    takes_an_operators_place: "would replace an operator",
    takes_weights_in_a_branch: "reads weights from a file that the bundle does not list",
    takes_weights_in_a_function: "reads weights from a file that the bundle does not list",
    calls_itself: "call each other more than 100 deep",
    is_of_another_format: "not a readable ONNX graph",
    has_another_name: "must have a file name that ends with .onnx",
    describes_other_outputs: "has 3 labels, but the output 'logits' has size 4",
    cannot_be_read: "bundle.json is missing",
}


@dataclass(frozen=True)
class Serving:
    """A server that was started on the attacks."""

    pid: int
    address: str
    logged: list[str]
    repository: Path


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    repository = tmp_path_factory.mktemp("attacks")
    good = bundles.tiny(repository).path
    for attack in ATTACKS:
        attack(copied(good, attack.__name__))
    flags = ("--repository", str(repository), "--port", "0", "--metrics-port", "0", "--provider", "cpu")
    # The checks of an engine in a process of its own are its supervisor's.
    with process(*flags, "--frontends", "1", limits=LIMITS) as (running, logged):
        yield Serving(running.pid, started(running), logged, repository)


def status(client: limelight.Client, name: str) -> Any:
    return next(each for each in client.models() if each.name == name)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda each: each.__name__)
def test_what_means_harm_is_refused_with_a_reason_and_the_good_model_answers(
    attack: Callable[[Path], None], serving: Serving
) -> None:
    with limelight.Client(serving.address) as client:
        assert "logits" in client.predict("tiny", client.model("tiny").examples[0]).outputs
        assert eventually(lambda: status(client, attack.__name__).state == "failed", 600)
        found = status(client, attack.__name__)
        assert ATTACKS[attack] in found.reason
        assert str(serving.repository) not in found.reason and "Traceback" not in found.reason
        assert "logits" in client.predict("tiny", client.model("tiny").examples[0]).outputs


def test_the_checking_processes_end_once_there_is_nothing_to_check(serving: Serving) -> None:
    with limelight.Client(serving.address) as client:
        assert eventually(lambda: all(each.state != "loading" for each in client.models()), 600)
    assert eventually(lambda: not children(serving.pid, "limelight_service.checking"), 60)


def test_a_bundle_that_is_being_checked_outlives_no_server(tmp_path: Path) -> None:
    loops(copied(bundles.tiny(tmp_path).path, "loops"))
    flags = ("--repository", str(tmp_path), "--port", "0", "--metrics-port", "0", "--provider", "cpu")
    with process(*flags) as (running, _):
        assert eventually(lambda: bool(children(running.pid, "limelight_service.checking")), 60)
        checking = children(running.pid, "limelight_service.checking")
        running.kill()
        assert eventually(lambda: not any(alive(pid) for pid in checking), 60)
