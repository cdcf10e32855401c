"""Messages to and from a checking process: JSON, because its output must not be executed."""

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from limelight_bundle.files import Stamp
from limelight_bundle.reader import BundleFolder
from limelight_bundle.v1 import bundle_pb2
from limelight_service.engine.runtime.providers import Provider
from limelight_service.settings import Settings


@dataclass(frozen=True)
class Request:
    """Check one bundle with what will serve it.

    saves: an empty folder for weights as the runtime packs them; None where they are not kept.
    """

    folder: Path
    provider: Provider
    settings: Settings
    saves: Path | None = None

    def to_json(self) -> bytes:
        """Write it down."""
        content = {
            "folder": str(self.folder),
            "provider": asdict(self.provider),
            "settings": asdict(self.settings),
            "saves": str(self.saves or ""),
        }
        return json.dumps(content).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Request":
        """Read it back."""
        content = json.loads(data)
        saves = Path(content["saves"]) if content["saves"] else None
        return cls(Path(content["folder"]), Provider(**content["provider"]), Settings(**content["settings"]), saves)


@dataclass(frozen=True)
class Passed:
    """A bundle loads, and answers its samples. The fields are those of `BundleFolder`; bundle: as a message.

    saved: where its packed weights are kept; empty where they are not. origin: the name and version that it was written
    by.
    """

    bundle: bytes
    digest: str
    graph_bytes: Mapping[str, int]
    stamps: Mapping[str, Stamp]
    saved: str = ""
    origin: str = ""

    @classmethod
    def of(cls, folder: BundleFolder) -> "Passed":
        """Say it of a bundle that was read."""
        data = folder.bundle.SerializeToString()
        return cls(data, folder.digest, folder.graph_bytes, folder.stamps, origin=folder.origin)

    @property
    def saved_weights(self) -> Path | None:
        """Give the folder of its packed weights."""
        return Path(self.saved) if self.saved else None

    def folder(self, path: Path) -> BundleFolder:
        """Give the bundle without reading any of its files again."""
        bundle = bundle_pb2.Bundle.FromString(self.bundle)
        return BundleFolder(path, bundle, self.digest, self.graph_bytes, self.stamps, self.origin)


@dataclass(frozen=True)
class Refused:
    """A bundle must not be loaded. reason: fit for callers; detail: for the log alone."""

    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Interrupted:
    """A check came to no end for a reason that may pass: the system ended its process. why: fit for callers."""

    why: str


Verdict = Passed | Refused | Interrupted


def to_json(verdict: Verdict) -> bytes:
    """Write a verdict down."""
    content = asdict(verdict)
    if isinstance(verdict, Passed):
        content["bundle"] = base64.b64encode(verdict.bundle).decode()
    return json.dumps(content).encode()


def from_json(data: bytes) -> Verdict:
    """Read a verdict. Raises: ValueError, KeyError or TypeError where it is none."""
    content = json.loads(data)
    if "why" in content:
        return Interrupted(str(content["why"]))
    if "reason" in content:
        return Refused(str(content["reason"]), str(content["detail"]))
    stamps = {str(name): _stamp(stamp) for name, stamp in content["stamps"].items()}
    sizes = {str(name): int(size) for name, size in content["graph_bytes"].items()}
    bundle, digest = base64.b64decode(content["bundle"]), str(content["digest"])
    return Passed(bundle, digest, sizes, stamps, str(content["saved"]), str(content["origin"]))


def _stamp(numbers: list[int]) -> Stamp:
    device, inode, size, written, changed = map(int, numbers)
    return device, inode, size, written, changed
