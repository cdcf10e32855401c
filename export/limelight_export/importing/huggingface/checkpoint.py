"""A checkpoint folder: what it states, read as JSON, and what is refused before anything is loaded."""

import json
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from limelight_export.errors import CheckpointError

CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_PREPROCESSOR = "preprocessor_config.json"
# transformers 5 writes the parts of a processor into one file.
_PROCESSOR = "processor_config.json"
PICKLED_ENDINGS = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
# Files that an import reads, or that transformers does.
_READ_ENDINGS = frozenset(".json .safetensors .txt .model .spm .jinja .md".split())
# The largest published tokenizers have 35 MB.
_MAX_TEXT_BYTES = 2**28
# What the folder of a checkpoint may be called in a repository.
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9_-]+")
_MAX_NAME_LENGTH = 64
# The folder of a commit in the cache of Hugging Face: the organisation and the name have `--` between them.
_OF_CACHE = re.compile(r"models--([^/]+)/snapshots/([0-9a-f]{40})")
# Folders that many checkpoints lie in, one of the trainer's steps, and a commit in the cache of the Hub.
_NAMES_NOTHING = re.compile(r"models?|checkpoints?(-[0-9]+)?|output|[0-9a-f]{40}")


@dataclass(frozen=True)
class Processor:
    """What a file states of how pictures or recordings become tensors; fields that are null have their default."""

    file: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose weights are safetensors and whose modules are the library's own.

    Attributes:
        config: content of config.json.
        made: files that the folder lacks, and that were made of others, by their names.
    """

    folder: Path
    config: Mapping[str, Any]
    made: Mapping[str, str] = field(default_factory=dict)

    @property
    def model_type(self) -> str:
        """The architecture, such as `bert`."""
        return str(self.config.get("model_type", ""))

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the library's classes that the weights were saved from."""
        found = self.config.get("architectures")
        return tuple(map(str, found)) if isinstance(found, list) else ()

    @property
    def origin(self) -> tuple[str, str]:
        """Repository (`org/name`) and commit of a folder of Hugging Face's cache; empty for another folder."""
        folder = self.folder.resolve()
        found = _OF_CACHE.fullmatch("/".join(folder.parts[-3:]))
        return (found[1].replace("--", "/"), found[2]) if found else ("", "")

    @property
    def name(self) -> str:
        """The name of the repository or the folder, as a repository of bundles can hold it; that of the architecture
        where the folder's names nothing.
        """
        for name in (self.origin[0].rpartition("/")[2], self.folder.resolve().name, self.model_type):
            plain = _NOT_IN_A_NAME.sub("-", name.lower()).strip("-_")
            if plain and not _NAMES_NOTHING.fullmatch(plain):
                return plain[:_MAX_NAME_LENGTH]
        return "model"

    @property
    def licence(self) -> str:
        """The licence that the model card states; empty for none."""
        lines = (self.text("README.md") or "").splitlines()
        if not lines or lines[0].strip() != "---":
            return ""
        for line in lines[1:]:
            if line.strip() == "---":
                break
            key, _, value = line.partition(":")
            if key == "license":
                return value.strip().strip("\"'")
        return ""

    def file(self, name: str) -> Path | None:
        """Find a file of the folder; None where there is none.

        Links are followed within the folder, and to the blobs of a cache of Hugging Face.

        Raises:
            CheckpointError: it leads out of the folder, or is no regular file, which may have no end.
        """
        path = self.folder / name
        try:
            mode = path.stat().st_mode
            target = path.resolve()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, RuntimeError) as error:  # a name that is none, or links in a circle
            raise CheckpointError(f"{name!r} of the checkpoint cannot be read: {error}") from error
        if stat.S_ISDIR(mode):
            return None
        if not stat.S_ISREG(mode):
            raise CheckpointError(f"{name} of the checkpoint is not a regular file")
        folder = self.folder.resolve()
        blobs = folder.parent.parent / "blobs" if folder.parent.name == "snapshots" else folder
        if not (target.is_relative_to(folder) or target.is_relative_to(blobs)):
            raise CheckpointError(f"{name} of the checkpoint leads out of its folder; copy the file there")
        return path

    def text(self, name: str) -> str | None:
        """Read a text file of the folder; None where there is none.

        Raises:
            CheckpointError: as of `file`, or it is very large or not UTF-8.
        """
        if name in self.made:
            return self.made[name]
        path = self.file(name)
        if path is None:
            return None
        if path.stat().st_size > _MAX_TEXT_BYTES:
            raise CheckpointError(f"{name} of the checkpoint has more than {_MAX_TEXT_BYTES >> 20} MiB")
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise CheckpointError(f"{name} of the checkpoint is not UTF-8") from error

    def json(self, name: str) -> Any:
        """Read a JSON file of the folder; None where there is none. Raises CheckpointError if it is not JSON."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise CheckpointError(f"{name} of the checkpoint is not JSON: {error}") from error
        except (ValueError, RecursionError) as error:  # a number of thousands of digits
            raise CheckpointError(f"{name} of the checkpoint is nested too deeply, or has a number too long") from error

    def table(self, name: str) -> Mapping[str, Any]:
        """Read a JSON object of the folder; empty where there is none. Raises CheckpointError for another value."""
        found = self.json(name)
        if found is not None and not isinstance(found, dict):
            raise CheckpointError(f"{name} of the checkpoint is not a JSON object")
        return found or {}

    def processor(self, part: str) -> Processor:
        """Read how inputs become tensors, as transformers finds it. part: `image_processor` or `feature_extractor`."""
        for file, stated in (
            (_PROCESSOR, self.table(_PROCESSOR).get(part)),
            (_PREPROCESSOR, self.table(_PREPROCESSOR) or None),
        ):
            if stated is not None:
                if not isinstance(stated, dict):
                    raise CheckpointError(f"{file} of the checkpoint states no fields of {part}")
                return Processor(file, {name: value for name, value in stated.items() if value is not None})
        raise CheckpointError(
            f"the checkpoint has no {_PREPROCESSOR}, and no {_PROCESSOR} with {part}: "
            "one of them states how an input becomes a tensor"
        )


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint folder.

    Raises:
        CheckpointError: it has no config.json or no safetensors, brings code, an adapter or quantised weights, or has
            a file that leads out of it or cannot be read.
    """
    checkpoint = read_description(folder)
    _check_weights(checkpoint)
    return checkpoint


