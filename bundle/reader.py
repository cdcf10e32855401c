"""Reads a bundle, and refuses one that is broken, changed, too new, or reaches outside its folder."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf import json_format

from bundle.checks.bindings import check_bindings
from bundle.checks.bounds import check_bounds
from bundle.checks.description import check_description
from bundle.checks.features import check_features
from bundle.checks.operators import check_graph
from bundle.errors import BundleError
from bundle.files import Stamp, check_hashes, check_sizes, check_stamps, read_stamped
from bundle.maps import DENSE_AXES
from bundle.names import BUNDLE_FILE, SAMPLES_FILE, SCHEMA_VERSION, is_model_name, is_version
from bundle.v1 import bundle_pb2

MAX_DESCRIPTION_BYTES = 16 * 2**20
_MAX_FILES = 1000


@dataclass(frozen=True)
class BundleFolder:
    """A bundle that passed every check that needs no runtime.

    digest: SHA-256 in hexadecimal of bundle.json, which holds the hash of every other file. graph_bytes: size of each
    graph by its name, with the weights that lie beside it. stamps: of each file, bundle.json among them, as it was
    while it was read and hashed. origin: the name and version that it was written by; those that it goes by now are its
    folder's, and stand in `bundle`.
    """

    path: Path
    bundle: bundle_pb2.Bundle
    digest: str
    graph_bytes: Mapping[str, int] = field(default_factory=dict)
    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    origin: str = ""

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
    data, stamp = read_stamped(folder, BUNDLE_FILE, MAX_DESCRIPTION_BYTES)
    written = parse(data)
    bundle = placed(written, folder)
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
    """Give the model and the version that a folder is: it says so, and not the bundle in it, which may be a copy.

    Raises: BundleError where the folders' names are none that a model or a version may have.
    """
    version = Path(os.path.abspath(folder))
    if not is_model_name(version.parent.name) or not is_version(version.name):
        raise BundleError(
            "its folder is not called <model>/<version>: lower-case letters, digits, _ and -, and a number"
        )
    return version.parent.name, int(version.name)


def placed(bundle: bundle_pb2.Bundle, folder: Path) -> bundle_pb2.Bundle:
    """Give a bundle by the name and version of its folder. Raises: BundleError as `name_of`."""
    found = bundle_pb2.Bundle()
    found.CopyFrom(bundle)
    found.description.name, found.description.version = name_of(folder)
    return found


def origin_of(bundle: bundle_pb2.Bundle) -> str:
    """Say by which name and version a bundle was written."""
    return f"{bundle.description.name}/{bundle.description.version}"


def parse(data: bytes) -> bundle_pb2.Bundle:
    """Read the content of a bundle.json. Raises: BundleError where it is none, or needs what this release lacks."""
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
    """Check that what the description says fits together, so that nothing later has to."""
    if not bundle.description.examples:
        raise BundleError("it has no example, so its answers cannot be checked")
    check_bounds(bundle)
    check_description(bundle)
    check_bindings(bundle)
    graphs = {graph.name: graph for graph in bundle.graphs}
    for binding in bundle.maps:
        _check_optional_map(binding, graphs[binding.graph], generates=bundle.HasField("generation"))


def _optional_inputs(bundle: bundle_pb2.Bundle, graph: str) -> list[str]:
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


def _check_optional_map(binding: bundle_pb2.MapBinding, graph: bundle_pb2.OnnxGraph, *, generates: bool) -> None:
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
        projections = binding.projections
        for name in (projections.query_output, projections.key_output, *filter(None, [projections.bias_output])):
            if name not in graph.outputs:
                raise BundleError(
                    f"projections of the map {binding.map} are bound to {name!r}, which {graph.name} does not put out"
                )
