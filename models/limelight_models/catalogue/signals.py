"""Training signals, rows I1 to I7 and the losses of H6 and H8, and what of I2 and I5 a model serves."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from limelight_models.attention import signals
from limelight_models.catalogue.examples import Inputs, some
from limelight_models.catalogue.mechanism import FEATURES as D
from limelight_models.catalogue.mechanism import HEADS, Axes, Mechanism, Sizes
from limelight_models.catalogue.testbed import coverage
from limelight_models.catalogue.testbed import sentence_forms as forms
from limelight_models.catalogue.testbed.coverage import Signal
from limelight_models.catalogue.testbed.form import ServedForm, read_by
from limelight_models.catalogue.testbed.queries import Judged

CLASSES = 4
AXES: dict[str, Axes] = {
    "features": ("batch", "key", None),
    "key_mask": ("batch", "key"),
    "fertility": ("batch", "key"),
    "state": ("batch", "key", None),
    "question": ("batch", None, None),
}


def signal_inputs(sizes: Sizes, generator: torch.Generator) -> Inputs:
    """Inputs of all signals; the first instance's first query has no gold weights."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    batch, query, key = sizes.batch, sizes.query, sizes.key
    pairs = (batch, HEADS, query, key)
    masks = {"query_mask": some(generator, batch, query), "key_mask": some(generator, batch, key, empty=0)}
    rationale = some(generator, *pairs)
    gold = rationale / rationale.sum(-1, keepdim=True).clamp(min=1)
    gold[0, :, 0] = 0
    return masks | {
        "weights": normal(*pairs).softmax(-1),
        "teacher": normal(*pairs).softmax(-1),
        "gold": gold,
        "logits": normal(batch, key, 3),
        "kind": torch.randint(0, 3, (batch, key), generator=generator),
        "spans": 4 * torch.rand(HEADS, 1, 1, generator=generator),
        "parents": torch.randint(-1, query, (batch, query), generator=generator),
        "among_queries": normal(batch, HEADS, query, query).softmax(-1),
        "fertility": 0.5 + torch.rand(batch, key, generator=generator),
        "value": normal(batch, HEADS, key, D),
        "vectors": normal(batch, HEADS, query, D),
        "features": normal(batch, key, D),
        "question": normal(batch, 1, D),
        "state": normal(batch, key, 3),
        "probability": normal(batch, CLASSES).sigmoid(),
        "reconstruction": normal(batch, CLASSES, D),
        "target": torch.randint(0, CLASSES, (batch,), generator=generator),
        "selected": some(generator, batch, key),
        "selection_scores": normal(batch, key),
        "log_probability": -normal(query, batch).abs(),
        "reward": normal(query, batch),
        "baseline": normal(1, batch),
        "entropy": torch.rand(query, batch, generator=generator),
    }


def reading(*names: str) -> Callable[[Sizes, torch.Generator], Inputs]:
    """These of the inputs alone."""

    def make(sizes: Sizes, generator: torch.Generator) -> Inputs:
        made = signal_inputs(sizes, generator)
        return {name: made[name] for name in names}

    return make


def signal(
    row: str,
    name: str,
    function: Callable[..., Tensor],
    *reads: str,
    output: str = "loss",
    served: ServedForm | None = None,
) -> Mechanism:
    """A signal that takes these of the inputs as its arguments."""
    return trained(
        make_inputs=reading(*reads),
        served=served,
        row=row,
        name=name,
        module=function,
        make=lambda s: Signal(function),
        call=lambda module, inputs: (module(*(inputs[n] for n in reads)),),
        outputs=(output,),
    )


def query_rows(mask: Tensor) -> Tensor:
    """[batch, query] -> [batch, 1, query]."""
    return mask.unsqueeze(1)


