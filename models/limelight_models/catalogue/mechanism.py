"""One entry of the registry: a mechanism, how to build a small one, what to feed it, and the model that serves it."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor, nn

from limelight_models.attention.alignment import Align
from limelight_models.attention.context import Context
from limelight_models.attention.scoring import Score
from limelight_models.catalogue.testbed.form import Built, ServedForm
from limelight_models.catalogue.testbed.text import Scale, Texts

FEATURES = 6  # size of queries, keys and values in the small instances
HEADS = 2
SMALL = Scale(
    d=FEATURES, d_hidden=5, heads=HEADS, parts=HEADS, max_tokens=32, radius=2, filters=3, outputs=3, random_features=32
)

Axes = tuple[str | None, ...]
CAPABILITIES = tuple(
    dict.fromkeys(
        name
        for base in (Score, Align)
        for name, annotation in base.__annotations__.items()
        if "bool" in str(annotation)
    )
)
AXES: dict[str, Axes] = {
    "query": ("batch", None, "query", None),
    "key": ("batch", None, "key", None),
    "value": ("batch", None, "key", None),
    "mask": ("batch", None, "query", "key"),
    "query_noise": ("batch", None, "query"),
    "previous_context": ("batch", None, "query", None),
}
PAIRS: Axes = ("batch", None, "query", "key")  # every other context field but positions


@dataclass(frozen=True)
class Sizes:
    """Sizes of an example."""

    batch: int
    query: int
    key: int


def attention_inputs(
    sizes: Sizes, generator: torch.Generator, *, fields: tuple[str, ...] = (), heads: int = HEADS
) -> dict[str, Tensor]:
    """Query, key, value and mask for an `Attention`, and the context fields named; in the mask, some rows are empty."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    pairs = (sizes.batch, heads, sizes.query, sizes.key)
    mask = uniform(sizes.batch, 1, sizes.query, sizes.key) > 0.3
    mask[0, :, 0] = False
    inputs = {
        "query": normal(sizes.batch, heads, sizes.query, FEATURES),
        "key": normal(sizes.batch, heads, sizes.key, FEATURES),
        "value": normal(sizes.batch, heads, sizes.key, FEATURES),
        "mask": mask,
    }
    make: dict[str, Callable[[], Tensor]] = {
        "noise": lambda: uniform(*pairs),
        "previous_weights": lambda: (normal(*pairs).masked_fill(~mask, -20.0)).softmax(-1) * mask,
        "coverage": lambda: 2 * uniform(*pairs) * mask,
        "upper_bounds": lambda: uniform(*pairs),
        "distances": lambda: torch.floor(5 * uniform(*pairs)),
        "query_noise": lambda: uniform(*pairs[:3]),
        "previous_context": lambda: normal(*pairs[:3], FEATURES),
    }
    return inputs | {name: make[name]() for name in fields}


