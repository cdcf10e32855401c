"""`export_module` of attention with a mask of numbers: it is added, whatever its numbers were in sample runs."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import limelight
from limelight import export
from limelight_bundle.reader import BundleFolder
from limelight_export import Card, Mask, export_module
from tests.kit.serving import serving

SIZE, HEADS, VOCABULARY = 4, 2, 5000
LOWEST = torch.finfo(torch.float32).min
# Ids of which random rows hold few, or none.
RARE, OTHERS = 7, 4990

Bias = Callable[[Tensor], Tensor]


def distance(ids: Tensor) -> Tensor:
    places = torch.arange(ids.shape[1])
    return (places[:, None] - places).abs()


def where(condition: Tensor, number: float) -> Tensor:
    return torch.where(condition, number, 0.0)


def of_keys(ids: Tensor) -> Tensor:
    return ids[:, None, None]


def of_queries(ids: Tensor) -> Tensor:
    return ids[:, None, :, None]


def apart(ids: Tensor) -> Tensor:
    """Rare queries do not see rare keys."""
    return (of_queries(ids) >= OTHERS) & (of_keys(ids) >= OTHERS)


def canonical(ids: Tensor) -> Tensor:
    hidden = of_keys(ids) >= OTHERS
    return torch.zeros_like(hidden, dtype=torch.float32).masked_fill_(hidden, -math.inf)


ADDED = {"little": -0.5, "much": -1e4, "lowest": LOWEST, "infinite": -math.inf}
BIASES: Mapping[str, Bias] = {
    "rare_key": lambda ids: where(of_keys(ids) == RARE, -0.5),
    "far": lambda ids: where(distance(ids) >= 100, -2.0),
    "log_of_sizes": lambda ids: torch.log(1 + 3 * (of_keys(ids) >= OTHERS).float()),
    "long_inputs": lambda ids: where(torch.ones_like(ids).sum(1)[:, None, None, None] > 100, -0.1) * distance(ids),
    "gate": lambda ids: (ids == RARE).sum(1)[:, None, None, None] * -0.3 * distance(ids),
    "pairs": lambda ids: where(apart(ids), -math.inf),
    # A rare query sees no key at all.
    **{
        f"none_{name}": lambda ids, number=number: where((of_queries(ids) == RARE) & (of_keys(ids) >= 0), number)
        for name, number in ADDED.items()
    },
    "inverted": lambda ids: (1 - (of_keys(ids) < OTHERS).float()) * LOWEST,
    "two_infinite": lambda ids: canonical(ids) + torch.triu(torch.full((ids.shape[1],) * 2, -math.inf), diagonal=1),
    "lowest_then_infinite": lambda ids: where(of_queries(ids) == RARE, LOWEST) + canonical(ids),
}
# Of which the graph says that they are boolean, so that they cost what a boolean mask costs.
BOOLEAN = {"pairs", "none_infinite", "two_infinite", "decoder.self_attn"}


class Attends(nn.Module):
    """Its own place in the path of names."""

    def forward(self, features: Tensor, bias: Tensor, real: Tensor) -> Tensor:
        bias = bias.masked_fill(~of_keys(real), -math.inf)
        return scaled_dot_product_attention(features, features, features, attn_mask=bias)


class Buckets(nn.Module):
    """A learned bias of relative positions, nothing so far but for those beyond every sample."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(128, HEADS))
        self.table.data[90:] = torch.randn(38, HEADS)
        self.attends = Attends()

    def forward(self, features: Tensor, ids: Tensor, real: Tensor) -> Tensor:
        return self.attends(features, self.bias(ids), real)

    def bias(self, ids: Tensor) -> Tensor:
        return self.table[distance(ids).clamp(max=127)].permute(2, 0, 1)


