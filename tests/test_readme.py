"""Every fenced command and code block of the README and of the guides works, as pasted, in the order in which it
stands; so does what the demo prints.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

from limelight_bundle.reader import read_bundle
from limelight_service.demo import commands, own_command
from tests.export import onnx_files
from tests.importing.huggingface.checkpoints import stated_pooling
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit.serving import free_port

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


def blocks(page: str) -> list[Block]:
    """The blocks of a page."""
    return [Block(*match) for match in BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))]


GUIDES = (
    "index",
    "demo",
    "concepts",
    "reading-attention",
    "why",
    "calling",
    "python",
    "http",
    "open-inference-protocol",
    "doors",
    "training",
)
PAGES = ("README.md", *(f"docs/{each}.md" for each in GUIDES))
# A block that stands on several pages is run once.
BLOCKS = list(dict.fromkeys(each for page in PAGES for each in blocks(page)))
EXTRA = {"to_pandas": "pandas", "to_xarray": "xarray", ".parquet": "pyarrow", "limelight.widget": "anywidget"}
SHOWN = ("text", "json", "yaml")  # no commands and no code of ours
# `limelight demo` runs below, on free ports; `make demo-models` trains for minutes.
ONLY_PLANNED = ("make demo-models", "make dev")
# Other tests install these: tests/test_wheels.py and tests/client/test_client_protobuf.py.
INSTALLED = ("pip install ./client", "pip install './client[cli]' '.[serve,http]'", "limelight demo")
CLIENTS = ("tritonclient", "openai", "cohere", "huggingface_hub")  # of tests/kit/clients.txt
# Where the commands find the demo. Here it gets free ports: another server may have these.
DEMO, METRICS = "127.0.0.1:50051", "127.0.0.1:9464"
HTTP = "127.0.0.1:8080"
IMPORTED = "127.0.0.1:8081"  # and a server of the checkpoint, over HTTP


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like a checkout, so that what the commands write is thrown away."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in (*CHECKOUT, *FOLDERS):
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)
    if not (folder / ".venv").exists():
        (folder / ".venv").symlink_to(sys.prefix)
    reviews = [("good", "A fine film. I liked it."), ("bad", "A dull film. I slept."), ("good", "Fine, fine, fine.")]
    lines = [f"{label}\t{text} Number {number}." for number in range(40) for label, text in reviews]
    (folder / "reviews.tsv").write_text("\n".join(lines) + "\n")
    sentences = folder / "sentence-transformers" / "all-MiniLM-L6-v2"  # a folder counts before a name of a hub
    ENCODERS["bert"].write(sentences, "Model")
    stated_pooling(sentences)
    onnx_files.write(folder / "model.onnx", onnx_files.model())
    return folder


def surroundings(folder: Path) -> dict[str, str]:
    """The variables of somebody who has activated the environment of a checkout."""
    return {**os.environ, "NO_COLOR": "1", "PATH": f"{folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"}


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process whose output is read as it comes; it is gone afterwards."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=surroundings(folder)
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def serving(process: subprocess.Popen[str], pattern: str) -> str:
    """Read what a server prints until it says where it serves: its address."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if found := re.search(pattern + r" on (127\.0\.0\.1:\d+)", line):
            return found[1]
    pytest.fail(f"the server did not start: {seen}")


@pytest.fixture(scope="module")
def http() -> str:
    """Address at which the demo serves HTTP."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def metrics() -> str:
    """Address of the demo's metrics."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def demo(checkout: Path, http: str, metrics: str) -> Iterator[str]:
    """The demo, as `make demo` runs it, on a free port: its address."""
    command = [sys.executable, "-m", "limelight.cli", "demo", "--port", "0"]
    command += ["--metrics-port", metrics.rpartition(":")[2], "--http-port", http.rpartition(":")[2]]
    with started(command, checkout) as process:
        address = serving(process, "Serving")
        assert process.stdout is not None
        # Read on, so that it never waits for somebody to read.
        reader = threading.Thread(target=process.stdout.read)
        reader.start()
        yield address
        process.kill()
        reader.join()


