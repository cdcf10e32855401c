"""The general attention module in the catalogue, rows A1 to A4."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from models.attention.combine import FusionGate
from models.attention.core import Attention
from models.attention.general import FeatureAttention, NadarayaWatson, TaskModel
from models.attention.score import Additive, ScaledDot, SelfAttentive
from models.catalogue.mechanism import FEATURES as D
from models.catalogue.mechanism import Mechanism, Sizes
from models.testbed import sentence_forms as forms
from models.testbed.form import attended
from models.testbed.taxonomy import ADDITIVE, SCALED

FEATURE_AXES = {"features": ("batch", "key", None), "query": ("batch", "query", None)}


def feature_inputs(*, with_query: bool) -> Callable[[Sizes, torch.Generator], dict[str, Tensor]]:
    """Features with a mask of their own, and queries where wanted."""

    def make(sizes: Sizes, generator: torch.Generator) -> dict[str, Tensor]:
        mask = torch.rand(sizes.batch, 1, 1, sizes.key, generator=generator) > 0.3
        mask[0] = False
        features = torch.randn(sizes.batch, sizes.key, D, generator=generator)
        query = {"query": torch.randn(sizes.batch, sizes.query, D, generator=generator)} if with_query else {}
        return query | {"features": features, "mask": mask}

    return make


def call_task(module: nn.Module, inputs: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """Call a `TaskModel`."""
    return module(inputs["features"], inputs["mask"])


def call_feature_attention(module: nn.Module, inputs: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """Call a `FeatureAttention`."""
    return module(inputs["query"], inputs["features"], inputs["mask"])


def feature_attention(attention: Attention) -> FeatureAttention:
    """Keys of size D, values of size 4."""
    return FeatureAttention(attention=attention, d_f=D, d_k=D, d_v=4)


def small_task_model() -> TaskModel:
    """A document classifier in miniature: encode, attend without a query, classify."""
    return TaskModel(
        feature_model=nn.Sequential(nn.Linear(D, D), nn.Tanh()),
        query_model=None,
        attention_model=feature_attention(Attention(score=SelfAttentive(d_k=D, d_w=5))),
        output_model=nn.Linear(4, 3),
    )


def small_asking_model() -> TaskModel:
    """The whole of the survey's figure 1: a query model reads the features as well, and asks for every position."""
    return TaskModel(
        feature_model=nn.Sequential(nn.Linear(D, D), nn.Tanh()),
        query_model=nn.Linear(D, 5),
        attention_model=feature_attention(Attention(score=Additive(d_q=5, d_k=D, d_w=5))),
        output_model=nn.Linear(4, 3),
    )


GENERAL: tuple[Mechanism, ...] = (
    Mechanism(
        row="A1",
        name="task model",
        column="general",
        module=TaskModel,
        build=small_task_model,
        make_inputs=feature_inputs(with_query=False),
        call=call_task,
        outputs=("outputs", "weights"),
        axes=FEATURE_AXES | {"mask": ("batch", None, None, "key")},
        served=forms.task_model(asks=False),
    ),
    Mechanism(
        row="A1",
        name="task model with a query model",
        column="general",
        module=TaskModel,
        build=small_asking_model,
        make_inputs=feature_inputs(with_query=False),
        call=call_task,
        outputs=("outputs", "weights"),
        axes=FEATURE_AXES | {"mask": ("batch", None, None, "key")},
        served=forms.task_model(asks=True),
    ),
    Mechanism(
        row="A2",
        name="general attention module",
        column="general",
        module=FeatureAttention,
        build=lambda: feature_attention(Attention(score=Additive(d_q=D, d_k=D, d_w=5))),
        make_inputs=feature_inputs(with_query=True),
        call=call_feature_attention,
        axes=FEATURE_AXES | {"mask": ("batch", None, None, "key")},
        served=attended(lambda t: Attention(score=Additive(d_q=t.d, d_k=t.d, d_w=t.d)), score=ADDITIVE),
    ),
    Mechanism(
        row="A3",
        name="gated combination",
        column="general",
        module=FusionGate,
        build=lambda: Attention(score=ScaledDot(), combine=FusionGate(d=D)),
        served=attended(lambda t: Attention(score=ScaledDot(), combine=FusionGate(d=t.d)), score=SCALED),
    ),
    Mechanism(
        row="A4",
        name="Nadaraya-Watson regression",
        column="general",
        module=NadarayaWatson,
        build=lambda: NadarayaWatson(bandwidth=0.7),
        served=attended(lambda t: NadarayaWatson(bandwidth=1.0), score="Gaussian kernel"),
    ),
)
