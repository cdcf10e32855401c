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
