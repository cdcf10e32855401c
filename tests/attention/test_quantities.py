"""Scores and norms beside weights, against their definitions, place by place."""

import math

import torch

from limelight_models.attention import Attention
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot

BATCH, QUERIES, KEYS, HEADS, D_MODEL = 2, 3, 4, 2, 6


def case() -> tuple[MultiHead, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Multi-head attention, a query, a key, and a mask under which one query attends to nothing."""
    torch.manual_seed(5)
    module = MultiHead(attention=Attention(score=ScaledDot()), d_model=D_MODEL, heads=HEADS).double()
    with torch.no_grad():
        module.value_map.bias.normal_()
    query, key = torch.randn(BATCH, QUERIES, D_MODEL).double(), torch.randn(BATCH, KEYS, D_MODEL).double()
    mask = torch.rand(BATCH, 1, QUERIES, KEYS) > 0.3
    mask[0, :, 0] = False
    return module, query, key, mask


def test_norms_and_scores_are_what_their_definitions_say() -> None:
    module, query, key, mask = case()
    output, looks = module.quantities(query, key, mask=mask)
    plain, weights = module(query, key, mask=mask)
    assert torch.equal(output, plain) and torch.equal(looks.weights, weights)
    size = D_MODEL // HEADS
    for batch in range(BATCH):
        for head in range(HEADS):
            own = slice(head * size, (head + 1) * size)
            for i in range(QUERIES):
                for j in range(KEYS):
                    asked = module.query_map.weight[own] @ query[batch, i] + module.query_map.bias[own]
                    found = module.key_map.weight[own] @ key[batch, j] + module.key_map.bias[own]
                    value = module.value_map.weight[own] @ key[batch, j] + module.value_map.bias[own]
                    added = looks.weights[batch, head, i, j] * (module.merge.weight[:, own] @ value)
                    assert torch.allclose(looks.norms[batch, head, i, j], added.norm(), atol=1e-12)
                    allowed = bool(mask[batch, 0, i, j])
                    score = asked @ found / math.sqrt(size) if allowed else torch.finfo(torch.float64).min
                    assert torch.allclose(
                        looks.scores[batch, head, i, j], torch.as_tensor(score, dtype=torch.float64), atol=1e-12
                    )


def test_what_the_keys_add_is_the_output_without_its_bias() -> None:
    """The vectors whose norms are told sum to the output: nothing of it is missing."""
    module, query, key, mask = case()
    output, looks = module.quantities(query, key, mask=mask)
    _, _, values = module.project(query, key, None)
    merge = module.merge.weight.unflatten(1, (HEADS, -1)).permute(1, 2, 0)
    added = (looks.weights.unsqueeze(-1) * (values @ merge).unsqueeze(2)).sum((1, 3))
    assert torch.allclose(added + module.merge.bias, output, atol=1e-12)


def test_the_softmax_of_the_scores_is_the_weights() -> None:
    module, query, key, mask = case()
    _, looks = module.quantities(query, key, mask=mask)
    assert torch.allclose(looks.scores.softmax(-1) * mask, looks.weights, atol=1e-12)
