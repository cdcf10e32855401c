"""Build hook: generates the protocol code from the .proto files.

The public protocol (proto/limelight/v1) becomes `limelight.v1`. The Open Inference Protocol (proto/inference) becomes a
module of `limelight bench`. The application's distribution has it too (`limelight_service.open_inference`), and the
bundle format (proto/limelight/bundle/v1) as `limelight_bundle.v1`. These are not public API.

`build-system.requires` pins the oldest grpcio-tools that works; the generated code runs under protobuf 6.31 to 7.
"""

from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CLIENT = Path(__file__).resolve().parent
PUBLIC, ON_DISK, OPEN_INFERENCE = "limelight/v1", "limelight/bundle/v1", "inference"


class ProtocolBuildHook(BuildHookInterface[Any]):
    """Writes `*_pb2*.py` before a wheel, an sdist or an editable install is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if root == CLIENT:
            targets = [(PUBLIC, CLIENT / PUBLIC), (OPEN_INFERENCE, CLIENT / "limelight" / "cli" / "bench")]
        else:
            service = root / "service" / "limelight_service"
            targets = [
                (ON_DISK, root / "bundle" / "limelight_bundle" / "v1"),
                (OPEN_INFERENCE, service / "open_inference"),
            ]
        source = CLIENT.parent / "proto"
        for package, target in targets:
            if source.is_dir():
                generate(source, package, target)
            elif not list(target.glob("*_pb2.py")):  # an sdist carries the generated code
                raise FileNotFoundError("neither the .proto files nor the code generated from them are here")


def generate(source: Path, package: str, target: Path) -> None:
    """Compile every .proto file of a package, such as `limelight/v1` below `source`, into the folder `target`."""
    from grpc_tools import protoc

    protos = sorted(str(path.relative_to(source)) for path in source.glob(f"{package}/*.proto"))
    with TemporaryDirectory() as scratch:
        arguments = ["protoc", f"-I{source}", f"-I{files('grpc_tools') / '_proto'}"]
        arguments += [f"--python_out={scratch}", f"--pyi_out={scratch}", f"--grpc_python_out={scratch}", *protos]
        if protoc.main(arguments) != 0:
            raise RuntimeError("protoc failed; its message is above")
        for old in target.glob("*_pb2*"):
            old.unlink()
        for made in (Path(scratch) / package).iterdir():
            # Only the client calls by stubs, and only its package is where the generated code expects it.
            if not made.name.endswith("_pb2_grpc.py") or (package == PUBLIC and b"Stub" in made.read_bytes()):
                (target / made.name).write_bytes(made.read_bytes())
