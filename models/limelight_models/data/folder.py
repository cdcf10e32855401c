"""Parts of a data set: a folder with a file a part, or one file that is split by seed."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from limelight.base.counts import counted
from limelight_models.data import drawings, graphs, idx, loads, passages, reviews, row_files, rows, speech, stories
from limelight_models.data.dataset import (
    DataError,
    Dataset,
    Example,
    FileRead,
    check_labels,
    check_sources,
    require,
    split,
)

IMAGES: Literal["images"] = "images"
GRAPHS: Literal["graphs"] = "graphs"
SERIES: Literal["series on graphs"] = "series on graphs"
_FileKind = rows.Kind | Literal["images"]
STORIES: Literal["stories"] = "stories"
PASSAGES: Literal["questions about passages"] = "questions about passages"
DRAWINGS: Literal["drawings"] = "drawings"  # labelled images, to be drawn by their labels
TRANSFER: Literal["reviews of two domains"] = "reviews of two domains"
Kind = (
    _FileKind
    | Literal["graphs", "series on graphs", "stories", "questions about passages", "drawings", "reviews of two domains"]
)
_Read = Callable[[Path], list[Example]]
_PARTS = {"train": ("train",), "dev": ("dev", "valid", "validation", "val"), "test": ("test", "t10k")}
_SHARE = 0.1


def load(
    path: Path, kind: Kind, *, seed: int = 0, name: str = "", licence: str = "", columns: Sequence[str] = ()
) -> Dataset:
    """Read lines of a kind, images, stories, questions about passages, reviews of two domains, one graph of an .npz
    archive (which says itself what its parts are) or a series on one (`limelight_models.data.loads`), or a
    folder of recordings of spoken digits as recordings or as pairs (`limelight_models.data.speech`).

    A folder holds train, dev and test files (`train.tsv`, `dev.jsonl.gz`, `test2016.tsv`, `train-images-idx3-ubyte.gz`
    with `train-labels-idx1-ubyte.gz`, `t10k-…`). A part that is missing, and everything of a single file, is cut from
    the training part: a tenth to choose by, a tenth held out, drawn by the seed.
    `FOLDER+MARKS`: what people marked in the lines of one folder is in another beside it (`row_files.marks`).
    columns: of lines that have more than the kind needs, or have it in another order (`row_files.read`).
    Raises: DataError naming the file, and the line where there is one.
    """
    if columns and not isinstance(kind, rows.Kind):
        raise DataError(f"columns are chosen of lines; this model learns from {kind}")
    if kind == TRANSFER:
        return reviews.read(path, name=name, licence=licence)
    marked: Mapping[str, object] = {}
    if not path.exists() and reviews.BETWEEN in path.name:
        name = name or path.name
        first, _, second = path.name.partition(reviews.BETWEEN)
        path, marked = path.with_name(first), row_files.marks(path.with_name(second))
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    if kind == DRAWINGS:
        return drawings.of_pictures(load(path, IMAGES, seed=seed, name=name, licence=licence))
    if kind == GRAPHS:
        if path.name.endswith(row_files.SUFFIXES):
            raise DataError(f"{path}: this model learns from a graph in an .npz archive, and not from lines")
        return graphs.dataset(path, name=name, licence=licence)
    if kind == SERIES:
        return loads.read(path, name=name, licence=licence)
    if kind == PASSAGES:
        return passages.dataset(path, name=name, licence=licence)
    if kind == STORIES:
        return stories.dataset(path, seed=seed, name=name, licence=licence)
    if kind is rows.PAIRS and (path / speech.TRAIN).is_file():
        return speech.dataset(path, seed=seed, name=name, licence=licence)
    if kind is rows.RECORDINGS and (path / speech.TRAIN).is_file():
        return speech.spoken(path, seed=seed, name=name, licence=licence)
    files: list[FileRead] = []

    def read(file: Path) -> list[Example]:
        if not isinstance(kind, rows.Kind):
            return _pictures(file)
        examples, how = row_files.read_file(file, kind, columns=columns, marked=marked)
        files.append(how)
        return examples

    if path.is_dir():
        parts = {part: _part(path, kind, stems, read) for part, stems in _PARTS.items()}
        if parts["train"] is None:
            raise DataError(f"{path}: has no train file; {_expected(kind)} is wanted")
    elif kind == IMAGES or path.name.endswith(row_files.SUFFIXES):
        parts = {"train": read(path), "dev": None, "test": None}
    else:
        raise DataError(f"{path}: is none of {', '.join(row_files.SUFFIXES)}")
    made = [part for part in ("dev", "test") if parts[part] is None]
    if made:
        require(parts["train"] or (), str(path))
        count = len(parts["train"] or ())
        if count <= len(made):
            raise DataError(
                f"{path}: has {counted(count, 'example')}, and {' and '.join(made)} get at least one each: "
                f"{len(made) + 1} are the fewest, and a model learns from hundreds"
            )
        *cut, rest = split(parts["train"] or (), seed, *(_SHARE for _ in made))
        parts |= {**dict(zip(made, map(list, cut), strict=True)), "train": list(rest)}
    for part, examples in parts.items():
        require(examples or (), f"{path}, {part}")
    whole = [each for examples in parts.values() for each in examples or ()]
    if isinstance(kind, rows.Kind) and "label" in kind.columns:
        check_labels(whole, str(path))
    if kind is rows.PAIRS:
        check_sources(whole, str(path))
    if marked and not any(each.gold for each in whole):
        raise DataError(f"{path}: none of the marks beside it is of a line here, of documents or texts")
    how = f"{', '.join(made)} drawn from the training part by seed {seed}" if made else "split as it came"
    return Dataset(
        name=name or path.resolve().name.split(".")[0],
        licence=licence or "not stated",
        summary=f"Read from {kind} in files; {how}.",
        train=tuple(parts["train"] or ()),
        dev=tuple(parts["dev"] or ()),
        test=tuple(parts["test"] or ()),
        files=tuple(files),
    )


def _part(folder: Path, kind: _FileKind, stems: tuple[str, ...], read: _Read) -> list[Example] | None:
    """Read one part of a folder; None where it has no file."""
    if kind == IMAGES:
        found = _one(folder, lambda file: file.name.startswith(stems) and "images-idx3-ubyte" in file.name)
    else:
        # A year may stand behind a part's name, as in test2016.tsv.
        called = re.compile(rf"({'|'.join(stems)})([-_]?\d{{4}})?({'|'.join(map(re.escape, row_files.SUFFIXES))})")
        found = _one(folder, lambda file: called.fullmatch(file.name) is not None)
    return None if found is None else read(found)


def _pictures(images: Path) -> list[Example]:
    return idx.read(images, labels_beside(images))


def _one(folder: Path, wanted: Callable[[Path], bool]) -> Path | None:
    found = sorted(file for file in folder.iterdir() if wanted(file))
    if len(found) > 1:
        raise DataError(f"{folder}: {found[0].name} and {found[1].name} are the same part; leave one of them")
    return found[0] if found else None


def labels_beside(images: Path) -> Path:
    """The labels' file that belongs to an images' file, gzipped or not. Raises: DataError where there is none."""
    name = images.name.removesuffix(".gz").replace("images-idx3", "labels-idx1")
    for candidate in (images.with_name(f"{name}.gz"), images.with_name(name)):
        if candidate.is_file() and candidate != images:
            return candidate
    raise DataError(f"{images}: its labels are missing; {name}(.gz) is wanted beside it")


def _expected(kind: _FileKind) -> str:
    if kind == IMAGES:
        return "train-images-idx3-ubyte(.gz)"
    return "one of " + ", ".join(f"train{suffix}" for suffix in row_files.SUFFIXES)
