"""Commands that install missing packages into the running environment; none of them is on a package index."""

import shlex
import sys
from importlib import metadata
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[3]


def extra(name: str) -> str:
    """Return the command that installs an extra of the application."""
    if checkout := _checkout():
        if Path(sys.prefix).resolve() == checkout / ".venv":  # created by make
            return "run 'make dev'" + ("" if Path.cwd() == checkout else f" in {checkout}")
        return _pip("--editable", f"{checkout / 'client'}", "--editable", f"{checkout}[{name}]")
    if _is_installed("limelight"):
        # The package is installed; pip adds the extra's dependencies.
        return _pip(f"limelight[{name}]")
    return f"in a checkout of Limelight, {_pip('./client', f'.[{name}]')}"


def client(extra: str = "cli") -> str:
    """Return the command that installs an extra of the client; by default that of the command line."""
    if checkout := _checkout():
        return _pip("--editable", f"{checkout / 'client'}[{extra}]")
    if _is_installed("limelight-client"):
        return _pip(f"limelight-client[{extra}]")
    return f"in a checkout of Limelight, {_pip(f'./client[{extra}]')}"


def _checkout() -> Path | None:
    """Return the source checkout of this package; None for a wheel."""
    return _CHECKOUT if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "client").is_dir() else None


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _pip(*arguments: str) -> str:
    return shlex.join([sys.executable or "python", "-m", "pip", "install", *arguments])
