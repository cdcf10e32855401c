"""Bundles whose description is untrue, a lie a field: each is refused with a reason, or answers as the graphs do."""

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from limelight.v1 import model_pb2, service_pb2, values_pb2
from limelight_bundle.v1 import bundle_pb2
from limelight_service.checking.verdict import Refused, Verdict
from limelight_service.engine.runtime.providers import choose_provider
from limelight_service.settings import Settings
from tests.hostile.forge import edit
from tests.kit import bundles
from tests.kit.serving import remembered_checks, serving

pytestmark = pytest.mark.slow
PROVIDER = choose_provider("cpu", workers=1)
MOST = 2**31 - 1
BASES = {"tiny": bundles.tiny, "echo": bundles.echo, "noisy": bundles.noisy, "web": bundles.web, "paper": bundles.paper}


def reference(**changed: Any) -> dict[str, Any]:
    """A reference of attention, with something changed."""
    return {"map": "pool", "signal": "entropy", "inputs": 1, "bins": [1] * 10, **changed}


# Field by field of a bundle of one's own: where, what it becomes, and the reason. A path's number is a place in a list.
LIES: list[tuple[str, str, Any, str]] = [
    ("tiny", "description.maps.0.heads", MOST, "heads is 2147483647; it must be from 1 to 4096"),
    ("tiny", "description.maps.0.heads", -2, "heads is -2"),
    ("tiny", "description.maps.0.heads", 0, "heads is 0"),
    ("tiny", "description.maps.0.heads", 3, "has 3 heads, but 'sides' has another number of entries"),
    ("tiny", "description.maps.2.heads", 4096, "has no head axis"),
    ("tiny", "description.maps.0.layer", -1, "layer is -1"),
    ("tiny", "description.maps.0.layer", MOST, "layer is 2147483647"),
    ("tiny", "description.maps.0.features", 7, "has 7 features, which its output's axes contradict"),
    ("tiny", "description.maps.0.name", "pool", "'pool' is used for more than one map"),
    ("tiny", "description.maps.0.name", "", "a map has no name"),
    ("tiny", "description.maps.0.query_labels", "nothing", "refers to the label set 'nothing'"),
    ("tiny", "description.maps.0.key_labels", "one", "has shape"),
    ("tiny", "description.maps.2.query_labels", "tokens", "is of shape"),
    ("tiny", "description.maps.0.quantities.0", "QUANTITY_NORMS", "is used for more than one quantity"),
    ("tiny", "description.maps.0.interventions", ["INTERVENTION_KIND_HEAD_SCALES"], "interventions"),
    ("tiny", "description.maps.0.kind", 99, "kind is 99, which is unknown to this release"),
    ("tiny", "description.maps.0.form", "MAP_FORM_EDGES", "but their tensor has no rows"),
    ("tiny", "description.outputs.0.name", "features", "'features' is used for more than one output"),
    ("tiny", "description.outputs.0.name", "nothing", "refers to the output 'logits', which is not described"),
    ("tiny", "description.outputs.1.name", "nothing", "has no output ['nothing']"),
    ("tiny", "description.outputs.0.data_type", "DATA_TYPE_INT64", "is described as INT64"),
    ("tiny", "description.outputs.0.dimensions.0.size", 4, "has 3 labels, but the output 'logits' has size 4"),
    ("tiny", "description.outputs.1.dimensions.1.size", MOST, "size is 2147483647"),
    ("tiny", "description.outputs.1.dimensions.1.size", 2**24, "described with 16777216 places"),
    ("tiny", "description.outputs.1.dimensions.1.size", -1, "size is -1"),
    ("tiny", "description.outputs.1.dimensions.0.name", "nobody", "which no input decides"),
    ("tiny", "description.outputs.1.dimensions.0.maximum", MOST, "maximum is 2147483647"),
    ("tiny", "description.results.0.name", "words", "'words' is used for more than one result"),
    ("tiny", "description.results.0.classes.labels", ["only one"], "has 1 labels, but the output 'logits' has size 3"),
    ("tiny", "description.results.0.classes.activation", 12, "activation is 12"),
    ("tiny", "description.results.1.classes.label_set", "nothing", "refers to the label set 'nothing'"),
    ("tiny", "description.results.1.classes.output", "logits", "needs an output with 2 axes"),
    ("tiny", "description.results.0", {"name": "mood"}, "is of a kind unknown"),
    ("tiny", "description.results.0", {"name": "mood", "sequence": {"max_new_tokens": 4}}, "does not generate"),
    ("tiny", "description.label_sets.0.name", "one", "'one' is used for more than one label set"),
    ("tiny", "description.label_sets.0.tensor", "nothing", "refers to the tensor 'nothing'"),
    ("tiny", "description.label_sets.0.input", "nothing", "refers to the input 'nothing'"),
    ("tiny", "description.label_sets.0.dimension", "nothing", "refers to the axis 'nothing'"),
    ("tiny", "description.label_sets.0.parent", "nothing", "has the parent 'nothing'"),
    ("tiny", "description.label_sets.0.parent", "tokens", "is its own ancestor"),
    ("tiny", "description.label_sets.0.grid", {"rows": MOST, "columns": MOST}, "rows is 2147483647"),
    ("tiny", "description.label_sets.0.grid", {"rows": 4096, "columns": 4096}, "must have a grid exactly if"),
    ("tiny", "description.label_sets.0.kind", "LABEL_KIND_OUTPUT_STEPS", "does not generate"),
    ("tiny", "description.label_sets.1.kind", "LABEL_KIND_HOPS", "neither names nor a tensor to count"),
    ("tiny", "description.label_sets.2.names", ["left"], "has 2 heads, but 'sides' has another number of entries"),
    ("tiny", "description.limits.max_characters", -1, "max_characters is -1"),
    ("tiny", "description.limits.max_pixels", -1, "max_pixels is -1"),
    ("tiny", "description.inputs.0.name", "", "input has no name"),
    ("tiny", "description.inputs.0.optional", True, "is optional, but a graph needs 'ids'"),
    ("tiny", "description.inputs.0.tensors.0.dimensions.0.size", 32, "is int64 of shape"),
    ("tiny", "description.inputs.0.tensors.0.dimensions.0.maximum", MOST, "maximum is 2147483647"),
    ("tiny", "description.inputs.0.tensors.0.dimensions.0.maximum", -1, "maximum is -1"),
    ("tiny", "description.inputs.0.tensors.0.data_type", "DATA_TYPE_FLOAT32", "is described as FLOAT32"),
    ("tiny", "description.inputs.0.tensors.0.maximum", MOST, "taking 2147483647, on which the graph fails"),
    ("tiny", "description.inputs.0.tensors.0.minimum", -1000, "taking -1000, on which the graph fails"),
    ("tiny", "description.inputs.0.tensors.0.minimum", 100, "has the minimum 100 above its maximum"),
    ("tiny", "description.metrics", [{"name": "accuracy", "value": "NaN"}], "value is nan"),
    ("tiny", "description.training_data", {"training_examples": -4}, "training_examples is -4"),
    ("tiny", "graphs.0.outputs.0", "features", "'features' is used for more than one output of the graph main"),
    ("tiny", "graphs.0.outputs.0", "nothing", "has the outputs"),
    ("tiny", "graphs.0.inputs.0", "mask", "'mask' is used for more than one input of the graph main"),
    ("tiny", "graphs.0.packed", ["ids"], "packs tokens by 'ids'"),
    ("tiny", "maps.0.map", "pool", "bound twice"),
    ("tiny", "maps.0.output", "nothing", "bound to 'nothing'"),
    ("tiny", "maps.0.output", "logits", "described with 4 axes, and the graph has 2"),
    ("tiny", "maps.0.output", "", "which main does not output"),
    ("tiny", "maps.0.graph", "nothing", "bound to no output of a graph"),
    ("tiny", "maps.0.quantity", "QUANTITY_NORMS", "bound twice"),
    ("tiny", "maps.0.axes.1", "AXIS_BATCH", "unspecified or repeated axis"),
    ("tiny", "maps.0.axes", ["AXIS_BATCH", "AXIS_HEAD"], "needs the axes batch and key"),
    ("tiny", "tensors.0.tensor", "nothing", "a binding refers to the tensor 'nothing'"),
    ("tiny", "tensors.0.mask", "ids", "'ids' is used for more than one tensor"),
    ("tiny", "tensors.0.pad_value", 0.5, "pad value 0.5, which is no INT64"),
    ("tiny", "tensors.0.pad_value", 1e300, "which is no INT64"),
    ("tiny", "tensors.0.pad_value", "Infinity", "pad_value is inf"),
    ("tiny", "preprocessing.0.input", "nothing", "preprocessing of the input 'nothing'"),
    ("tiny", "tolerances.0.absolute", -1, "absolute is -1"),
    ("tiny", "tolerances.0.relative", "Infinity", "relative is inf"),
    ("tiny", "parity", [{"name": "logits", "cases": -5}], "cases is -5"),
    ("tiny", "description.examples", [], "it has no example, so its answers cannot be checked"),
    ("tiny", "graphs.0.file", "other.onnx", "'other.onnx', which the bundle does not list"),
    ("tiny", "graphs", [], "no graph"),
    ("tiny", "maps", [], "is bound to no output"),
    ("tiny", "attention_references", [reference(map="nothing")], "'nothing' is of a map that is not described"),
    ("tiny", "attention_references", [reference(signal="mood")], "none of the signals entropy, special, largest"),
    ("tiny", "attention_references", [reference(bins=[1] * 9)], "does not have 10 counts"),
    ("tiny", "attention_references", [reference(bins=[0] * 10)], "does not have 10 counts"),
    ("tiny", "attention_references", [reference(bins=[-1] + [1] * 9)], "it must be from 0"),
    ("tiny", "attention_references", [reference(thresholds=[1] * 5)], "does not have 6 thresholds above 0"),
    ("tiny", "attention_references", [reference(thresholds=[0.0] * 6)], "does not have 6 thresholds above 0"),
    ("noisy", "noise.0.tensor.dimensions.0.size", 2**24, "has shape [16777216]"),
    ("noisy", "noise.0.tensor.dimensions.0.size", MOST, "size is 2147483647"),
    ("noisy", "noise.0.tensor.name", "uniform", "'uniform' is used for more than one tensor"),
    ("noisy", "noise.0.tensor.name", "nothing", "read by no graph"),
    ("noisy", "noise.1.tensor.dimensions.0.name", "nothing", "varies along 'nothing'"),
    ("noisy", "noise.0.tensor.data_type", "DATA_TYPE_FLOAT16", "and the graph has tensor(float)"),
    ("noisy", "noise.0.distribution", 17, "distribution is 17"),
    ("echo", "generation.max_new_tokens", MOST, "max_new_tokens is 2147483647"),
    ("echo", "generation.max_new_tokens", 9999, "but the generation has 9999"),
    ("echo", "generation.max_new_tokens", -1, "max_new_tokens is -1"),
    ("echo", "generation.step", "", "refers to the graph ''"),
    ("echo", "generation.encoder", "step", "'step' is used for more than one graph of generation"),
    ("echo", "generation.begin_token", MOST, "cannot be answered"),
    ("echo", "generation.end_token", MOST, "the end token is 2147483647"),
    ("echo", "generation.end_token", -1, "end_token is -1"),
    ("echo", "generation.target_tensor", "nothing", "different tensors"),
    ("echo", "generation.scores_output", "nothing", "lacks the token input or the scores output"),
    ("echo", "generation.token_input", "nothing", ""),
    ("echo", "generation.states.0.batch_axis", 7, "axes, and others for its rows and entries"),
    ("echo", "generation.states.0.batch_axis", -1, "batch_axis is -1"),
    ("echo", "generation.states.0.output", "nothing", "no input and output of the graph"),
    ("echo", "generation.states.1.growing_axis", 0, "lack its batch or growing axis"),
    ("echo", "generation.states.1.growing_axis", 5, "lack its batch or growing axis"),
    ("echo", "generation.states.1.zeros.data_type", "DATA_TYPE_INT64", "is described as INT64"),
    ("echo", "generation.states.1.zeros.dimensions.1.size", 5, "described with 5 places"),
    ("echo", "generation.states.1.zeros.dimensions.1.size", MOST, "size is 2147483647"),
    ("echo", "description.results.0.sequence.label_set", "nothing", "refers to the label set 'nothing'"),
    ("echo", "description.results.0.sequence.target_input", "text", "is not an optional input"),
    ("echo", "description.results.0.sequence.max_new_tokens", 9999, "has max_new_tokens 9999"),
    ("web", "tensors.1.indexes", "nothing", "indexes 'nothing'"),
    ("web", "maps.0.query_index", "logits", ""),
    ("paper", "description.inputs.0.tensors.0.fill", 5, "is filled with 5"),
]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    repository = tmp_path_factory.mktemp("true")
    return {name: make(repository).path for name, make in BASES.items()}


