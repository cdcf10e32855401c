"""Reading of a bundle; refuses one that is invalid, changed, too new, or refers outside its folder."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf import json_format

from limelight_bundle.checks.bindings import check_bindings
from limelight_bundle.checks.bounds import check_bounds
from limelight_bundle.checks.description import check_description
from limelight_bundle.checks.features import check_features
from limelight_bundle.checks.operators import check_graph
from limelight_bundle.errors import BundleError
from limelight_bundle.files import Stamp, check_hashes, check_sizes, check_stamps, read_stamped
from limelight_bundle.hidden import check_hidden, hidden_gates
from limelight_bundle.interventions import has_gate_of_its_own, intervened_graph
from limelight_bundle.maps import DENSE_AXES, VALUES
from limelight_bundle.names import BUNDLE_FILE, SAMPLES_FILE, SCHEMA_VERSION, is_model_name, is_version
from limelight_bundle.v1 import bundle_pb2

MAX_DESCRIPTION_BYTES = 16 * 2**20
_MAX_FILES = 1000


@dataclass(frozen=True)
class BundleFolder:
    """A bundle that passed every check that needs no runtime.

    Attributes:
        digest: SHA-256 of bundle.json in hexadecimal, which contains the hash of every other file.
        graph_bytes: size of each graph, by name, with its external weights.
        stamps: stamp of each file, bundle.json included, when it was read and hashed.
        origin: name and version of the export. The folder's own name and version are in `bundle`.
    """

    path: Path
    bundle: bundle_pb2.Bundle
    digest: str
    graph_bytes: Mapping[str, int] = field(default_factory=dict)
    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    origin: str = ""

    def file(self, name: str) -> Path:
        """Return the path of a file that the bundle lists. Raises BundleError for another."""
        if name not in {each.path for each in self.bundle.files}:
            raise BundleError(f"{name!r} is not among the bundle's files")
        return self.path / name

    def check_unchanged(self) -> None:
        """Check that no file changed after hashing, so that the loaded files are the checked ones.

        Raises:
            BundleError: a file was written, replaced or removed.
        """
        check_stamps(self.path, self.stamps)


def read_bundle(folder: Path, largest: int | None = None, *, anywhere: bool = False) -> BundleFolder:
    """Read and check REPOSITORY/<model>/<version>.

    Args:
        largest: maximum total size of its files in bytes.
        anywhere: a folder of another name is read too; its bundle has the name and version that it was written under.
    Raises:
        BundleError: names the file and the problem.
    """
    try:
        return _read(Path(folder), largest, anywhere)
    except OSError as error:
        raise BundleError(f"it cannot be read: {error.strerror}") from error


def _read(folder: Path, largest: int | None, anywhere: bool) -> BundleFolder:
    if folder.is_symlink() or folder.parent.is_symlink() or not folder.is_dir():
        raise BundleError("the version's or the model's folder is not a regular folder")
    data, stamp = read_stamped(folder, BUNDLE_FILE, MAX_DESCRIPTION_BYTES)
    written = parse(data)
    bundle = placed(written, folder, anywhere=anywhere)
    files = frozenset(file.path for file in bundle.files)
    if len(files) < len(bundle.files) or len(files) > _MAX_FILES:
        raise BundleError(f"{BUNDLE_FILE} lists a file twice, or more than {_MAX_FILES} files")
    check_sizes(folder, bundle.files, largest)
    stamps = {BUNDLE_FILE: stamp, **check_hashes(folder, bundle.files)}
    if SAMPLES_FILE not in files:
        raise BundleError(f"the bundle has no {SAMPLES_FILE}, so its answers cannot be checked")
    _check_parts(bundle)
    graph_bytes = {}
    for graph in bundle.graphs:
        if graph.file not in files:
            raise BundleError(f"the graph {graph.name} is in {graph.file!r}, which the bundle does not list")
        weights = check_graph(folder / graph.file, graph.file, files, _optional_inputs(bundle, graph.name))
        graph_bytes[graph.name] = sum((folder / name).stat().st_size for name in (graph.file, *weights))
    digest = hashlib.sha256(data).hexdigest()
    return BundleFolder(folder, bundle, digest, graph_bytes, stamps, origin_of(written))


def name_of(folder: Path) -> tuple[str, int]:
    """Return the model name and version of a folder; the bundle in it may be a copy of another.

    Raises:
        BundleError: the folder's path does not end in a valid model name and version.
    """
    version = Path(os.path.abspath(folder))
    if not is_model_name(version.parent.name) or not is_version(version.name):
        raise BundleError("its folder is not <model>/<version>: lower-case letters, digits, _ and -, then a number")
    return version.parent.name, int(version.name)


def placed(bundle: bundle_pb2.Bundle, folder: Path, *, anywhere: bool = False) -> bundle_pb2.Bundle:
    """Return a bundle with the name and version of its folder. Raises BundleError as `name_of` does.

    anywhere: in a folder of another name a bundle keeps what it was written under.
    """
    found = bundle_pb2.Bundle()
    found.CopyFrom(bundle)
    try:
        found.description.name, found.description.version = name_of(folder)
    except BundleError:
        if not anywhere:
            raise
    return found


def origin_of(bundle: bundle_pb2.Bundle) -> str:
    """Return the name and version under which a bundle was written."""
    return f"{bundle.description.name}/{bundle.description.version}"


def parse(data: bytes) -> bundle_pb2.Bundle:
    """Parse the content of a bundle.json. Raises BundleError if it is invalid or needs a newer release."""
    bundle = bundle_pb2.Bundle()
    try:
        json_format.Parse(data, bundle, ignore_unknown_fields=True)
    except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise BundleError(f"{BUNDLE_FILE} is not a bundle in JSON") from error
    if not 1 <= bundle.schema_version <= SCHEMA_VERSION:
        raise BundleError(
            f"{BUNDLE_FILE} has schema version {bundle.schema_version}; this release reads 1 to {SCHEMA_VERSION}"
        )
    check_features(bundle)
    return bundle


def _check_parts(bundle: bundle_pb2.Bundle) -> None:
    """Check that the parts of a description fit together."""
    if not bundle.description.examples:
        raise BundleError("it has no example, so its answers cannot be checked")
    check_bounds(bundle)
    check_description(bundle)
    check_bindings(bundle)
    check_hidden(bundle)
    outputs = {graph.name: frozenset(graph.outputs) for graph in bundle.graphs}
    for binding in bundle.maps:
        _check_optional_map(binding, outputs[binding.graph])


def _optional_inputs(bundle: bundle_pb2.Bundle, graph: str) -> list[str]:
    """List the inputs of a graph that request maps and hidden states, or change maps."""
    found = [*filter(None, hidden_gates(bundle, graph).values())]
    for each in bundle.maps:
        if graph == intervened_graph(bundle, each.graph):
            found += [name for name in (each.head_scales, *each.weights_inputs) if name]
            found += [each.gate] if has_gate_of_its_own(each) else []
        if each.graph == graph and each.gate:
            found.append(each.gate)
        if each.graph == graph and each.HasField("probe"):
            found += [each.probe.heads_input, each.probe.queries_input]
        if each.graph == graph and each.HasField("projections"):
            found.append(each.projections.gate)
    return found


def _check_optional_map(binding: bundle_pb2.MapBinding, outputs: frozenset[str]) -> None:
    """Check gate, row probe and projections: rectangular maps have them, and no map of output steps.

    Args:
        outputs: of the binding's graph.
    """
    if not binding.gate and not binding.HasField("probe") and not binding.HasField("projections"):
        return
    if tuple(binding.axes) != DENSE_AXES and binding.quantity != VALUES:
        raise BundleError(
            f"the map {binding.map} has a gate, a probe or projections, but no axes [batch, head, query, key]"
        )
    if binding.HasField("probe") and binding.probe.output not in outputs:
        raise BundleError(
            f"rows of the map {binding.map} are bound to {binding.probe.output!r}, "
            f"which {binding.graph} does not output"
        )
    if binding.HasField("projections"):
        projections = binding.projections
        for name in (projections.query_output, projections.key_output, *filter(None, [projections.bias_output])):
            if name not in outputs:
                raise BundleError(
                    f"projections of the map {binding.map} are bound to {name!r}, which {binding.graph} does not output"
                )