class Biased(nn.Module):
    """Ids -> the context vectors of attention with each bias."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, HEADS * SIZE)
        self.each = nn.ModuleDict({name: Attends() for name in BIASES})
        self.buckets = Buckets()
        self.multi_head = nn.MultiheadAttention(HEADS * SIZE, HEADS, batch_first=True)
        self.decoder = nn.TransformerDecoderLayer(HEADS * SIZE, HEADS, 8, batch_first=True)

    def forward(self, ids: Tensor, real: Tensor) -> dict[str, Tensor]:
        words = self.embed(ids)
        features = words.unflatten(-1, (HEADS, SIZE)).transpose(1, 2)
        found = {name: attends(features, BIASES[name](ids), real) for name, attends in self.each.items()}
        found["buckets"] = self.buckets(features, ids, real)
        found = {name: each.transpose(1, 2).flatten(2) for name, each in found.items()}
        bias = where(apart(ids), -0.5).expand(-1, HEADS, -1, -1).flatten(0, 1)
        far = where(distance(ids) >= 100, -2.0)
        found["multi_head"], _ = self.multi_head(words, words, words, attn_mask=bias, key_padding_mask=~real)
        causal = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        found["decoder"] = self.decoder(words, words, causal, far, ~real, ~real)
        return {f"{name}_context": each for name, each in found.items()}


@pytest.fixture(scope="module")
def module() -> Biased:
    torch.manual_seed(0)
    return Biased().eval()


@pytest.fixture(scope="module")
def folder(module: Biased, tmp_path_factory: pytest.TempPathFactory) -> BundleFolder:
    axis: Any = {"axes": {"word": 0}, "largest": {"word": 300}, "mask": Mask(name="real")}
    words = export.Tensor(**axis, dtype="int64", minimum=1, maximum=VOCABULARY - 1)
    card = Card(name="biased", inputs={"ids": words})
    return export_module(module, card=card, examples=[[1, 2, 3]], repository=tmp_path_factory.mktemp("biases"))


@pytest.fixture(scope="module")
def answers(folder: BundleFolder) -> list[tuple[Tensor, Any]]:
    """Rows of one batch, each with what it is answered."""
    random = np.random.default_rng(0)
    rows = [random.choice([RARE, OTHERS, OTHERS + 1, 1, 2, 3], length) for length in (130, 9, 1)]
    with serving(folder.path.parents[1]) as running, limelight.Client(f"127.0.0.1:{running.server.port}") as client:
        answered = client.attend("biased", [{"ids": row} for row in rows])
    return [(torch.from_numpy(row)[None], answer) for row, answer in zip(rows, answered, strict=True)]


def own_weights(module: Biased, ids: Tensor, name: str) -> Tensor:
    """Compute softmax(q kᵀ / √d + bias) as it is written."""
    words = module.embed(ids)
    if name == "multi_head":
        bias = where(apart(ids), -0.5).expand(-1, HEADS, -1, -1).flatten(0, 1)
        return module.multi_head(words, words, words, attn_mask=bias, average_attn_weights=False)[1]
    features = words.unflatten(-1, (HEADS, SIZE)).transpose(1, 2)
    bias = module.buckets.bias(ids) if name == "buckets.attends" else BIASES[name.removeprefix("each.")](ids)
    return (features @ features.mT / math.sqrt(SIZE) + bias).softmax(-1).nan_to_num(0)


@pytest.mark.parametrize("name", [*(f"each.{name}" for name in BIASES), "buckets.attends", "multi_head"])
@torch.no_grad()
def test_a_mask_of_numbers_is_added_whatever_they_are(
    name: str, module: Biased, answers: list[tuple[Tensor, Any]]
) -> None:
    output = f"{name.removeprefix('each.').removesuffix('.attends')}_context"
    for ids, answer in answers:
        np.testing.assert_allclose(answer[name].weights, own_weights(module, ids, name)[0], atol=1e-5)
        expected = module(ids, torch.ones_like(ids, dtype=torch.bool))[output]
        np.testing.assert_allclose(answer.prediction.outputs[output], expected[0], atol=2e-5)


@torch.no_grad()
def test_a_decoder_layer_adds_the_masks_of_its_own_and_of_its_caller(
    module: Biased, answers: list[tuple[Tensor, Any]]
) -> None:
    for ids, answer in answers:
        expected = module(ids, torch.ones_like(ids, dtype=torch.bool))["decoder_context"]
        np.testing.assert_allclose(answer.prediction.outputs["decoder_context"], expected[0], atol=2e-5)


def test_a_mask_that_the_graph_proves_to_be_boolean_costs_what_a_boolean_one_costs(folder: BundleFolder) -> None:
    found = {each.map.removeprefix("each.") for each in folder.bundle.maps if each.HasField("projections")}
    assert found == BOOLEAN