def lied(original: Path, target: Path, path: str, value: Any) -> Path:
    """Copy a bundle with one field changed."""
    shutil.copytree(original, target)

    def change(content: dict[str, Any]) -> None:
        *way, last = path.split(".")
        place: Any = content
        for key in way:
            place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
        place[int(last) if isinstance(place, list) else last] = value

    edit(target, change)
    return target


def checked(folder: Path) -> Verdict:
    return remembered_checks(Settings()).check(folder, PROVIDER, Settings())


def test_what_is_lied_about_is_true_to_begin_with(originals: dict[str, Path]) -> None:
    for original in originals.values():
        assert not isinstance(checked(original), Refused)


@pytest.mark.parametrize(("base", "path", "value", "reason"), LIES, ids=lambda each: str(each)[:50])
def test_a_lie_is_refused_with_a_reason(
    base: str, path: str, value: Any, reason: str, originals: dict[str, Path], tmp_path: Path
) -> None:
    found = checked(lied(originals[base], tmp_path / "lie" / "1", path, value))
    assert isinstance(found, Refused), found
    assert reason in found.reason
    assert "server's log" not in found.reason and "memory" not in found.reason


# Messages of the format whose fields are nobody's to answer by: they are checked in bulk.
_TOLD = ("examples", "library_versions", "files", "citation", "taxonomy")