def call_attention(module: nn.Module, inputs: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """Call an `Attention`: what is no argument of its own goes into the context."""
    known = {f.name for f in fields(Context)} - {"query", "key", "mask"}
    context = Context(**{name: tensor for name, tensor in inputs.items() if name in known})
    return module(inputs.get("query"), inputs["key"], inputs.get("value"), inputs.get("mask"), context)


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A mechanism of the catalogue, with all that documentation and tests need to go through it.

    `inputs` makes named tensors of given sizes, `call` turns module and inputs into the tensors named by `outputs`.
    `axes` names each input's dynamic axes (None: fixed) for the export. Whatever is not said is that of `Attention`.
    """

    row: str  # of the catalogue, for example B7
    name: str  # the survey's name
    column: str  # of the taxonomy; also the package
    module: Callable[..., object]  # the class, or the function, that implements it
    make: Callable[[Scale], nn.Module]  # of any sizes: those of a task model, or smaller ones
    context_fields: tuple[str, ...] = ()
    heads: int = HEADS
    make_inputs: Callable[[Sizes, torch.Generator], dict[str, Tensor]] | None = None
    call: Callable[[nn.Module, dict[str, Tensor]], tuple[Tensor, ...]] = call_attention
    outputs: tuple[str, ...] = ("context", "weights")
    axes: dict[str, Axes] = field(default_factory=dict)
    score: Callable[[Scale], Score] | None = None  # itself, where it is a score
    align: Callable[[Scale], Align] | None = None  # likewise, where it is an alignment
    served: ServedForm | None = None  # None for what is there to train with: nothing of it is in a served graph
    note: str = ""  # what its served form stands for, where that is not the paper's own

    def build(self) -> nn.Module:
        """A small one, for tests."""
        return self.make(SMALL)

    def serve(self, texts: Texts) -> Built:
        """The small task model that serves it, untrained, and its card. Raises: ValueError where it only trains."""
        if self.served is None:
            raise ValueError(f"{self.name} is there to train with; no model serves it")
        return self.served.make(self.name, texts)

    def inputs(self, sizes: Sizes, seed: int = 0) -> dict[str, Tensor]:
        """An example of the given sizes."""
        generator = torch.Generator().manual_seed(seed)
        if self.make_inputs is not None:
            return self.make_inputs(sizes, generator)
        return attention_inputs(sizes, generator, fields=self.context_fields, heads=self.heads)

    def input_axes(self, name: str) -> Axes:
        """Names of the dynamic axes of one input."""
        return self.axes.get(name) or AXES.get(name) or PAIRS

    @property
    def summary(self) -> str:
        """The docstring's first paragraph."""
        return _paragraphs(self.module)[0]

    @property
    def equation(self) -> str:
        """The docstring's second paragraph, its lines and what they have parted by semicolons."""
        return ";  ".join(inspect.cleandoc(self.module.__doc__ or "").split("\n\n")[1].splitlines())

    @property
    def source(self) -> str:
        """Paper and survey: what the summary has in brackets."""
        found = re.search(r"\((.*)\)", self.summary, re.DOTALL)
        return found.group(1) if found else ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The constructor's arguments with their defaults."""
        given = inspect.signature(self.module).parameters.values()
        plain = [p for p in given if p.kind is p.KEYWORD_ONLY]
        return tuple(p.name if p.default is p.empty else f"{p.name}={_shown(p.default)}" for p in plain)

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The capabilities that the class declares, those that hold."""
        return tuple(name for name in CAPABILITIES if getattr(self.module, name, False) is True)

    def describe(self) -> dict[str, object]:
        """All of it as plain data, for programs."""
        return {
            "row": self.row,
            "name": self.name,
            "column": self.column,
            "implementation": f"{self.module.__module__}.{self.module.__name__}",
            "summary": self.summary,
            "equation": self.equation,
            "source": self.source,
            "parameters": list(self.parameters),
            "capabilities": list(self.capabilities),
            "reads": list(self.context_fields),
            "outputs": list(self.outputs),
            "task": self.served.task if self.served else None,
            "note": self.note,
        }

    def explain(self) -> str:
        """All of it for people."""
        lines = [
            f"{self.name} ({self.row}, {self.column})",
            *(f"  {line}" for line in inspect.cleandoc(self.module.__doc__ or "").splitlines()),
            "",
            f"  {self.module.__module__}.{self.module.__name__}({', '.join(self.parameters)})",
        ]
        if self.note:
            lines.append(f"  Served: {self.note}.")
        if self.capabilities:
            lines.append(f"  {', '.join(name.replace('_', ' ') for name in self.capabilities)}")
        return "\n".join(line.rstrip() for line in lines)


def _paragraphs(module: Callable[..., object]) -> list[str]:
    text = inspect.cleandoc(module.__doc__ or "")
    return [" ".join(line.strip() for line in part.splitlines()) for part in text.split("\n\n")]


def _shown(value: object) -> str:
    return getattr(value, "__name__", None) or repr(value)
