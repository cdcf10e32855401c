"""The controls of the published models: what they hold fixed, and that the rest learns."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from limelight_models import index
from limelight_models.attention.align import KernelRatio, Softmax
from limelight_models.attention.controls import Uniform
from limelight_models.attention.core import Attention
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import GaussianKernel, ScaledDot, SelfAttentive
from limelight_models.network import Answer, Network
from limelight_models.recipes import controls
from limelight_models.training.runs import read_run
from limelight_models.training.trainer import WEIGHTS
from tests.kit import small
from tests.models.runs import order, run

IDS = small.stack([small.text(6, 1), small.text(3, 2)])


def frozen_names(network: Network) -> list[str]:
    """Parameters that do not learn, in a network as its recipe builds it."""
    return [name for name, parameter in network.named_parameters() if not parameter.requires_grad]


def test_uniform_weights_are_averages_over_what_the_mask_allows() -> None:
    ids = small.document([4, 1, 2], 3)[None]
    maps = small.make("han-uniform")(token_ids=ids, token_mask=ids != 0).maps
    assert torch.allclose(maps["sentence"], torch.full((1, 1, 1, 3), 1 / 3, dtype=torch.float64))
    assert torch.allclose(maps["word"][0, 0, 2], torch.tensor([0.5, 0.5, 0, 0], dtype=torch.float64))
    target = torch.stack([small.text(2, 3), small.text(2, 4)])
    cross = small.make("bahdanau-uniform")(source_ids=IDS, source_mask=IDS != 0, target_ids=target).maps
    assert torch.allclose(cross["decoder.cross"][1, 0, :, :3], torch.full((2, 3), 1 / 3, dtype=torch.float64))
    assert not cross["decoder.cross"][1, 0, :, 3:].any()


@pytest.mark.parametrize("name", ["bigbird", "sparse-transformer", "sparse-transformer-strided", "routing-transformer"])
def test_uniform_weights_of_chosen_keys_are_averages_over_these(name: str) -> None:
    """In every layer: some keys have no weight, and all others of a query have the same."""
    ids = torch.stack([small.text(40, 1)])
    for weights in small.make(f"{name}-uniform")(token_ids=ids, token_mask=ids != 0).maps.values():
        read = weights > 0
        assert 0 < read.double().mean() < 1
        once = weights[:, :1] if name == "routing-transformer" else weights  # its clusters share keys
        shares = once.sum(-1, keepdim=True) / (once > 0).sum(-1, keepdim=True).clamp(min=1)
        torch.testing.assert_close(once, shares * (once > 0))


def test_frozen_attention_moves_nothing_that_has_no_gradient() -> None:
    ids = torch.stack([small.text(9, 1)])
    moved = []
    for name in ("routing-transformer", "routing-transformer-frozen"):
        network = small.make(name).train()
        before = {key: value.clone() for key, value in network.named_buffers()}
        network(token_ids=ids, token_mask=ids != 0)
        moved.append([key for key, value in network.named_buffers() if not torch.equal(value, before[key])])
    assert moved[0] and not moved[1]


def test_uniform_scores_of_a_kernel_are_divided_by_their_sum() -> None:
    attention = Attention(score=Uniform(GaussianKernel(bandwidth=1.0)), align=KernelRatio())
    _, weights = attention(torch.randn(1, 1, 2, 3), torch.randn(1, 1, 4, 3))
    assert torch.allclose(weights, torch.full((1, 1, 2, 4), 0.25))


class Heads(Network):
    """Several heads, and a pool: one of each kind of what decides weights."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = MultiHead(attention=Attention(score=ScaledDot(), align=Softmax()), d_model=4, heads=2)
        self.pool = Attention(score=SelfAttentive(d_k=4, d_w=3))

    def forward(self, **tensors: torch.Tensor) -> Answer:
        read, weights = self.attention(tensors["x"], tensors["x"])
        pooled, pool = self.pool(None, read.unsqueeze(1))
        return Answer({"y": pooled}, {"self": weights, "pool": pool})


def test_frozen_are_the_parameters_that_decide_weights_and_no_others() -> None:
    network = controls.frozen(Heads())
    assert frozen_names(network) == [
        "attention.query_map.weight", "attention.query_map.bias", "attention.key_map.weight", "attention.key_map.bias",
        "pool.score.key_map.weight", "pool.score.key_map.bias", "pool.score.importance.weight",
    ]  # fmt: skip


class Plain(Network):
    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(2, 2)

    def forward(self, **tensors: torch.Tensor) -> Answer:
        return Answer({"y": self.map(tensors["x"])}, {})


@pytest.mark.parametrize("control", controls.CONTROLS.values())
def test_a_network_without_attention_has_no_controls(control: controls.Control) -> None:
    with pytest.raises(ValueError, match="Plain has no"):
        control(Plain())


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("control", index.CONTROLS)
def test_a_control_trains_and_what_is_frozen_stays(control: str, documents: Path, tmp_path: Path) -> None:
    wanted = order(f"han-{control}", documents, tmp_path / "run", epochs=2, seed=0)
    run(wanted)
    weights = load_file(tmp_path / "run" / WEIGHTS)
    torch.manual_seed(0)
    begun = read_run(tmp_path / "run").build().state_dict()
    score = {name for name in weights if ".attention.score." in name}
    assert score and all(torch.equal(weights[name], begun[name]) for name in score)
    assert not torch.equal(weights["classify.linear.weight"], begun["classify.linear.weight"])


@pytest.mark.usefixtures("tiny")
def test_a_control_without_anything_to_learn_is_judged_as_it_is(tmp_path: Path) -> None:
    data = tmp_path / "pairs.tsv"
    data.write_text(
        "".join(f"{'ab'[n % 2]}\tit is placeholder {n}\t{'ab'[n % 2]} is here, b or a\n" for n in range(40))
    )
    found = run(order("aoa-reader-uniform", data, tmp_path / "run", epochs=1))
    assert next(each.value for each in found if each.name == "accuracy") == 1.0
