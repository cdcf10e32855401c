"""As much of Kustomize as deploy/kubernetes uses, in plain Python: it refuses whatever else a file says.

A patch whose target does not exist is an error here, as it is there.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

_KEYS = {"apiVersion", "kind", "namespace", "resources", "components", "patches", "images"}
# What tells the entries of a list apart in a strategic merge patch; other lists are replaced.
_MERGED_BY = {
    "containers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
}
_REPLACED = {"args", "command", "tolerations"}

Manifest = dict[str, Any]


def build(folder: Path) -> list[Manifest]:
    """Build the manifests of a folder with a kustomization."""
    return _apply(folder, [])


def documents(file: Path) -> list[Manifest]:
    """Read the manifests of a file."""
    return [each for each in yaml.safe_load_all(file.read_text(encoding="utf-8")) if each is not None]


def _apply(folder: Path, manifests: list[Manifest]) -> list[Manifest]:
    """Apply the kustomization of a folder, with the manifests that a component is given."""
    (content,) = documents(folder / "kustomization.yaml")
    assert set(content) <= _KEYS, f"{folder}: {set(content) - _KEYS}"
    for name in content.get("resources", ()):
        path = folder / name
        manifests = manifests + (build(path) if path.is_dir() else documents(path))
    for name in content.get("components", ()):
        manifests = _apply(folder / name, manifests)
    for patch in content.get("patches", ()):
        _patch(folder, patch, manifests)
    for image in content.get("images", ()):
        for container in _containers(manifests):
            if container["image"].partition(":")[0] == image["name"]:
                container["image"] = f"{image['name']}:{image['newTag']}"
    if "namespace" in content:
        for each in manifests:
            each["metadata"]["namespace"] = content["namespace"]
    return manifests


def _containers(manifests: Sequence[Manifest]) -> list[dict[str, Any]]:
    return [
        container
        for each in manifests
        if each["kind"] == "Deployment"
        for container in each["spec"]["template"]["spec"]["containers"]
    ]


def _patch(folder: Path, patch: dict[str, Any], manifests: Sequence[Manifest]) -> None:
    if "path" in patch:
        for content in documents(folder / patch["path"]):
            _merge(_target(manifests, content["kind"], content["metadata"]["name"]), content)
        return
    target = _target(manifests, **patch["target"])
    for operation in yaml.safe_load(patch["patch"]):
        assert operation["op"] == "remove", operation
        *parents, last = operation["path"].strip("/").split("/")
        place: Any = target
        for each in parents:
            place = place[int(each) if isinstance(place, list) else each]
        del place[last]


def _target(manifests: Sequence[Manifest], kind: str, name: str) -> Manifest:
    found = [each for each in manifests if each["kind"] == kind and each["metadata"]["name"] == name]
    assert len(found) == 1, f"a patch of {kind} {name} has {len(found)} targets"
    return found[0]


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """Merge as a strategic merge patch does: mappings by key, null removes, some lists by the name of their entries."""
    for key, value in patch.items():
        if value is None:
            del target[key]
        elif isinstance(value, dict) and key in target:
            _merge(target[key], value)
        elif isinstance(value, list) and key in target and key in _MERGED_BY:
            for entry in value:
                name = _MERGED_BY[key]
                same = [each for each in target[key] if each[name] == entry[name]]
                if same:
                    _merge(same[0], entry)
                else:
                    target[key].append(entry)
        else:
            assert not isinstance(value, list) or key in _REPLACED | set(_MERGED_BY), f"how is {key} merged?"
            target[key] = value
