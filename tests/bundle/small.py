"""A small bundle written by hand: token ids are echoed, a mask becomes a map."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import json_format
from onnx import ModelProto, NodeProto, TensorProto, helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from limelight.v1 import attention_pb2, model_pb2, values_pb2
from limelight_bundle.maps import MapWeights
from limelight_bundle.reader import BundleFolder
from limelight_bundle.samples import Sample, samples_file
from limelight_bundle.tolerance import default_tolerances
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.writer import write_bundle

WORDS = ("<pad>", "<unk>", "a", "cat", "sat", "the", ".", "!", "?", "naïve", "😀", "𝒳y")
LIMIT = 6


def tokenizer(**vocabulary: int) -> str:
    """Words at white space and punctuation."""
    known = {word: number for number, word in enumerate(WORDS)} | vocabulary
    made = Tokenizer(models.WordLevel(known, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]  # type: ignore[list-item]
    )
    return str(made.to_str())


def pairs() -> str:
    """The same, framing one text or two: `[CLS]` is 12, `[SEP]` 13."""
    made = Tokenizer.from_str(tokenizer())
    made.add_special_tokens(["[CLS]", "[SEP]"])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 12), ("[SEP]", 13)],
    )
    return str(made.to_str())


def description(name: str = "echo") -> model_pb2.ModelDescription:
    """Describe the model."""
    word = model_pb2.Dimension(name="word", maximum=LIMIT)
    ids = model_pb2.TensorDescription(
        name="ids",
        data_type=values_pb2.DATA_TYPE_INT64,
        dimensions=[word],
        minimum=1,
        maximum=len(WORDS) - 1,
    )
    tokens = attention_pb2.LABEL_KIND_TOKENS
    return model_pb2.ModelDescription(
        name=name,
        inputs=[model_pb2.InputDescription(name="text", kind=model_pb2.INPUT_KIND_TEXT, tensors=[ids])],
        outputs=[
            model_pb2.OutputDescription(name="echo", data_type=values_pb2.DATA_TYPE_FLOAT32, dimensions=[word]),
        ],
        maps=[
            model_pb2.MapDescription(
                name="pool", query_labels="one", key_labels="words", heads=1, form=model_pb2.MAP_FORM_DENSE
            )
        ],
        label_sets=[
            model_pb2.LabelSetDescription(name="words", kind=tokens, input="text", tensor="ids", dimension="word"),
            model_pb2.LabelSetDescription(name="one", kind=attention_pb2.LABEL_KIND_ONE),
        ],
        limits=model_pb2.Limits(max_characters=60),
        examples=[values_pb2.Instance(inputs={"text": values_pb2.Value(text="the cat")})],
    )


def bundle(name: str = "echo") -> bundle_pb2.Bundle:
    """Make the bundle's message, but for version and files."""
    tokenize = bundle_pb2.Tokenize(tokenizer="words.json", tensor="ids")
    return bundle_pb2.Bundle(
        description=description(name),
        graphs=[
            bundle_pb2.OnnxGraph(name="main", file="model.onnx", inputs=["ids", "ids_mask"], outputs=["echo", "pool"])
        ],
        tensors=[bundle_pb2.TensorBinding(tensor="ids", mask="ids_mask")],
        preprocessing=[bundle_pb2.Preprocessing(input="text", steps=[bundle_pb2.PreprocessingStep(tokenize=tokenize)])],
        maps=[
            bundle_pb2.MapBinding(
                map="pool", graph="main", output="pool", axes=[bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_KEY]
            )
        ],
        tolerances=default_tolerances(["pool"]),
    )


def graph(*more: NodeProto, functions: tuple[object, ...] = ()) -> ModelProto:
    """Make the graph, with more nodes where asked for."""
    nodes = [
        helper.make_node("Cast", ["ids"], ["echo"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["ids_mask"], ["pool"], to=TensorProto.FLOAT),
    ]

    def value(name: str, kind: int) -> object:
        return helper.make_tensor_value_info(name, kind, ["batch", "word"])

    made = helper.make_graph(
        [*nodes, *more],
        "echo",
        [value("ids", TensorProto.INT64), value("ids_mask", TensorProto.BOOL)],
        [value("echo", TensorProto.FLOAT), value("pool", TensorProto.FLOAT)],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    return helper.make_model(made, opset_imports=opsets, functions=functions, ir_version=10)


def sample() -> Sample:
    """The answer to the one example."""
    ids = np.array([5, 3], np.int64)
    pool = MapWeights(np.ones((1, 1, 2), np.float32))
    return Sample({"ids": ids, "ids_mask": np.ones(2, bool)}, {"echo": ids.astype(np.float32)}, {"pool": pool})


def files() -> dict[str, bytes | Path]:
    """Give the bundle's files by name."""
    return {
        "model.onnx": graph().SerializeToString(),
        "words.json": tokenizer().encode(),
        "samples.npz": samples_file([sample()]),
    }


def write(repository: Path) -> BundleFolder:
    """Write the bundle, `echo/1`."""
    return write_bundle(repository, bundle(), files())


def change(folder: Path, edit: Callable[[bundle_pb2.Bundle], None] | None = None, **contents: bytes) -> None:
    """Change a bundle behind its back, with the hashes of its files right again."""
    message = bundle_pb2.Bundle()
    path = folder / "bundle.json"
    json_format.Parse(path.read_text(encoding="utf-8"), message)
    for name, content in contents.items():
        file = {"model": "model.onnx", "samples": "samples.npz", "words": "words.json"}[name]
        (folder / file).write_bytes(content)
        next(each for each in message.files if each.path == file).sha256 = hashlib.sha256(content).hexdigest()
    if edit is not None:
        edit(message)
    path.write_text(json_format.MessageToJson(message, preserving_proto_field_name=True), encoding="utf-8")


def put(message: Any, path: str, value: Any) -> None:
    """Change a message at a path such as `maps.0.output`: None clears, a dictionary is one entry more."""
    *way, last = path.split(".")
    for key in way:
        message = message[int(key)] if key.isdigit() else getattr(message, key)
    if value is None:
        message.ClearField(last)
    elif isinstance(value, dict):
        getattr(message, last).add(**value)
    else:
        setattr(message, last, value)


def edit_json(folder: Path, **fields: object) -> None:
    """Set fields of bundle.json, known or not."""
    content = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    (folder / "bundle.json").write_text(json.dumps(content | fields), encoding="utf-8")
