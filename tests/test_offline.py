"""Nothing calls home: not a server, not an export, nor any library in them."""

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.importing.huggingface.encoders import ENCODERS

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 15  # ONNX Runtime looks its maker up ten seconds after it was imported
TOLD = ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
SERVER = "import sys; from limelight.cli import main; sys.exit(main())"
# What the tests' package does for tests is left out: the export is to do it by itself.
EXPORT = """
import sys, time, types
from dataclasses import replace
from pathlib import Path
tests = sys.modules["tests"] = types.ModuleType("tests")
tests.__path__ = [sys.argv[1]]
from limelight_export import export_model
from tests.kit import tiny
trained = replace(tiny.trained(tiny.Reader(), tiny.reader_card()), metrics=())
export_model(trained, Path(sys.argv[2]), precision="float32")
imported = time.monotonic()  # ONNX Runtime was, at the latest
export_model(trained, Path(sys.argv[2]), precision="float16")
from limelight_export.importing.huggingface.importer import import_checkpoint
from tests.importing.huggingface.encoders import ENCODERS
checkpoint = ENCODERS["bert"].write(Path(sys.argv[3]), num_hidden_layers=1)
import_checkpoint(checkpoint, Path(sys.argv[2]))
print("exported", flush=True)
time.sleep(max(0.0, imported + float(sys.argv[4]) - time.monotonic()))
"""
_CALLED = re.compile(r"connect\(\d+, \{sa_family=AF_INET6?, .*?\"([0-9a-f.:]+)\"")

_SERVING, _EXPORTING = "limelight_service.engine.runtime.providers", "limelight_export.execution.onnx_runner"


def begun(home: Path, trace: Path, code: str, *arguments: str) -> subprocess.Popen[str]:
    """Begin a program as a user whose home is empty, and watch what it connects to where this system can."""
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if name not in TOLD}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PYTHONPATH": str(ROOT)}
    watched = ["strace", "-f", "-q", "--seccomp-bpf", "-e", "trace=connect", "-o", str(trace)] if can_trace() else []
    return subprocess.Popen(
        [*watched, sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env=environment,
        start_new_session=True,
    )


def can_trace() -> bool:
    return (
        bool(shutil.which("strace"))
        and not subprocess.run(
            ["strace", "-f", "--seccomp-bpf", "-e", "trace=connect", "-o", "/dev/null", "true"], capture_output=True
        ).returncode
    )


def called(trace: Path) -> set[str]:
    """The addresses off this machine that were called; servers of names are among them."""
    return {each for each in _CALLED.findall(trace.read_text()) if not each.startswith("127.") and each != "::1"}


def left_behind(home: Path) -> list[str]:
    """Files written into a home, but for the server's own cache."""
    files = (each.relative_to(home).as_posix() for each in home.rglob("*") if each.is_file())
    return [each for each in files if not each.startswith("cache/limelight/")]


@pytest.mark.slow
def test_a_server_an_import_and_an_export_call_nobody_and_leave_nothing_in_the_home(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deploy" / "demo" / "dates", tmp_path / "models" / "dates")
    checkpoint = ENCODERS["bert"].write(tmp_path / "small", num_hidden_layers=1)
    flags = ("serve", "--repository", str(tmp_path / "models"), "--checkpoint", str(checkpoint))
    flags += ("--port", "0", "--metrics-port", "0")
    homes = {"server": tmp_path / "server", "export": tmp_path / "export"}
    server = begun(homes["server"], tmp_path / "server.trace", SERVER, *flags)
    export = begun(
        homes["export"],
        tmp_path / "export.trace",
        EXPORT,
        str(ROOT / "tests"),
        str(tmp_path / "out"),
        str(tmp_path / "checkpoint"),
        str(SECONDS),
    )
    try:
        assert server.stdout is not None and export.stdout is not None
        assert "serving on" in server.stdout.readline()
        serving = time.monotonic()
        assert "exported" in export.stdout.readline()
        assert export.wait(timeout=60) == 0
        time.sleep(max(0.0, serving + SECONDS - time.monotonic()))
    finally:
        for each in (server, export):
            os.killpg(each.pid, signal.SIGKILL) if each.poll() is None else None
            each.wait()
            assert each.stdout is not None
            each.stdout.close()
    assert {name: left_behind(home) for name, home in homes.items()} == {"server": [], "export": []}
    if not can_trace():
        pytest.skip("no strace that works here: what was called was not watched")
    assert {name: called(tmp_path / f"{name}.trace") for name in homes} == {"server": set(), "export": set()}


def test_onnx_runtime_is_imported_only_where_its_telemetry_is_off() -> None:
    found = set()
    for package in ("client", "bundle", "models", "export", "service", "examples"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                if any(each.partition(".")[0] == "onnxruntime" for each in names):
                    found.add(path.relative_to(ROOT).as_posix())
    assert found == {
        "service/limelight_service/engine/runtime/providers.py",
        "export/limelight_export/execution/onnx_runner.py",
        "export/limelight_export/conversion/float16.py",
    }


@pytest.mark.parametrize(
    "module",
    [
        "limelight_service.engine.runtime.providers",
        "limelight_export.execution.onnx_runner",
        "limelight_export",
        "tests",
        "benchmarks",
        "research",
    ],
)
def test_what_imports_onnx_runtime_has_turned_its_telemetry_off(module: str) -> None:
    calls = {
        "limelight_service.engine.runtime.providers": "module.runtime()",
        "limelight_export.execution.onnx_runner": "module.onnx_runtime()",
    }
    code = (
        f"import importlib, os, sys; module = importlib.import_module({module!r}); {calls.get(module, '')}\n"
        "print(os.environ['ORT_DISABLE_TELEMETRY'])"
    )
    environment = {name: value for name, value in os.environ.items() if name not in TOLD}
    environment["ORT_DISABLE_TELEMETRY"] = "0"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "1"


def test_the_image_calls_nobody_whatever_is_run_in_it() -> None:
    image = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    assert all(re.search(rf"\b{name}=1\b", image) for name in TOLD)
