"""Clients of other people, each in an environment of its own: what they need does not get on with ours in one process.

`clients.txt` has their exact versions. `.ci/run` makes `build/NAME` of each; without it an environment is made for the
run that asks for one.
"""

import fcntl
import re
import subprocess
import sys
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[2] / "build"
_LINES = Path(__file__).with_suffix(".txt").read_text().splitlines()
REQUIREMENTS = {re.split(r"[\[=]", line)[0]: line.split() for line in _LINES}  # by the first of each line


def client_python(name: str, base: Path) -> Path:
    """Give the interpreter of a client's environment; skip the test where it cannot be made.

    Args:
        name: of the distribution, as in `clients.txt`.
        base: pytest's folder of this process; processes of the same run share its parent.
    """
    made = BUILD / name / "bin" / "python"
    if made.exists():
        return made
    folder = (base.parent if base.name.startswith("popen-") else base) / name
    folder.mkdir(exist_ok=True)
    python = folder / "bin" / "python"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
            pip = [sys.executable, "-m", "pip", "--python", str(python), "--quiet", "--disable-pip-version-check"]
            install = [*pip, "install", "--no-compile", *REQUIREMENTS[name]]
            if subprocess.run(install, capture_output=True, timeout=240, check=False).returncode:
                pytest.skip(f"{name} cannot be installed here")
            (folder / "done").touch()
    return python
