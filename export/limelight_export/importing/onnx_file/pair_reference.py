"""Two ONNX files that generate, as they are, as the reference of the graphs that a bundle holds."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from limelight_bundle.values import Array
from limelight_export.errors import ExportError
from limelight_export.execution.generation import GenerationRunner
from limelight_export.importing.describe import ImportedCard
from limelight_export.importing.onnx_file.card_file import Generation
from limelight_export.importing.onnx_file.reference import FileSession, as_float32, as_map, file_input, own_dtype

# The step's input of the last token.
TOKEN = "token"


def encoded_name(name: str) -> str:
    """Name the encoder's output that a step takes as `name`."""
    return f"encoded.{name}"


def next_name(name: str) -> str:
    """Name the step's output with the next value of the state `name`."""
    return f"next.{name}"


class PairReference:
    """Two files as they are (see `limelight_export.execution.reference.Reference`).

    A step gets every token so far where the file takes a sequence of them: a file that reads more than the last one
    answers differently from the bundle's graph, and is refused.
    """

    def __init__(self, sessions: tuple[FileSession, FileSession], card: ImportedCard, generation: Generation) -> None:
        self._sessions, self._card, self._generation = sessions, card, generation

    @property
    def name(self) -> str:
        """The files' names."""
        return " and ".join(each.file.path.name for each in self._sessions)

    def run(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Raise: a pair does not answer in one pass."""
        raise ExportError(f"{self.name} generate, and do not answer in one pass")

    def generation_runner(self) -> GenerationRunner:
        """Return a runner of the two files."""
        return _PairRunner(self._sessions, self._card, self._generation)


class _PairRunner:
    def __init__(self, sessions: tuple[FileSession, FileSession], card: ImportedCard, generation: Generation) -> None:
        (self._encoder, self._step), self._card, self._generation = sessions, card, generation
        self._tokens: list[Array] = []

    def encode(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Run the first file."""
        self._tokens = []
        file, generation = self._encoder.file, self._generation
        found = self._encoder.run(
            {name: file_input(each, tensors[name], own_dtype(file, name)) for name, each in self._card.inputs.items()}
        )
        encoded = {
            encoded_name(name): found[source] for name, source in generation.constants.items() if source in found
        }
        encoded |= {encoded_name(name): found[initial] for name, (initial, _) in generation.states.items()}
        return {**encoded, **self._maps(found)}

    def prefill(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Raise: there is no prompt."""
        raise ExportError("a pair of files has no prompt")

    def step(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Run the second file."""
        generation, own = self._generation, self._step.file.inputs[self._generation.token]
        self._tokens.append(tensors[TOKEN])
        token = self._tokens[-1] if len(own.axes) == 1 else np.stack(self._tokens, axis=1)
        if len(own.axes) == 2 and isinstance(own.axes[1], int):
            token = token[:, -1:]
        feeds: dict[str, Any] = {generation.token: np.asarray(token, own.dtype)}
        for name, source in generation.constants.items():
            given = self._card.inputs.get(source)
            dtype = own_dtype(self._step.file, name)
            feeds[name] = file_input(given, tensors[source], dtype) if given else tensors[encoded_name(name)]
        feeds |= {name: tensors[name] for name in generation.states}
        found = self._step.run(feeds)
        answered = {generation.scores: as_float32(found[generation.scores])}
        answered |= {next_name(name): found[after] for name, (_, after) in generation.states.items()}
        return {**answered, **{name: each[:, :, 0] for name, each in self._maps(found).items()}}

    def _maps(self, found: Mapping[str, Array]) -> dict[str, Array]:
        return {
            name: as_map(found[each.output], each) for name, each in self._card.maps.items() if each.output in found
        }