def leaves(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Give every number and text of a description, by its path."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key not in _TOLD:
                yield from leaves(value, f"{path}.{key}" if path else key)
    elif isinstance(content, list):
        alike = set()
        for place, value in enumerate(content):
            said = str([key for key, of_it in value.items() if of_it] if isinstance(value, dict) else type(value))
            if said not in alike:  # of those that say the same fields, one
                alike.add(said)
                yield from leaves(value, f"{path}.{place}")
    else:
        yield path, content


def whole(original: Path) -> dict[str, Any]:
    """Read a description with every field that it may have, those that are not set too."""
    message = bundle_pb2.Bundle()
    json_format.Parse((original / "bundle.json").read_text(encoding="utf-8"), message)
    found: dict[str, Any] = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return found


def lies_about(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [each for each in (-1, 0, value + 1, MOST) if each != value]
    if isinstance(value, float):
        return ["NaN", -1e30, 1e30]
    return ["nothing", ""] if value != "" else ["nothing"]


@pytest.mark.parametrize("base", ["tiny", "echo", "noisy"])
def test_whatever_field_lies_the_model_is_refused_or_answers_without_an_internal_error(
    base: str, originals: dict[str, Path], tmp_path: Path
) -> None:
    """Every field that the description has, and those that it leaves out, one after the other."""
    content = whole(originals[base])
    repository = tmp_path / "repository"
    for number, (path, lie) in enumerate((path, lie) for path, value in leaves(content) for lie in lies_about(value)):
        folder = repository / f"lie-{number}" / "1"
        lied(originals[base], folder, path, lie)
        verdict = checked(folder)
        if isinstance(verdict, Refused):
            assert "took too long" not in verdict.reason
            shutil.rmtree(folder.parent)
        else:
            (folder.parent / "what.txt").write_text(f"{path} = {json.dumps(lie)}")
    with serving(repository, log_level="error") as running:
        names = [each.model.name for each in running.stub.ListModels(service_pb2.ListModelsRequest()).models]
        assert names
        for name in names:
            what = (repository / name / "what.txt").read_text()
            described = running.stub.GetModel(
                service_pb2.GetModelRequest(model=values_pb2.Model(name=name))
            ).description
            for code in answers(running.stub, described):
                assert code not in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN), f"{base}: {what}: {code}"


def answers(stub: Any, described: model_pb2.ModelDescription) -> Iterator[grpc.StatusCode]:
    """Ask for an example in every way, plain and batched; gives how each call ended."""
    example = copy.deepcopy(described.examples[0])
    reference = values_pb2.Model(name=described.name)
    for instances in ([example], [example] * 3):
        yield code(stub.Predict, service_pb2.PredictRequest(model=reference, instances=instances))
        if described.maps:
            yield code(stub.Attend, service_pb2.AttendRequest(model=reference, instances=instances))
    if described.task == model_pb2.TASK_GENERATION:
        request = service_pb2.GenerateRequest(model=reference, instance=example)
        yield code(lambda sent, timeout: list(stub.Generate(sent, timeout=timeout)), request)
    for tensor in (each for one in described.inputs for each in one.tensors):
        sent = values_pb2.Instance()
        sent.inputs[tensor.name].tensor.SetInParent()
        yield code(stub.Predict, service_pb2.PredictRequest(model=reference, instances=[sent]))


def code(method: Any, request: Any) -> grpc.StatusCode:
    try:
        method(request, timeout=60)
    except grpc.RpcError as error:
        return error.code()  # type: ignore[no-any-return]
    return grpc.StatusCode.OK
