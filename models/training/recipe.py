"""What one model needs to be trained: the parts in which models differ, as one object."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import Tensor

from limelight.v1 import model_pb2
from models.cards.card import Card
from models.data.dataset import Dataset
from models.network import Network
from models.training.batches import Batch, Batches
from models.training.settings import Preset

C = TypeVar("C")


@dataclass(frozen=True)
class Plan(Generic[C]):
    """What the data decides: the model's config, its classes, and its tokenizer files by name."""

    config: C
    labels: tuple[str, ...]
    files: Mapping[str, str]


class Recipe(ABC, Generic[C]):
    """How a model is made, taught and judged.

    config_type: the dataclass of its sizes. data_kind: what `models.data.folder.load` is to read. preset: its key in
    `PRESETS`.
    """

    config_type: type[C]
    data_kind: str
    preset: str

    @abstractmethod
    def builtin(self, seed: int) -> Dataset:
        """The data that need no download."""

    @abstractmethod
    def plan(self, dataset: Dataset, preset: Preset) -> Plan[C]:
        """Decide what the training part decides: vocabulary, classes, sizes."""

    @abstractmethod
    def build(self, config: C) -> Network:
        """Make the model, untrained."""

    @abstractmethod
    def card(self, plan: Plan[C]) -> Card:
        """Describe it."""

    @abstractmethod
    def loss(self, model: Network, batch: Batch) -> tuple[Tensor, int]:
        """The summed loss of a batch, and over how many terms."""

    @abstractmethod
    def judge(self, model: Network, card: Card, batches: Batches, dataset: Dataset) -> list[model_pb2.Metric]:
        """Measure on held-out examples, with a trivial baseline where there is one."""

    def config(self, values: Mapping[str, Any]) -> C:
        """A config from what JSON made of it."""
        return self.config_type(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})
