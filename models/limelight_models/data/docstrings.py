"""Documents that every Python has: the docstrings of its standard library, by what their module is for.

Files are parsed with `ast`, never imported. A document is docstrings that stand near each other (a class and its
methods, the functions of a module), at least `SENTENCES` sentences of them where there are so many. Held out are whole
modules (files): no module is on two sides. Modules of one package (`email.message`, `email.parser`) can be.
"""

import ast
import inspect
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from limelight_bundle.splitting import split_sentences
from limelight_bundle.values import Text
from limelight_models.data.dataset import Dataset, Example, shuffled

SENTENCES = 4
_SHORTEST = 12  # words; below that a docstring says too little to be told apart

# The chapters of the library reference that have enough modules for some of them to be held out.
FAMILIES: dict[str, str] = {
    "concurrency": """
        asyncio threading multiprocessing concurrent subprocess queue sched selectors _threading_local contextvars
        """,
    "graphics": """
        tkinter idlelib turtle turtledemo colorsys
        """,
    "internet": """
        http urllib email ftplib smtplib smtpd imaplib poplib nntplib telnetlib ssl socket socketserver xmlrpc wsgiref
        ipaddress cgi webbrowser mailbox mailcap mimetypes html asynchat asyncore
        """,
    "language": """
        lib2to3 ast inspect dis tokenize importlib pkgutil typing symtable code codeop modulefinder zipimport opcode
        pyclbr linecache imp py_compile compileall tabnanny
        """,
}


def dataset(*, seed: int = 0, library: Path | None = None) -> Dataset:
    """Read the docstrings of this Python, or of another one's folder `library`."""
    root = library or Path(sysconfig.get_paths()["stdlib"])
    held: dict[str, list[Example]] = {"train": [], "dev": [], "test": []}
    for family, names in FAMILIES.items():
        modules = [list(documents(file)) for name in names.split() for file in files(root, name)]
        modules = shuffled([texts for texts in modules if texts], seed)
        for part, chosen in zip(held, allot(modules), strict=True):
            held[part] += [Example({"document": Text(text)}, family) for text in chosen]
    return Dataset(
        name="Docstrings of the Python standard library",
        licence="PSF-2.0",
        summary="Neighbouring docstrings make a document, labelled by what its module is for; whole modules held out.",
        train=tuple(held["train"]),
        dev=tuple(held["dev"]),
        test=tuple(held["test"]),
    )


def texts(*, seed: int = 0) -> Dataset:
    """The same as plain texts: the first words of each say enough of what it is about."""
    whole = dataset(seed=seed)

    def text(example: Example) -> Example:
        return Example({"text": example.instance["document"]}, example.label)

    train, dev, test = (tuple(map(text, part)) for part in (whole.train, whole.dev, whole.test))
    return replace(whole, train=train, dev=dev, test=test)


def allot(modules: Sequence[list[str]]) -> tuple[list[str], list[str], list[str]]:
    """Deal modules out whole, so that about a tenth of the documents each are for choosing and held out."""
    tenth = sum(map(len, modules)) / 10
    parts: tuple[list[str], list[str], list[str]] = ([], [], [])
    for texts in modules:
        small = [part for part in (parts[1], parts[2]) if len(part) + len(texts) <= 1.2 * tenth]
        (min(small, key=len) if small else parts[0]).extend(texts)
    return parts


def files(root: Path, name: str) -> list[Path]:
    """The source files of a module or package; none where this Python lacks it."""
    single = root / f"{name}.py"
    if single.is_file():
        return [single]
    found = sorted((root / name).rglob("*.py"))
    return [file for file in found if not {"test", "tests", "idle_test"} & set(file.relative_to(root).parts)]


def documents(file: Path) -> Iterator[str]:
    """The documents of one module."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # lib2to3 and others keep broken files on purpose
        return
    yield from _scope(tree)


def _scope(node: ast.AST) -> Iterator[str]:
    """Documents of a module or class: its own docstring and those of its functions, then those of its classes."""
    pending: list[str] = []
    for each in (node, *(child for child in ast.iter_child_nodes(node) if isinstance(child, _FUNCTIONS))):
        text = inspect.cleandoc(ast.get_docstring(each, clean=False) or "")  # type: ignore[arg-type]
        if len(text.split()) >= _SHORTEST:
            pending.append(text)
        if _sentences(pending) >= SENTENCES:
            yield "\n\n".join(pending)
            pending = []
    if _sentences(pending) >= SENTENCES // 2:
        yield "\n\n".join(pending)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _scope(child)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _sentences(texts: list[str]) -> int:
    return sum(len(list(split_sentences(text))) for text in texts)