def run(command: list[str], checkout: Path, demo: str) -> None:
    """Run a command in the checkout; what it says is the failure's message."""
    environment = surroundings(checkout) | {"LIMELIGHT_TARGET": demo}
    result = subprocess.run(
        command, cwd=checkout, capture_output=True, text=True, timeout=240, env=environment, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_block_works(
    block: Block, checkout: Path, demo: str, http: str, metrics: str, client_python: Callable[[str], Path]
) -> None:
    for package in (each for name, each in EXTRA.items() if name in block.text):
        pytest.importorskip(package, reason=f"{package} is not installed")
    if block.language in SHOWN:
        return
    if block.language == "python":
        python = next((str(client_python(each)) for each in CLIENTS if f" {each}" in block.text), sys.executable)
        text = block.text.replace(DEMO, demo).replace(HTTP, http)
        with importing(checkout) if IMPORTED in text else nullcontext("") as imported:
            # Hugging Face's client calls nobody in an environment that is offline, as that of tests is.
            run(["env", "HF_HUB_OFFLINE=0", python, "-c", text.replace(IMPORTED, imported)], checkout, demo)
        return
    assert block.language == "console"
    lines = block.text.strip().splitlines()
    for place, command in enumerate(lines):
        if command in ONLY_PLANNED:
            run(["make", "--dry-run", *command.split()[1:]], checkout, demo)
        elif command in INSTALLED or any(each in command for each in CLIENTS):
            continue
        elif command.startswith("npm"):
            installed(checkout)
        elif command.startswith("curl"):
            curl(command, checkout, demo, {HTTP: http, METRICS: metrics})
        elif " view " in command:
            opened(command.replace(HTTP, http), checkout)
        elif " serve " in command:
            started_and_stopped(command, checkout, lines[place + 1 :])
            return
        else:
            run(["bash", "-c", command], checkout, demo)


def test_what_the_demo_prints_works(checkout: Path, demo: str) -> None:
    Image.new("L", (90, 60), 255).save(checkout / "PICTURE.png")
    (checkout / "FILE").write_text("def twice(number):\n    return 2 * number\n\n\n")
    for model in sorted((ROOT / "deploy" / "demo").iterdir()):
        description = read_bundle(model / "1").bundle.description
        found = list(commands(description))
        assert found
        for each in (*found, *filter(None, [own_command(description)])):
            run([sys.executable, "-m", "limelight.cli", *shlex.split(each)], checkout, demo)


def curl(command: str, checkout: Path, demo: str, ports: Mapping[str, str]) -> None:
    """Run a command of curl, which fails where the answer is an error. ports: of the demo here, by those it names."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    assert command.startswith("curl ") and any(each in command for each in ports)
    for named, here in ports.items():
        command = command.replace(named, here)
    run(["bash", "-c", command.replace("curl", "curl --fail-with-body", 1)], checkout, demo)


def installed(checkout: Path) -> None:
    """The packages for Node.js that `.ci/run` installed, where the README's command would put them."""
    if shutil.which("node") is None or not (NODE_PACKAGES / "node_modules" / "@grpc" / "grpc-js").is_dir():
        pytest.skip("Node.js or @grpc/grpc-js is not installed")
    (checkout / "build").mkdir(exist_ok=True)
    (checkout / "build" / "node").symlink_to(NODE_PACKAGES)


def opened(command: str, checkout: Path) -> None:
    """Start the page, without a browser and on a free port, and read it."""
    with started(["bash", "-c", f"exec {command} --no-browser --port 0"], checkout) as process:
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address is not None
        with urllib.request.urlopen(address[0]) as page:
            assert b"Limelight" in page.read()


def started_and_stopped(command: str, checkout: Path, calls: list[str]) -> None:
    """Start a server, on free ports in place of those named, call it, and stop it in good order."""
    command, ports = re.subn(r"(--(?:metrics-)?port) \d+", r"\1 0", command)
    assert ports == 2
    command = re.sub(r"(--http-port) \d+", lambda found: f"{found[1]} {free_port()}", command)
    with started(["bash", "-c", f"exec {command}"], checkout) as process:
        address = serving(process, "limelight: serving")
        for call in calls:
            run(["bash", "-c", re.sub(r"--target \S+", f"--target {address}", call)], checkout, address)
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == 0


@contextmanager
def importing(checkout: Path) -> Iterator[str]:
    """Serve the checkpoint over HTTP: its address."""
    port, name = free_port(), "sentence-transformers/all-MiniLM-L6-v2"
    command = ["limelight", "serve", "--checkpoint", name, "--port", "0", "--metrics-port", "0"]
    with started([*command, "--http-port", str(port)], checkout) as process:
        serving(process, "limelight: serving")
        yield f"127.0.0.1:{port}"


def test_the_readme_is_short_and_has_blocks_of_every_kind() -> None:
    assert {block.language for block in blocks("README.md")} == {"console", "python"}
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 1000
