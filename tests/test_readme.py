"""Every fenced command and code block of the README works, as pasted, in the order in which it stands."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Files that the reader would have: everything of a checkout but what it makes.
CHECKOUT = ("Makefile", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", ".venv")
FOLDERS = ("bundle", "client", "deploy", "examples", "export", "models", "proto", "service")
NODE_PACKAGES = ROOT / "build" / "node"


@dataclass(frozen=True)
class Block:
    """A fenced block and what it is written in."""

    language: str
    text: str

    @property
    def name(self) -> str:
        """Its first line, to name the test."""
        return self.text.strip().splitlines()[0][:60]


BLOCKS = [Block(*match) for match in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))]
# `make test` runs this very test; `make demo-models` trains for minutes. That they are right is seen by running them.
ONLY_PLANNED = ("make test", "make demo-models")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like a checkout, so that what the commands write is thrown away."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in (*CHECKOUT, *FOLDERS):
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)
    (folder / "build").mkdir()
    if (NODE_PACKAGES / "node_modules").is_dir():
        (folder / "build" / "node").symlink_to(NODE_PACKAGES)
    if not (folder / ".venv").exists():
        (folder / ".venv").symlink_to(sys.prefix)
    reviews = [("good", "A fine film. I liked it."), ("bad", "A dull film. I slept."), ("good", "Fine, fine, fine.")]
    lines = [f"{label}\t{text} Number {number}." for number in range(40) for label, text in reviews]
    (folder / "reviews.tsv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def demo(checkout: Path) -> Iterator[None]:
    """The demo, as `make demo` runs it; the address is the one that the README's commands use."""
    log = checkout / "demo.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "limelight.cli", "demo"], cwd=checkout, stdout=output, stderr=subprocess.STDOUT
        )
    end = time.monotonic() + 60
    while "limelight" not in log.read_text() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    if process.poll() is not None:
        pytest.fail(f"the demo did not start: {log.read_text()}")
    with grpc.insecure_channel("127.0.0.1:50051") as channel:
        grpc.channel_ready_future(channel).result(timeout=30)
    yield
    process.terminate()
    process.wait(timeout=30)


def run(command: list[str], checkout: Path) -> None:
    """Run a command in the checkout; what it says is the failure's message."""
    environment = os.environ | {"NO_COLOR": "1"}
    result = subprocess.run(
        command, cwd=checkout, capture_output=True, text=True, timeout=240, env=environment, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_block_of_the_readme_works(block: Block, checkout: Path, demo: None) -> None:
    if block.language == "text":
        return  # a picture
    if block.language == "python":
        run([sys.executable, "-c", block.text], checkout)
        return
    assert block.language == "console"
    for command in block.text.strip().splitlines():
        if command in ONLY_PLANNED or command == "make demo":
            run(["make", "--dry-run", *command.split()[1:]], checkout)
        elif command.startswith("pip install"):
            run([sys.executable, "-m", *command.split()[:2], "--dry-run", "--no-deps", *command.split()[2:]], checkout)
        elif "npm" in command or "node " in command:
            if shutil.which("node") is None or not (NODE_PACKAGES / "node_modules" / "@grpc" / "grpc-js").is_dir():
                pytest.skip("Node.js or @grpc/grpc-js is not installed")
            if not command.startswith("npm"):
                run(["bash", "-c", command], checkout)
        elif " serve " in command:
            started_and_stopped(command, checkout)
        else:
            run(["bash", "-c", command], checkout)


def started_and_stopped(command: str, checkout: Path) -> None:
    """Start a server and stop it in good order once it answers."""
    process = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=checkout, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = next((line for line in process.stdout if line.startswith("limelight: serving")), "")
    process.terminate()
    process.communicate(timeout=30)
    assert line and process.returncode == 0


def test_the_readme_has_blocks_of_every_kind() -> None:
    assert {block.language for block in BLOCKS} == {"console", "python", "text"}
