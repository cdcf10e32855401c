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
