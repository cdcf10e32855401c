"""Build hook: generates the protocol code from proto/limelight/v1.

The compiler is the oldest grpcio-tools that serves, pinned in `build-system.requires`: what it generates runs under
protobuf 6.31 to 7.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CLIENT = Path(__file__).resolve().parent


class ProtocolBuildHook(BuildHookInterface[Any]):
    """Writes the client's `limelight/v1/*_pb2*.py` before a wheel, an sdist or an editable install is made."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source = CLIENT.parent / "proto"
        if source.is_dir():
            generate(source, CLIENT)
        elif not list(CLIENT.glob("limelight/v1/*_pb2.py")):  # an sdist carries the generated code
            raise FileNotFoundError("neither the .proto files nor the code generated from them are here")


def generate(source: Path, target: Path) -> None:
    """Compile every .proto below `source`/limelight into packages below `target`."""
    from grpc_tools import protoc

    protos = sorted(str(path.relative_to(source)) for path in source.glob("limelight/v1/*.proto"))
    arguments = ["protoc", f"-I{source}", f"-I{files('grpc_tools') / '_proto'}"]
    arguments += [f"--python_out={target}", f"--pyi_out={target}", f"--grpc_python_out={target}", *protos]
    if protoc.main(arguments) != 0:
        raise RuntimeError("protoc failed; its message is above")
    for stub in target.glob("limelight/v1/*_pb2_grpc.py"):
        if "service" not in stub.name:  # only one file has a service
            stub.unlink()
