"""The interface of a task: from a checkpoint to a model that can be exported."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures.architecture import PICTURES, Architecture, Kind
from limelight_export.importing.huggingface.checkpoint import Checkpoint
from limelight_models.cards.card import Card, TrainedModel

AnyArchitecture = TypeVar("AnyArchitecture", bound=Architecture)


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Options of an import.

    Attributes:
        name: of the model in the repository; empty for that of the checkpoint.
        pooling: how an embedding is made of the tokens' vectors, for a checkpoint that does not state it.
        examples: texts for the server's self-test; empty for texts of this repository. The two texts of a pair are
            separated by a tab.
        references: file of inputs over which attention is observed (see `read_references`); None for none.
        labels: classes of a picture, for a model that compares pictures with texts.
        prompt: text of a class, in which `{}` stands for its label.
        language: of the speech that a model writes, such as `en`; empty where the model itself detects it.
        max_tokens: most tokens of an input, where it is less than the model's own limit; 0 for that.
        size: rows and columns of the pictures in which objects are found; None for those that the checkpoint states.
        threshold: probability above which an object is returned; None for a half.
    """

    name: str = ""
    pooling: str = ""
    examples: tuple[str, ...] = ()
    references: Path | None = None
    labels: tuple[str, ...] = ()
    prompt: str = "a photo of a {}."
    language: str = ""
    max_tokens: int = 0
    size: tuple[int, int] | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class Source(Generic[AnyArchitecture]):
    """A checkpoint, what it is, and what the caller wants."""

    checkpoint: Checkpoint
    architecture: AnyArchitecture
    options: ImportOptions

    @property
    def name(self) -> str:
        """The name in the repository."""
        return self.options.name or self.checkpoint.name

    def tokens_within(self, limit: int) -> int:
        """Return the most tokens of an input: what the caller wants, or the limit. Raises CheckpointError above it."""
        wanted = self.options.max_tokens
        if wanted > limit:
            raise CheckpointError(f"the model reads at most {limit} tokens, not {wanted}")
        return wanted or limit

    def card(self, **parts: Any) -> Card:
        """Describe the model: what its architecture says, and the given fields of `describe`."""
        from limelight_models.cards.describe import describe

        known = self.architecture
        return describe(name=self.name, title=known.title, taxonomy=known.taxonomy, citation=known.citation, **parts)


@dataclass(frozen=True)
class Task:
    """A task by the name that the command line gives it.

    Attributes:
        kind: architectures that it is for.
        class_endings: endings of the library's classes whose checkpoints were trained for it.
        maker: module of this package and its function that makes the model. It is imported when it is called, since
            PyTorch and transformers take seconds.
    """

    name: str
    kind: Kind
    class_endings: tuple[str, ...]
    maker: str

    @property
    def reads_text(self) -> bool:
        """Whether it needs the tokenizer."""
        return self.kind not in (*PICTURES, "audio") and not self.name.startswith("image-")

    @property
    def reads_pairs(self) -> bool:
        """Whether two texts are one sequence."""
        return self.name in ("cross-encoder", "question-answering")

    @property
    def processor(self) -> str:
        """The part of a checkpoint's processor that it needs; empty for none."""
        if self.kind in ("speech", "audio"):
            return "feature_extractor"
        reads_pictures = self.kind in (*PICTURES, "two-tower") and self.name != "text-embedding"
        return "image_processor" if reads_pictures else ""

    def build(self, source: Source[Any]) -> TrainedModel:
        """Make the model. Raises CheckpointError where the checkpoint does not fit."""
        module, _, function = self.maker.partition(".")
        made: TrainedModel = getattr(import_module(f"{__package__}.{module}"), function)(source)
        return made
