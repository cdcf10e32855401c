"""The general attention module in the catalogue, rows A1 to A4."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from limelight_models.attention.combine import FusionGate
from limelight_models.attention.core import Attention
from limelight_models.attention.general import FeatureAttention, NadarayaWatson, TaskModel
from limelight_models.attention.score import Additive, ScaledDot, SelfAttentive
from limelight_models.catalogue.mechanism import FEATURES as D
from limelight_models.catalogue.mechanism import Mechanism, Sizes
from limelight_models.catalogue.testbed import sentence_forms as forms
from limelight_models.catalogue.testbed.form import attended
from limelight_models.catalogue.testbed.taxonomy import ADDITIVE, SCALED
from limelight_models.catalogue.testbed.text import Scale

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


def feature_attention(s: Scale, attention: Attention) -> FeatureAttention:
    """Keys of the features' size, values of another."""
    return FeatureAttention(attention=attention, d_f=s.d, d_k=s.d, d_v=s.d_w)


def task_model(s: Scale) -> TaskModel:
    """A document classifier in miniature: encode, attend without a query, classify."""
    return TaskModel(
        feature_model=nn.Sequential(nn.Linear(s.d, s.d), nn.Tanh()),
        query_model=None,
        attention_model=feature_attention(s, Attention(score=SelfAttentive(d_k=s.d, d_w=s.d_w))),
        output_model=nn.Linear(s.d_w, 3),
    )


def asking_model(s: Scale) -> TaskModel:
    """The whole of the survey's figure 1: a query model reads the features as well, and asks for every position."""
    return TaskModel(
        feature_model=nn.Sequential(nn.Linear(s.d, s.d), nn.Tanh()),
        query_model=nn.Linear(s.d, s.d_w),
        attention_model=feature_attention(s, Attention(score=Additive(d_q=s.d_w, d_k=s.d, d_w=s.d_w))),
        output_model=nn.Linear(s.d_w, 3),
    )


def fused(s: Scale) -> Attention:
    """A gate between query and context."""
    return Attention(score=ScaledDot(), combine=FusionGate(d=s.d))


GENERAL: tuple[Mechanism, ...] = (
    Mechanism(
        row="A1",
        name="task model",
        column="general",
        module=TaskModel,
        make=task_model,
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
        make=asking_model,
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
        make=lambda s: feature_attention(s, forms.additive(s)),
        make_inputs=feature_inputs(with_query=True),
        call=call_feature_attention,
        axes=FEATURE_AXES | {"mask": ("batch", None, None, "key")},
        served=attended(forms.additive, score=ADDITIVE),
    ),
    Mechanism(
        row="A3",
        name="gated combination",
        column="general",
        module=FusionGate,
        make=fused,
        served=attended(fused, score=SCALED),
    ),
    Mechanism(
        row="A4",
        name="Nadaraya-Watson regression",
        column="general",
        module=NadarayaWatson,
        make=lambda s: NadarayaWatson(bandwidth=1.0),
        served=attended(lambda s: NadarayaWatson(bandwidth=1.0), score="Gaussian kernel"),
    ),
)
