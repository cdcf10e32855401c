"""The arrows between the packages: client <- bundle <- models <- export, client <- bundle <- service."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {
    "limelight": ROOT / "client" / "limelight",
    "bundle": ROOT / "bundle",
    "models": ROOT / "models",
    "export": ROOT / "export",
    "service": ROOT / "service",
}
OURS = set(FOLDERS) | {"tests", "benchmarks", "studies"}
ALLOWED = {
    "limelight": {"limelight"},
    "bundle": {"limelight", "bundle"},
    "models": {"limelight", "bundle", "models"},
    "export": {"limelight", "bundle", "models", "export"},
    "service": {"limelight", "bundle", "service"},
}
FOREIGN = {
    "limelight": {"torch", "onnx", "onnxruntime", "onnxscript", "tokenizers"},
    "bundle": {"torch", "onnxruntime", "onnxscript"},
    "models": {"onnxruntime", "onnx", "onnxscript"},
    "export": set(),
    "service": {"torch", "onnx", "onnxscript"},
}


def imports(path: Path) -> Iterator[str]:
    """Yield the first part of every module that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0]


@pytest.mark.parametrize("package", FOLDERS)
def test_a_package_imports_only_what_its_arrow_allows(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted(FOLDERS[package].rglob("*.py"))
        for name in imports(path)
        if name in (OURS - ALLOWED[package]) | FOREIGN[package]
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("limelight", "typer rich PIL torch onnx onnxruntime tokenizers"),
        ("limelight.cli", "torch onnx onnxruntime tokenizers"),
        ("service.command", "numpy onnxruntime tokenizers"),  # it says first how many threads they may use
        ("service.server", "torch onnx onnxscript"),
        ("models.training.command", "torch"),
        ("export.command", "torch onnx"),
    ],
)
def test_importing_a_module_does_not_bring_in_heavy_ones(module: str, heavy: str) -> None:
    code = f"import sys, {module}; print(*[name for name in {heavy.split()!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.split() == []
