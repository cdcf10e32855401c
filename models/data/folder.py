"""Where the parts of a data set are: a folder with a file a part, or one file that is split by seed."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from models.data import drawings, graphs, idx, reviews, rows, speech, stories
from models.data.dataset import DataError, Dataset, Example, require, split

IMAGES: Literal["images"] = "images"
GRAPHS: Literal["graphs"] = "graphs"
_FileKind = rows.Kind | Literal["images"]
STORIES: Literal["stories"] = "stories"
DRAWINGS: Literal["drawings"] = "drawings"  # labelled images, to be drawn by their labels
TRANSFER: Literal["reviews of two domains"] = "reviews of two domains"
Kind = _FileKind | Literal["graphs", "stories", "drawings", "reviews of two domains"]
_PARTS = {"train": ("train",), "dev": ("dev", "valid", "validation", "val"), "test": ("test", "t10k")}
_SHARE = 0.1


def load(path: Path, kind: Kind, *, seed: int = 0, name: str = "", licence: str = "") -> Dataset:
    """Read lines of a kind, images, stories, reviews of two domains, one graph of an .npz archive (which says itself
    what its parts are), or as pairs a folder of recordings of spoken digits (`models.data.speech`).

    A folder holds train, dev and test files (`train.tsv`, `dev.jsonl.gz`, `train-images-idx3-ubyte.gz` with
    `train-labels-idx1-ubyte.gz`, `t10k-…`). A part that is missing, and everything of a single file, is cut from the
    training part: a tenth to choose by, a tenth held out, drawn by the seed.
    Raises: DataError naming the file, and the line where there is one.
    """
    if kind == TRANSFER:
        return reviews.read(path, name=name, licence=licence)
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    if kind == DRAWINGS:
        return drawings.of_pictures(load(path, IMAGES, seed=seed, name=name, licence=licence))
    if kind == GRAPHS:
        return graphs.dataset(path, name=name, licence=licence)
    if kind == STORIES:
        return stories.dataset(path, seed=seed, name=name, licence=licence)
    if kind is rows.PAIRS and (path / speech.TRAIN).is_file():
        return speech.dataset(path, seed=seed, name=name, licence=licence)
    if path.is_dir():
        parts = {part: _part(path, kind, stems) for part, stems in _PARTS.items()}
        if parts["train"] is None:
            raise DataError(f"{path}: has no train file; {_expected(kind)} is wanted")
    elif kind == IMAGES:
        parts = {"train": idx.read(path, labels_beside(path)), "dev": None, "test": None}
    elif path.name.endswith(rows.SUFFIXES):
        parts = {"train": rows.read(path, kind), "dev": None, "test": None}
    else:
        raise DataError(f"{path}: is none of {', '.join(rows.SUFFIXES)}")
    made = [part for part in ("dev", "test") if parts[part] is None]
    if made:
        require(parts["train"] or (), str(path))
        *cut, rest = split(parts["train"] or (), seed, *(_SHARE for _ in made))
        parts |= {**dict(zip(made, map(list, cut), strict=True)), "train": list(rest)}
    for part, examples in parts.items():
        require(examples or (), f"{path}, {part}")
    how = f"{', '.join(made)} drawn from the training part by seed {seed}" if made else "split as it came"
    return Dataset(
        name=name or path.resolve().name.split(".")[0],
        licence=licence or "not stated",
        summary=f"Read from {kind} in files; {how}.",
        train=tuple(parts["train"] or ()),
        dev=tuple(parts["dev"] or ()),
        test=tuple(parts["test"] or ()),
    )


def _part(folder: Path, kind: _FileKind, stems: tuple[str, ...]) -> list[Example] | None:
    """Read one part of a folder; None where it has no file."""
    if kind == IMAGES:
        found = _one(folder, lambda file: file.name.startswith(stems) and "images-idx3-ubyte" in file.name)
        return None if found is None else idx.read(found, labels_beside(found))
    names = {f"{stem}{suffix}" for stem in stems for suffix in rows.SUFFIXES}
    found = _one(folder, lambda file: file.name in names)
    return None if found is None else rows.read(found, kind)


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
    return (
        "train-images-idx3-ubyte(.gz)" if kind == IMAGES else "one of " + ", ".join(f"train{s}" for s in rows.SUFFIXES)
    )
