"""The arrows between the packages: base <- bundle <- models <- export, base <- bundle <- service; and no circles.

research, tools and tests are no part of the product: only they may import each other, and benchmarks neither of the
others.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {
    "limelight": ROOT / "client" / "limelight",
    **{f"limelight_{name}": ROOT / name / f"limelight_{name}" for name in ("bundle", "models", "export", "service")},
}
ASIDE = {
    "tests": ROOT / "tests",
    "research": ROOT / "research",
    **{name: ROOT / "tools" / name for name in ("benchmarks", "hostile", "pages")},
}
OURS = {*FOLDERS, *ASIDE}
ALLOWED = {
    "limelight": {"limelight"},
    "limelight_bundle": {"limelight", "limelight_bundle"},
    "limelight_models": {"limelight", "limelight_bundle", "limelight_models"},
    "limelight_export": {"limelight", "limelight_bundle", "limelight_models", "limelight_export"},
    "limelight_service": {"limelight", "limelight_bundle", "limelight_service"},
}
# All that other packages may take from the client.
OF_CLIENT = ("limelight.base", "limelight.v1")
TOOLS = {  # each with those that it may not import
    "benchmarks": {"tests", "research", "limelight_service"},
    "research": {"tests", "limelight_service"},
}
FOREIGN = {
    "limelight": {"torch", "onnx", "onnxruntime", "onnxscript", "tokenizers"},
    "limelight_bundle": {"torch", "onnxruntime", "onnxscript"},
    "limelight_models": {"onnxruntime", "onnx", "onnxscript"},
    "limelight_export": set(),
    "limelight_service": {"torch", "onnx", "onnxscript"},
}


def imports(path: Path) -> Iterator[str]:
    """Yield the first part of every module that a file imports, wherever in the file."""
    return (name.partition(".")[0] for name in modules(path))


def modules(path: Path) -> Iterator[str]:
    """Yield every module that a file imports, wherever in the file; of a root package, what is taken from it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from [node.module] if "." in node.module else [f"{node.module}.{each.name}" for each in node.names]


@pytest.mark.parametrize("package", FOLDERS)
def test_a_package_imports_only_what_its_arrow_allows(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted(FOLDERS[package].rglob("*.py"))
        for name in imports(path)
        if name in (OURS - ALLOWED[package]) | FOREIGN[package]
    ]
    assert not wrong


@pytest.mark.parametrize("package", FOLDERS)
def test_what_others_take_from_the_client_stands_in_one_place(package: str) -> None:
    """And that place, `limelight.base`, takes nothing of the rest of the client."""
    folder = FOLDERS["limelight"] / "base" if package == "limelight" else FOLDERS[package]
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted(folder.rglob("*.py"))
        for name in modules(path)
        if name.partition(".")[0] == "limelight" and not f"{name}.".startswith(tuple(f"{each}." for each in OF_CLIENT))
    ]
    assert not wrong


def test_docstrings_can_be_encoded() -> None:
    """From 3.13 on, Python encodes them when it compiles a module: a lone surrogate would make it no module."""
    texts = (path.read_text(encoding="utf-8") for folder in FOLDERS.values() for path in folder.rglob("*.py"))
    for text in (each for each in texts if r"\ud" in each.lower()):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                (ast.get_docstring(node, clean=False) or "").encode()


@pytest.mark.parametrize("folder", TOOLS)
def test_tools_stand_on_the_product_and_on_each_other_in_one_direction(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted(ASIDE[folder].rglob("*.py"))
        for name in imports(path)
        if name in TOOLS[folder]
    ]
    assert not wrong


def imported_modules(path: Path, *, lazily: bool = True) -> set[Path]:
    """Give the files of this repository that a file imports, but for types alone. lazily: in functions, too."""
    found = set[Path]()
    for node in _imports_at_run_time(ast.parse(path.read_text(encoding="utf-8")), lazily):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert not node.level and node.module, f"{path}: relative imports are not followed"
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        found |= {file for name in names if (file := _file_of(name)) is not None}
    return found - {path}


def _imports_at_run_time(tree: ast.AST, lazily: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING") or (
            not lazily and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ):
            continue
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):  # an expression holds no import
            yield from _imports_at_run_time(node, lazily)


def _file_of(module: str) -> Path | None:
    """Give the file of a module of this repository; None for a package's folder, whose `__init__` imports its parts."""
    root, *rest = module.split(".")
    if root not in OURS:
        return None
    file = (FOLDERS | ASIDE)[root].joinpath(*rest).with_suffix(".py") if rest else None
    return file if file and file.is_file() else None


def test_no_module_of_the_repository_imports_itself_in_a_circle() -> None:
    folders = [*FOLDERS.values(), *ASIDE.values()]
    files = {path for folder in folders for path in folder.rglob("*.py") if "_pb2" not in path.name}
    edges = {path: imported_modules(path) & files for path in files}
    sorter = TopologicalSorter(edges)
    try:
        sorter.prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(str(path.relative_to(ROOT)) for path in circle.args[1]))


def test_no_packages_import_each_other_in_a_circle() -> None:
    """Of the parts of a folder, modules and packages alike, wherever in a file the import is."""
    edges: dict[Path, set[Path]] = {}
    for path in (path for folder in FOLDERS.values() for path in folder.rglob("*.py") if "_pb2" not in path.name):
        for other in imported_modules(path):
            common = next(folder for folder in path.parents if folder in other.parents)
            one, two = (common / each.relative_to(common).parts[0] for each in (path, other))
            edges.setdefault(one, set()).add(two)
    sorter = TopologicalSorter(edges)
    try:
        sorter.prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(str(path.relative_to(ROOT)) for path in circle.args[1]))


def test_modules_of_the_service_stand_on_at_most_eleven_others() -> None:
    """One below the other, by what they import when they are imported themselves."""
    files = {path for path in FOLDERS["limelight_service"].rglob("*.py") if "_pb2" not in path.name}
    edges = {path: imported_modules(path, lazily=False) & files for path in files}
    depth: dict[Path, int] = {}
    for path in TopologicalSorter(edges).static_order():
        depth[path] = 1 + max((depth[each] for each in edges[path]), default=0)
    assert {path.name: each for path, each in depth.items() if each > 12} == {}


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("limelight", "typer rich PIL torch onnx onnxruntime tokenizers"),
        ("limelight.cli", "torch onnx onnxruntime tokenizers"),
        ("limelight_service.command", "numpy onnxruntime tokenizers"),  # it says first how many threads they may use
        ("limelight_service.supervisor.in_process", "torch onnx onnxscript opentelemetry"),
        (
            "limelight_service.supervisor.supervisor",
            "grpc onnxruntime tokenizers PIL limelight_service.engine.scheduling limelight_service.codecs",
        ),
        ("limelight_service.supervisor.frontend_process", "onnxruntime limelight_service.engine"),
        (
            "limelight_service.supervisor.engine_process",
            "grpc tokenizers PIL limelight.v1.service_pb2 limelight_service.codecs limelight_service.frontend",
        ),
        ("limelight_models.training.command", "torch"),
        ("limelight_export.command", "torch onnx"),
        ("limelight_export.importing.command", "torch onnx onnxruntime"),
        ("limelight_export.importing.onnx_file.importing", "torch onnxscript"),
    ],
)
def test_importing_a_module_does_not_bring_in_heavy_ones(module: str, heavy: str) -> None:
    code = f"import sys, {module}; print(*[name for name in {heavy.split()!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.split() == []
