"""The wheels of the client and of the application, built again only where their sources changed."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "wheels"
_CLIENT = ("client", "proto")
_APPLICATION = (
    *_CLIENT,
    "bundle",
    "models",
    "export",
    "service",
    "deploy/demo",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)
_MADE = ("__pycache__", "_pb2")


def run(*command: object) -> str:
    """Run a program; its output. It has to succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def client_wheel() -> Path:
    """The wheel of `limelight-client`."""
    return _wheel("client", _CLIENT)


def application_wheel() -> Path:
    """The wheel of `limelight`."""
    return _wheel(".", _APPLICATION)


def _wheel(project: str, sources: tuple[str, ...]) -> Path:
    files = [
        file for each in sources for file in ([ROOT / each] if (ROOT / each).is_file() else (ROOT / each).rglob("*"))
    ]
    files = sorted(file for file in files if file.is_file() and not any(each in str(file) for each in _MADE))
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes() + b"\0")
    folder = CACHE / digest.hexdigest()[:16]
    if not list(folder.glob("*.whl")):
        # Built from a copy: the build generates protocol code, and other tests are importing the one that is here.
        with tempfile.TemporaryDirectory() as copy:
            for file in files:
                target = Path(copy) / file.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
            run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, Path(copy) / project)
    (found,) = folder.glob("*.whl")
    return found
