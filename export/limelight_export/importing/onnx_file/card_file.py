"""Cards of ONNX files, in TOML. Sizes and types that the file states are taken from it."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from limelight_export.errors import ExportError
from limelight_export.importing import cards
from limelight_export.importing.onnx_file.file import FileTensor, OnnxFile

T = TypeVar("T")


@dataclass(frozen=True)
class Generation:
    """The second file of a pair: it takes one token of the answer, and scores the next.

    Attributes:
        step: path of the file, relative to the card.
        token: its input of the last token, [batch] or [batch, 1].
        scores: its output [batch, token].
        begin, end: ids of the first token that goes in, and of the token that ends an answer.
        tokenizer: path of the tokenizer.json that turns ids into the answer's text.
        states: for each of its inputs that changes from step to step: the output of the first file with its initial
            value, and its own output with its next value.
        constants: for each of its inputs that stays: the output of the first file, or the first file's own input.
    """

    step: str
    token: str
    scores: str
    begin: int
    end: int
    max_new_tokens: int
    tokenizer: str
    states: Mapping[str, Sequence[str]]
    constants: Mapping[str, str]


@dataclass(frozen=True)
class CardFile:
    """A card, and what else its file states.

    Attributes:
        examples: values of each input by name: texts, paths of files relative to the card, or lists of numbers.
    """

    card: cards.Card
    examples: tuple[Mapping[str, Any], ...]
    generation: Generation | None


_INPUTS: Mapping[str, type[cards.Input]] = {"text": cards.Text, "image": cards.Image, "tensor": cards.Tensor}
_RESULTS: Mapping[str, type[cards.Result]] = {
    "classes": cards.Classes,
    "numbers": cards.Numbers,
    "embedding": cards.Embedding,
    "boxes": cards.Boxes,
}


def read_card(path: Path, file: OnnxFile) -> CardFile:
    """Read the card of an ONNX file.

    Raises:
        ExportError: names the entry that is missing, unknown, or of the wrong type.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ExportError(f"{path}: the card cannot be read: {error.strerror}") from error
    except ValueError as error:  # of a number of thousands of digits too
        raise ExportError(f"{path}: the card is not valid TOML: {error}") from error
    except RecursionError as error:
        raise ExportError(f"{path}: the card is nested too deeply") from error
    return _Reader(Path(path), file).card(content)


