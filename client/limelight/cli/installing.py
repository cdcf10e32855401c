"""How what is missing is installed, into the environment that runs: none of it is on a package index."""

import shlex
import sys
from importlib import metadata
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[3]


def extra(name: str) -> str:
    """The command that installs an extra of the application."""
    if checkout := _checkout():
        if Path(sys.prefix).resolve() == checkout / ".venv":  # which make keeps
            return "run 'make dev'" + ("" if Path.cwd() == checkout else f" in {checkout}")
        return _pip("--editable", f"{checkout}[{name}]")
    if _is_installed("limelight"):
        # The package itself is there; pip looks for what the extra adds.
        return _pip(f"limelight[{name}]")
    return f"in a checkout of Limelight, {_pip(f'.[{name}]')}"


def client() -> str:
    """The command that installs what the command line needs of a client."""
    if checkout := _checkout():
        return _pip("--editable", f"{checkout / 'client'}[cli]")
    if _is_installed("limelight-client"):
        return _pip("limelight-client[cli]")
    return f"in a checkout of Limelight, {_pip('./client[cli]')}"


def _checkout() -> Path | None:
    """The checkout that this package runs in; None where it was installed from a wheel."""
    return _CHECKOUT if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "client").is_dir() else None


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _pip(*arguments: str) -> str:
    return shlex.join([sys.executable or "python", "-m", "pip", "install", *arguments])