trained = partial(Mechanism, column="signals", make_inputs=signal_inputs, axes=AXES)
SIGNALS: tuple[Mechanism, ...] = (
    signal("I1", "supervised attention, cross-entropy", signals.gold_cross_entropy, "weights", "gold"),
    signal("I1", "supervised attention, squared error", signals.gold_squared_error, "weights", "gold"),
    signal("I1", "supervised attention, overlap", signals.gold_overlap, "weights", "gold"),
    signal("I1", "supervised gates", signals.gold_gates, "weights", "gold"),
    signal("I2", "preliminary training from rationales", signals.rationale_loss, "logits", "kind", "key_mask"),
    trained(
        row="I2",
        name="attention that was trained on rationales",
        module=signals.RationaleAttention,
        make=forms.judging,
        make_inputs=reading("features", "key_mask"),
        served=read_by(lambda t: Judged(module=forms.judging(t), d=t.d), score="self-attentive", align="sigmoid"),
        note="it learns with the task; `research/signals` trains it on rationales first",
        call=lambda module, i: module(i["features"], i["key_mask"]),
        outputs=("context", "weights"),
    ),
    signal(
        "I3", "auxiliary head trained on syntax", signals.syntax_head_loss, "among_queries", "parents", "query_mask"
    ),
    trained(
        row="I4",
        name="attention transfer (distillation)",
        module=signals.distillation_loss,
        make=lambda s: Signal(signals.distillation_loss),
        call=lambda module, i: (module(i["weights"], i["teacher"], query_rows(i["query_mask"])),),
        outputs=("loss",),
    ),
    signal("I5", "coverage, symbolic", signals.coverage, "weights", output="coverage", served=coverage.covered()),
    signal(
        "I5",
        "coverage by fertility",
        signals.fertility_coverage,
        "weights",
        "fertility",
        output="coverage",
        served=coverage.covered(fertility=True),
    ),
    trained(
        row="I5",
        name="predicted fertility",
        module=signals.Fertility,
        make=lambda s: signals.Fertility(d_k=s.d, most=3.0),
        make_inputs=reading("features"),
        served=coverage.covered(fertility=True),
        call=lambda module, i: (module(i["features"]),),
        outputs=("fertility",),
    ),
    signal("I5", "coverage penalty", signals.coverage_penalty, "weights", "query_mask"),
    trained(
        row="I5",
        name="coverage, sub-symbolic",
        module=signals.CoverageVectors,
        make=lambda s: signals.CoverageVectors(d_c=3, d_k=s.d, d_q=s.d, heads=s.heads),
        make_inputs=reading("state", "weights", "features", "question"),
        served=coverage.by_vectors(),
        call=lambda module, i: (module(i["state"], i["weights"][:, :, :1], i["features"], i["question"]),),
        outputs=("state",),
    ),
    signal("I6", "doubly stochastic penalty", signals.doubly_stochastic_penalty, "weights", "query_mask", "key_mask"),
    trained(
        row="I7",
        name="REINFORCE with a baseline",
        module=signals.reinforce_loss,
        make=lambda s: Signal(signals.reinforce_loss),
        call=lambda module, i: (module(i["log_probability"], i["reward"], i["baseline"], i["entropy"], 0.3),),
        outputs=("loss",),
    ),
    signal(
        "I7",
        "log-probability of a selection",
        signals.selection_log_probability,
        "selected",
        "selection_scores",
        "key_mask",
        output="log_probability",
    ),
    signal("C14", "price of adaptive spans", signals.span_penalty, "spans"),
    signal(
        "H6",
        "capsule joint loss",
        signals.capsule_loss,
        "probability",
        "reconstruction",
        "features",
        "target",
        "key_mask",
    ),
    signal("H8", "disagreement on subspaces", signals.subspace_agreement, "value", "key_mask"),
    signal("H8", "disagreement on positions", signals.position_agreement, "weights", "query_mask"),
    signal("H8", "disagreement on outputs", signals.output_agreement, "vectors", "query_mask"),
)