class _Reader:
    def __init__(self, path: Path, file: OnnxFile) -> None:
        self._path, self._file = path, file

    def card(self, content: Mapping[str, Any]) -> CardFile:
        plain = {name: value for name, value in content.items() if name not in ("examples", "generation")}
        made = dict(plain)
        made["inputs"] = {
            name: self._input(name, each) for name, each in self._tables(content, "inputs", required=True).items()
        }
        made["results"] = {
            name: self._kind(_RESULTS, f"results.{name}", self._with_labels(each))
            for name, each in self._tables(content, "results").items()
        }
        made["maps"] = {
            name: self._made(cards.Map, f"maps.{name}", each) for name, each in self._tables(content, "maps").items()
        }
        examples = content.get("examples", [])
        if not isinstance(examples, list) or not all(isinstance(each, dict) for each in examples):
            raise self._wrong("examples", "is a list of tables: [[examples]]")
        generation = content.get("generation")
        return CardFile(
            self._made(cards.Card, "", made),
            tuple(examples),
            None if generation is None else self._made(Generation, "generation", generation),
        )

    def _input(self, name: str, content: Mapping[str, Any]) -> cards.Input:
        where = f"inputs.{name}"
        content = dict(content)
        if isinstance(content.get("mask"), dict):
            content["mask"] = self._made(cards.Mask, f"{where}.mask", content["mask"])
        if isinstance(content.get("patches"), list):
            content["patches"] = tuple(content["patches"])
        if content.get("kind") == "tensor":
            content = self._sized(where, name, content)
        made = self._kind(_INPUTS, where, content)
        if isinstance(made, cards.Text):
            return replace(made, tokenizer=self._path.parent / made.tokenizer)
        return made

    def _with_labels(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Read the labels of classes from a file, a line each, where a card names one."""
        file = content.get("labels")
        if not isinstance(file, str):
            return content
        try:
            lines = (self._path.parent / file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ExportError(f"{self._path}: the labels in {file!r} cannot be read") from error
        return {**content, "labels": lines}

    def _sized(self, where: str, name: str, content: dict[str, Any]) -> dict[str, Any]:
        """Add to a tensor the type and the sizes that the file states; the card names its axes."""
        tensor = content.get("tensor", "") or name
        own = self._file.inputs.get(tensor)
        if own is None:
            raise ExportError(unknown_input(tensor, self._file))
        axes = content.get("axes", [each for each in own.axes[1:] if isinstance(each, str)])
        if isinstance(axes, list):
            if len(axes) != len(own.axes) - 1:
                raise self._wrong(
                    f"{where}.axes", f"names {len(axes)} axes beside the batch; the file states {shape_of(own)}"
                )
            for place, (axis, size) in enumerate(zip(axes, own.axes[1:], strict=True), 1):
                if isinstance(size, int) and axis in content.get("largest", {}):
                    raise ExportError(
                        f"axis {place} of {self._file.path.name}'s input {own.name!r} is always {size}, and the card "
                        f"says that it varies ({axis}); export the file with a dynamic axis"
                    )
            axes = {axis: size if isinstance(size, int) else 0 for axis, size in zip(axes, own.axes[1:], strict=True)}
        return {**content, "axes": axes, "dtype": str(own.dtype)}  # which is checked with the card

    def _tables(self, content: Mapping[str, Any], name: str, *, required: bool = False) -> Mapping[str, Any]:
        found = content.get(name, {})
        if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
            raise self._wrong(name, f"is a table of tables: [{name}.NAME]")
        if required and not found:
            raise self._wrong(name, f"is missing: the card needs at least one [{name}.NAME]")
        return found

    def _kind(self, kinds: Mapping[str, type[T]], where: str, content: Mapping[str, Any]) -> T:
        kind = content.get("kind", "")
        if not isinstance(kind, str) or kind not in kinds:
            raise self._wrong(f"{where}.kind", f"is {kind!r}; it is one of {', '.join(map(repr, kinds))}")
        return self._made(kinds[kind], where, {name: value for name, value in content.items() if name != "kind"})

    def _made(self, kind: Callable[..., T], where: str, content: Any) -> T:
        """Make a dataclass of a table."""
        if not isinstance(content, dict):
            raise self._wrong(where, "is a table")
        stated = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
        prefix = f"{where}." if where else ""
        for name, value in content.items():
            if name not in stated:
                raise self._wrong(f"{prefix}{name}", f"is unknown; entries are {', '.join(stated)}")
            if not _accepts(stated[name].type, value):
                raise self._wrong(f"{prefix}{name}", f"is {value!r}; it is {_described(stated[name].type)}")
        for name, each in stated.items():
            if name not in content and each.default is MISSING and each.default_factory is MISSING:
                raise self._wrong(f"{prefix}{name}", "is missing")
        return kind(**content)

    def _wrong(self, where: str, problem: str) -> ExportError:
        return ExportError(f"{self._path}: {where or 'the card'} {problem}")


def unknown_input(name: str, file: OnnxFile) -> str:
    """Say that a file has no input of a name."""
    return (
        f"the card's inputs state {name!r}, which {file.path.name} does not take; it takes "
        f"{', '.join(map(repr, file.inputs))}"
    )


def shape_of(tensor: FileTensor) -> str:
    """Describe the shape that a file states."""
    return f"{tensor.dtype}[{', '.join(map(str, tensor.axes))}]"


def _accepts(annotation: Any, value: object) -> bool:
    """Tell whether a value of TOML is of a field's type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return True
    if origin in (Union, UnionType):
        return any(_accepts(each, value) for each in arguments)
    if origin is Literal:
        return value in arguments
    if origin is Mapping:
        return isinstance(value, dict) and all(_accepts(arguments[1], each) for each in value.values())
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(_accepts(arguments[0], each) for each in value)
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(arguments) and all(map(_accepts, arguments, value))
    if annotation in (int, float):
        return isinstance(value, int | annotation) and not isinstance(value, bool)
    return isinstance(value, annotation)


def _described(annotation: Any) -> str:
    """Describe a field's type in words of TOML."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_described(each) for each in arguments if each not in (NoneType, Path)))
    if origin is Literal:
        return f"one of {', '.join(map(repr, filter(None, arguments)))}"
    if origin is Mapping:
        return f"a table of {_described(arguments[1])}"
    if origin in (Sequence, tuple):
        return f"a list of {_described(arguments[0])}"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    return names.get(annotation, "a table")
