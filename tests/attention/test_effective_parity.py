"""Attention without a matrix beside other people's code of the same paper."""

import pytest
import torch

from limelight_models.zoo.long.nystromformer import NystromAttention


def test_nystromformer_is_that_of_transformers() -> None:
    """Of lengths that its landmarks divide; the inverse begins from each matrix's own norm, not from the batch's."""
    library = pytest.importorskip("transformers.models.nystromformer.modeling_nystromformer")
    from transformers import NystromformerConfig

    config = NystromformerConfig(
        hidden_size=16,
        num_attention_heads=2,
        num_landmarks=4,
        segment_means_seq_len=12,
        conv_kernel_size=5,
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(0)
    theirs = library.NystromformerSelfAttention(config).eval()
    theirs.init_option = "exact"
    features = 3 * torch.randn(3, 12, 16)
    wanted = theirs(features)[0]
    query, key, value = (
        each(features).unflatten(-1, (2, 8)).transpose(1, 2) for each in (theirs.query, theirs.key, theirs.value)
    )
    ours = NystromAttention(heads=2, landmarks=4, kernel=5)
    ours.skip = torch.nn.Parameter(theirs.conv.weight[:, 0, :, 0])
    found, weights = ours(query, key, value)
    torch.testing.assert_close(found.transpose(1, 2).flatten(2), wanted, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close((weights @ value).transpose(1, 2).flatten(2), wanted, atol=1e-5, rtol=1e-4)
from limelight_models.zoo.long.bigbird import SparseGraph


def test_bigbird_is_that_of_transformers() -> None:
    """Of the same random blocks, where padding fills the last block: theirs is global as well."""
    library = pytest.importorskip("transformers.models.big_bird.modeling_big_bird")
    from transformers import BigBirdConfig

    block, blocks, heads, d = 4, 9, 2, 8
    torch.manual_seed(0)
    ours = SparseGraph(heads=heads, tokens=block * blocks, block=block, window=1, global_=1, random=2)
    some = ours.some(torch.arange(blocks).unsqueeze(-1), torch.tensor(blocks - 1).reshape(1, 1, 1, 1))
    config = BigBirdConfig(hidden_size=heads * d, num_attention_heads=heads, block_size=block, num_random_blocks=2)
    theirs = library.BigBirdBlockSparseAttention(config).eval()
    theirs._bigbird_block_rand_mask_with_head = lambda **_: some[0, :, 1:-1].numpy()
    mask = (torch.arange(block * blocks) < block * (blocks - 1)).float()[None]
    to_blocked, band, from_mask, to_mask = library.BigBirdModel.create_masks_for_block_sparse_attn(mask, block)
    features = 3 * torch.randn(1, block * blocks, heads * d)
    wanted, their_weights = theirs(features, band, from_mask, to_mask, to_blocked, to_blocked)
    query, key, value = (
        each(features).unflatten(-1, (heads, d)).transpose(1, 2) for each in (theirs.query, theirs.key, theirs.value)
    )
    found, weights = ours(query, key, value, mask.bool()[None, None])
    there = slice(0, block * (blocks - 1))
    torch.testing.assert_close(found.transpose(1, 2).flatten(2)[:, there], wanted[:, there], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(weights[:, :, there], their_weights[:, :, there], atol=1e-5, rtol=1e-4)
"""Attention without a matrix beside other people's code of the same papers."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from limelight_models.zoo.long.gated_deltanet import GatedDelta
from limelight_models.zoo.long.mamba import Mixer


def test_the_gated_delta_rule_is_that_of_transformers() -> None:
    theirs = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 150, 8) for _ in range(3))
    key, gates = normalize(key, dim=-1), torch.randn(2, 3, 150, 2)
    ours = GatedDelta(heads=3, decays=1).requires_grad_(False)
    _, _, strength, decay = ours.tokens(query, torch.cat([key, gates], -1))

    def turned(tensor: Tensor) -> Tensor:
        return tensor.transpose(1, 2)

    given = [turned(each) for each in (query, key, value, decay.squeeze(-1), strength.squeeze(-1))]
    found, weights = ours(query, torch.cat([key, gates], -1), value)
    for rule in (theirs.torch_recurrent_gated_delta_rule, theirs.torch_chunk_gated_delta_rule):
        wanted, _ = rule(*given, initial_state=None, output_final_state=False)
        torch.testing.assert_close(found, turned(wanted) * 8**0.5, atol=1e-5, rtol=1e-4)  # it scales queries itself
    torch.testing.assert_close(weights @ value, found, atol=1e-5, rtol=1e-4)


def test_mamba_2_is_that_of_transformers() -> None:
    theirs = pytest.importorskip("transformers.models.mamba2.modeling_mamba2")
    torch.manual_seed(0)
    sizes = {"hidden_size": 12, "num_heads": 3, "head_dim": 8, "state_size": 5, "n_groups": 1, "num_hidden_layers": 1}
    block = theirs.Mamba2Mixer(theirs.Mamba2Config(**sizes, expand=2, conv_kernel=4, chunk_size=16), 0).eval()
    block.D.data = torch.randn(3)
    ours = Mixer(d_model=12, heads=3, d_head=8, d_state=5, selective=True)
    maps = (ours.z_map, ours.x_map[0], ours.b_map[0], ours.c_map[0], ours.step_map)
    for each, weight in zip(maps, block.in_proj.weight.split([24, 24, 5, 5, 3]), strict=True):
        each.weight.data = weight
    convolved = (each.split([24, 5, 5]) for each in (block.conv1d.weight, block.conv1d.bias))
    for each, weight, bias in zip((ours.x_map, ours.b_map, ours.c_map), *convolved, strict=True):
        each[1].convolution.weight.data, each[1].convolution.bias.data = weight, bias
    ours.attention.steps.log_a.data, ours.attention.steps.bias.data = (
        each.reshape(3, 1, 1) for each in (block.A_log, block.dt_bias)
    )
    ours.skip.data, ours.norm.weight.data, ours.merge.weight.data = block.D, block.norm.weight, block.out_proj.weight
    u = torch.randn(2, 150, 12)
    with torch.no_grad():
        torch.testing.assert_close(ours(u)[0], block(u), atol=1e-5, rtol=1e-4)
