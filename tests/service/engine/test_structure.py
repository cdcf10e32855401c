"""The engine's modules: at most eight floors of imports, and no protocol, tokenizer or image library."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SERVICE = Path(__file__).resolve().parents[3] / "service"
FLOORS = 8
MODULES = {
    ".".join(path.relative_to(SERVICE).with_suffix("").parts): path
    for path in sorted((SERVICE / "limelight_service" / "engine").rglob("*.py"))
    if path.name != "__init__.py"
}
FOREIGN = ("grpc", "grpc_health", "grpc_reflection", "limelight.v1", "tokenizers", "PIL")


def imported(path: Path) -> Iterator[str]:
    """Yield the name of everything that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def floor(module: str) -> int:
    """One above the highest engine module that a module imports; an import circle never ends here."""
    return 1 + max((floor(each) for each in {*imported(MODULES[module])} & MODULES.keys()), default=0)


def test_the_engine_is_at_most_eight_floors_high() -> None:
    floors = {module: floor(module) for module in MODULES}
    assert max(floors.values()) <= FLOORS, sorted(floors.items(), key=lambda each: -each[1])
    assert (
        floors["limelight_service.engine.engine"] > floors["limelight_service.engine.types"] == 1
    )  # so imports are seen at all


@pytest.mark.parametrize("module", MODULES)
def test_an_engine_module_imports_no_protocol_tokenizer_or_image_library(module: str) -> None:
    wrong = [name for name in imported(MODULES[module]) if any(f"{name}.".startswith(f"{each}.") for each in FOREIGN)]
    assert not wrong
