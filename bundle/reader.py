"""Reads a bundle, and refuses one that is broken, changed, too new, or reaches outside its folder."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf import json_format

from bundle.errors import BundleError
from bundle.features import check_features
from bundle.files import Stamp, check_hashes, check_sizes, check_stamps, read_stamped
from bundle.maps import DENSE_AXES, WEIGHTS
from bundle.names import BUNDLE_FILE, SAMPLES_FILE, SCHEMA_VERSION
from bundle.operators import check_graph
from bundle.v1 import bundle_pb2

LARGEST_DESCRIPTION = 16 * 2**20
_MOST_FILES = 1000


@dataclass(frozen=True)
class BundleFolder:
    """A bundle that passed every check that needs no runtime.

    digest: SHA-256 in hexadecimal of bundle.json, which holds the hash of every other file. graph_bytes: size of each
    graph by its name, with the weights that lie beside it. stamps: of each file, bundle.json among them, as it was
    while it was read and hashed.
    """

    path: Path
    bundle: bundle_pb2.Bundle
    digest: str
    graph_bytes: Mapping[str, int] = field(default_factory=dict)
    stamps: Mapping[str, Stamp] = field(default_factory=dict)

    def file(self, name: str) -> Path:
        """Give the path of a file that the bundle lists; BundleError for any other."""
        if name not in {each.path for each in self.bundle.files}:
            raise BundleError(f"{name!r} is not among the bundle's files")
        return self.path / name

    def check_unchanged(self) -> None:
        """Check that every file is the one that was hashed, so that what was loaded since is what was checked.

        Raises: BundleError where one was written, replaced or removed.
        """
        check_stamps(self.path, self.stamps)


def read_bundle(folder: Path, largest: int | None = None) -> BundleFolder:
    """Read and check REPOSITORY/<model>/<version>.

    largest: bytes that its files may have together.
    Raises: BundleError saying which file is wrong, and how.
    """
    try:
        return _read(Path(folder), largest)
    except OSError as error:
        raise BundleError(f"it cannot be read: {error.strerror}") from error


def _read(folder: Path, largest: int | None) -> BundleFolder:
    if folder.is_symlink() or folder.parent.is_symlink() or not folder.is_dir():
        raise BundleError("the version, or the model that it belongs to, is not a plain folder")
    data, stamp = read_stamped(folder, BUNDLE_FILE, LARGEST_DESCRIPTION)
    bundle = _parse(data)
    files = frozenset(file.path for file in bundle.files)
    if len(files) < len(bundle.files) or len(files) > _MOST_FILES:
        raise BundleError(f"{BUNDLE_FILE} lists a file twice, or more than {_MOST_FILES} files")
    check_sizes(folder, bundle.files, largest)
    stamps = {BUNDLE_FILE: stamp, **check_hashes(folder, bundle.files)}
    if SAMPLES_FILE not in files:
        raise BundleError(f"the bundle has no {SAMPLES_FILE}, so its answers cannot be checked")
    graph_bytes = {}
    for graph in bundle.graphs:
        if graph.file not in files:
            raise BundleError(f"the graph {graph.name} is in {graph.file!r}, which the bundle does not list")
        weights = check_graph(folder / graph.file, graph.file, files, _switches(bundle, graph.name))
        graph_bytes[graph.name] = sum((folder / name).stat().st_size for name in (graph.file, *weights))
    _check_names(bundle, folder)
    return BundleFolder(folder, bundle, hashlib.sha256(data).hexdigest(), graph_bytes, stamps)


def _parse(data: bytes) -> bundle_pb2.Bundle:
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


def _check_names(bundle: bundle_pb2.Bundle, folder: Path) -> None:
    """Check that what the description refers to exists, so that nothing later has to."""
    description = bundle.description
    if (description.name, str(description.version)) != (folder.parent.name, folder.name):
        raise BundleError(f"it says that it is {description.name}/{description.version}, which is not where it is")
    if not description.examples:
        raise BundleError("it has no example, so its answers cannot be checked")
    graphs = {graph.name: graph for graph in bundle.graphs}
    if not graphs:
        raise BundleError("it has no graph")
    labels = {each.name for each in description.label_sets}
    bindings = {(binding.map, binding.quantity or WEIGHTS): binding for binding in bundle.maps}
    for each in description.maps:
        for name in (each.query_labels, each.key_labels, *filter(None, (each.head_labels, each.feature_labels))):
            if name not in labels:
                raise BundleError(f"the map {each.name} refers to the label set {name!r}, which is not described")
        for quantity in (WEIGHTS, *each.quantities):
            binding = bindings.get((each.name, quantity))
            if binding is None or binding.graph not in graphs:
                raise BundleError(f"the map {each.name} is bound to no output of a graph")
            for output in filter(None, (binding.output, binding.query_index, binding.key_index)):
                if output not in graphs[binding.graph].outputs:
                    raise BundleError(
                        f"the map {each.name} is bound to {output!r}, which {binding.graph} does not put out"
                    )
            _check_switches(binding, graphs[binding.graph], generates=bundle.HasField("generation"))
    masks = {each.mask for each in bundle.tensors}
    for graph in bundle.graphs:
        for name in graph.packed:
            if name not in masks.intersection(graph.inputs):
                raise BundleError(f"the graph {graph.name} packs by {name!r}, which is no mask that it takes")
    if bundle.HasField("generation"):
        for name in filter(None, (bundle.generation.encoder, bundle.generation.step, bundle.generation.prefill)):
            if name not in graphs:
                raise BundleError(f"generation refers to the graph {name!r}, which is not there")


def _switches(bundle: bundle_pb2.Bundle, graph: str) -> list[str]:
    """Name the inputs by which maps of a graph are asked for."""
    found = []
    for each in bundle.maps:
        if each.graph == graph and each.gate:
            found.append(each.gate)
        if each.graph == graph and each.HasField("probe"):
            found += [each.probe.heads_input, each.probe.queries_input]
        if each.graph == graph and each.HasField("projections"):
            found.append(each.projections.gate)
    return found


def _check_switches(binding: bundle_pb2.MapBinding, graph: bundle_pb2.OnnxGraph, *, generates: bool) -> None:
    """Check a gate, a probe and projections: they are of whole rectangles, which no step of a generation puts out."""
    if not binding.gate and not binding.HasField("probe") and not binding.HasField("projections"):
        return
    if generates or tuple(binding.axes) != DENSE_AXES:
        raise BundleError(
            f"the map {binding.map} has a gate, a probe or projections, but no axes [batch, head, query, key]"
        )
    if binding.HasField("probe") and binding.probe.output not in graph.outputs:
        raise BundleError(
            f"rows of the map {binding.map} are bound to {binding.probe.output!r}, which {graph.name} does not put out"
        )
    if binding.HasField("projections"):
        made_of = binding.projections
        for name in (made_of.query_output, made_of.key_output, *filter(None, [made_of.bias_output])):
            if name not in graph.outputs:
                raise BundleError(
                    f"projections of the map {binding.map} are bound to {name!r}, which {graph.name} does not put out"
                )
