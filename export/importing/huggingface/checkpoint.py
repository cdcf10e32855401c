"""A checkpoint folder: what it states, read as JSON, and what is refused before anything is loaded."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from export.errors import CheckpointError

CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
PICKLED_ENDINGS = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
# What the folder of a checkpoint may be called in a repository.
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9_-]+")
_MAX_NAME_LENGTH = 64


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose weights are safetensors and whose modules are the library's own.

    Attributes:
        config: content of config.json.
    """

    folder: Path
    config: Mapping[str, Any]

    @property
    def model_type(self) -> str:
        """The architecture, such as `bert`."""
        return str(self.config.get("model_type", ""))

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the library's classes that the weights were saved from."""
        found = self.config.get("architectures") or ()
        return tuple(map(str, found))

    @property
    def name(self) -> str:
        """The folder's name, as a repository can hold it."""
        name = _NOT_IN_A_NAME.sub("-", self.folder.resolve().name.lower()).strip("-_")
        return name[:_MAX_NAME_LENGTH] or "model"

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

    def text(self, name: str) -> str | None:
        """Read a text file of the folder; None where there is none. Raises CheckpointError if it is not UTF-8."""
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
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

    def table(self, name: str) -> Mapping[str, Any]:
        """Read a JSON object of the folder; empty where there is none. Raises CheckpointError for another value."""
        found = self.json(name)
        if found is not None and not isinstance(found, dict):
            raise CheckpointError(f"{name} of the checkpoint is not a JSON object")
        return found or {}


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint folder.

    Raises:
        CheckpointError: it has no config.json or no safetensors, or brings code, an adapter or quantised weights.
    """
    if not (folder / CONFIG).is_file():
        raise CheckpointError(f"{folder} has no {CONFIG}; name the folder of a checkpoint")
    checkpoint = Checkpoint(folder, {})
    checkpoint = Checkpoint(folder, checkpoint.table(CONFIG))
    for file in (CONFIG, TOKENIZER_CONFIG):
        _refuse_code(file, checkpoint.table(file))
    if checkpoint.config.get("quantization_config"):
        raise CheckpointError(
            f"{CONFIG} states quantization_config: quantised weights cannot be imported; import the original weights, "
            "and quantise with --precision int8"
        )
    _require_safetensors(folder)
    return checkpoint


def _refuse_code(file: str, content: Mapping[str, Any]) -> None:
    if content.get("auto_map"):
        raise CheckpointError(
            f"{file} states auto_map: the checkpoint brings code of its own, and no code of a checkpoint is run"
        )


def _require_safetensors(folder: Path) -> None:
    if any((folder / name).is_file() for name in _WEIGHTS):
        return
    if (folder / "adapter_config.json").is_file():
        raise CheckpointError(f"{folder} holds an adapter without its model; merge the two and save the result")
    if pickled := pickled_weights(folder):
        raise CheckpointError(
            f"{pickled.name} is a pickle, which can run code when it is read; convert it: "
            f"limelight import convert-weights {folder} --out NEW_FOLDER"
        )
    raise CheckpointError(f"{folder} has no {_WEIGHTS[0]}")


def pickled_weights(folder: Path) -> Path | None:
    """Return the file of pickled weights of a checkpoint; None where there is none."""
    found = sorted(path for path in folder.iterdir() if path.suffix in PICKLED_ENDINGS and path.is_file())
    named = [path for path in found if path.name == "pytorch_model.bin"]
    model = [path for path in found if "model" in path.name]
    return next(iter(named or model or found), None)
