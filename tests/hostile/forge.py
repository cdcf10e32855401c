"""Makes bundles into what somebody could make of them who means harm: hashes and all."""

import hashlib
import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
from onnx import parser


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a bundle's description."""
    path = folder / "bundle.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def replace_file(folder: Path, name: str, data: bytes) -> None:
    """Put other content into a file, or add it, and its true hash into the description."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()

    def rehash(content: dict[str, Any]) -> None:
        content["files"] = [each for each in content["files"] if each["path"] != name]
        content["files"].append({"path": name, "sha256": digest})

    edit(folder, rehash)


def copied(original: Path, name: str) -> Path:
    """Copy a bundle, under another name of its own, into the same repository."""
    folder = original.parent.parent / name / "1"
    shutil.copytree(original, folder)
    edit(folder, lambda content: content["description"].update(name=name))
    return folder


def change_graph(folder: Path, change: Callable[[onnx.ModelProto], object], file: str = "model.onnx") -> None:
    """Change a graph of a bundle."""
    model = onnx.load(str(folder / file), load_external_data=False)
    change(model)
    replace_file(folder, file, model.SerializeToString())


def put_behind(model: onnx.ModelProto, output: str, nodes: str, **values: Any) -> None:
    """Put nodes between an output of a graph and what computed it, which they find as `before`.

    nodes: as onnx.parser reads them, without braces; they put out `output`. values: initialisers, by name.
    """
    for node in model.graph.node:
        node.output[:] = ["before" if each == output else each for each in node.output]
        node.input[:] = ["before" if each == output else each for each in node.input]
    parsed = parser.parse_graph(f"agraph (float[N] before) => (float[N] {output}) {{ {nodes} }}")
    model.graph.node.extend(parsed.node)
    for name, value in values.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))


# A loop that adds nothing to each number, so many times as `trips` says.
LOOP = """
    carried = Loop (trips, always, before) <body = inner (int64 i, bool go, float[M] x) => (bool more, float[M] z) {
        more = Identity(go)
        z = Add(x, nothing)
    }>
"""


def zeros_deflated(mebibytes: int) -> bytes:
    """Give a stream of zeros as a zip archive holds it, a thousandth of their size, without compressing all of them."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = compressor.compress(bytes(2**20)) + compressor.flush(zlib.Z_FULL_FLUSH)
    return block * mebibytes + compressor.flush()