def read_description(folder: Path) -> Checkpoint:
    """Read what a checkpoint folder states, its weights apart. Raises CheckpointError as `read_checkpoint`."""
    checkpoint = Checkpoint(folder, {})
    if checkpoint.file(CONFIG) is None:
        raise CheckpointError(f"{folder} has no {CONFIG}; name the folder of a checkpoint, or org/name of a hub")
    # transformers opens files by itself; none of them may be endless, or of another folder.
    check_files(folder, files_read(folder))
    checkpoint = Checkpoint(folder, checkpoint.table(CONFIG))
    for file in (CONFIG, TOKENIZER_CONFIG):
        _refuse_code(file, checkpoint.table(file))
    if checkpoint.config.get("quantization_config"):
        raise CheckpointError(
            f"{CONFIG} states quantization_config: quantised weights cannot be imported; import the original weights, "
            "and quantise with --precision int8"
        )
    return checkpoint


def files_read(folder: Path) -> list[Path]:
    """List the files that an import, or transformers for it, may read: of the folder and of those in it."""
    return sorted(path for path in (*folder.glob("*"), *folder.glob("*/*")) if path.suffix in _READ_ENDINGS)


def check_files(folder: Path, paths: Iterable[Path]) -> None:
    """Check that files of a checkpoint can be read whole. Raises CheckpointError as of `Checkpoint.file`."""
    checkpoint = Checkpoint(folder, {})
    for path in paths:
        name = str(path.relative_to(folder))
        if path.is_symlink() and path.is_dir():
            raise CheckpointError(f"{name} of the checkpoint is a link to a folder; copy the folder there")
        checkpoint.file(name)


def _refuse_code(file: str, content: Mapping[str, Any]) -> None:
    if content.get("auto_map"):
        raise CheckpointError(
            f"{file} states auto_map: the checkpoint brings code of its own, and no code of a checkpoint is run"
        )


def _check_weights(checkpoint: Checkpoint) -> None:
    """Check that the weights are safetensors, whole and in the folder. Raises CheckpointError."""
    from safetensors import SafetensorError, safe_open

    parts = [WEIGHTS] if checkpoint.file(WEIGHTS) else _parts(checkpoint)
    if not parts:
        _say_what_is_there(checkpoint.folder)
    for part in parts:
        path = checkpoint.file(part)
        if path is None:
            raise CheckpointError(f"{_INDEX} names {part}, which the folder does not have")
        try:
            with safe_open(path, framework="numpy"):  # reads the header alone
                pass
        except SafetensorError as error:
            raise CheckpointError(f"{part} is damaged or not whole: {error}") from error


def _parts(checkpoint: Checkpoint) -> list[str]:
    """List the files that hold parts of the weights. Raises CheckpointError for another form of index."""
    places = checkpoint.table(_INDEX).get("weight_map", {})
    if not isinstance(places, dict) or not all(isinstance(each, str) for each in places.values()):
        raise CheckpointError(f"{_INDEX} does not state the file of each weight")
    return sorted(set(places.values()))


def _say_what_is_there(folder: Path) -> NoReturn:
    if (folder / "adapter_config.json").is_file():
        raise CheckpointError(f"{folder} holds an adapter without its model; merge the two and save the result")
    if pickled := pickled_weights(folder):
        raise CheckpointError(
            f"{pickled.name} is a pickle, which can run code when it is read; convert it: "
            f"limelight import convert-weights {folder} --out NEW_FOLDER"
        )
    raise CheckpointError(f"{folder} has no {WEIGHTS}")


def pickled_weights(folder: Path) -> Path | None:
    """Return the file of pickled weights of a checkpoint; None where there is none."""
    found = sorted(path for path in folder.iterdir() if path.suffix in PICKLED_ENDINGS and path.is_file())
    named = [path for path in found if path.name == "pytorch_model.bin"]
    model = [path for path in found if "model" in path.name]
    return next(iter(named or model or found), None)
