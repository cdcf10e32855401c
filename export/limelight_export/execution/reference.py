"""The reference of exported graphs: the PyTorch model as it was before the export."""

from collections.abc import Mapping
from typing import Protocol

from limelight_bundle.values import Array
from limelight_export.execution.generation import GenerationRunner


class Reference(Protocol):
    """A model that answers batches of a card's tensors."""

    @property
    def name(self) -> str:
        """Its name in messages, such as `PyTorch`."""

    def run(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Answer a batch in one pass: outputs, maps and edge indices, by name.

        Raises:
            ExportError: the answer lacks a tensor, or one has another number of axes than the card states.
        """

    def generation_runner(self) -> GenerationRunner:
        """Return the parts of a generating model. Raises ExportError where the model does not generate."""
