"""What networks that read through latents promise besides."""

import pytest
import torch
from torch import nn

from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.blocks.transformer import EncoderLayer
from limelight_models.zoo.latents.perceiver import Asking, PerceiverConfig
from tests.kit import small


@pytest.mark.parametrize("name", ["set-transformer", "set-transformer-whole", "set-transformer-mean"])
def test_the_order_of_a_set_says_nothing_of_it(name: str) -> None:
    network, ids, order = small.make(name), small.text(9, 0)[None], torch.randperm(9)
    first, second = (
        network(token_ids=each, token_mask=torch.ones(1, 9, dtype=torch.bool)) for each in (ids, ids[:, order])
    )
    torch.testing.assert_close(second.outputs["logits"], first.outputs["logits"])
    for each, weights in first.maps.items():
        sides = [axis for axis in (2, 3) if weights.shape[axis] == 9]
        for axis in sides:
            weights = weights.index_select(axis, order)
        assert sides
        torch.testing.assert_close(second.maps[each], weights)


def test_a_perceiver_asks_and_thinks_as_that_of_transformers() -> None:
    library = pytest.importorskip("transformers.models.perceiver.modeling_perceiver")
    from transformers import PerceiverConfig as Theirs

    config = PerceiverConfig(classes=2, d_model=8, heads=2, d_hidden=16, bands=2, dropout=0.0)
    latents, inputs = torch.randn(2, 3, 8), torch.randn(2, 10, config.d_input)
    sizes = {"config": Theirs(attention_probs_dropout_prob=0.0), "q_dim": 8, "qk_channels": 8, "widening_factor": 2}
    theirs = library.PerceiverLayer(is_cross_attention=True, kv_dim=config.d_input, **sizes).eval()
    ours, inner = Asking(config).eval(), theirs.attention.self
    copied(ours.attention, theirs)
    for mine, other in (
        (ours.latent_norm, inner.layernorm1),
        (ours.input_norm, inner.layernorm2),
        (ours.hidden, nn.Sequential(theirs.layernorm, theirs.mlp.dense1, nn.GELU(), theirs.mlp.dense2)),
    ):
        mine.load_state_dict(other.state_dict())
    found, weights = ours(latents, inputs)
    wanted = theirs(latents, inputs=inputs, output_attentions=True)
    torch.testing.assert_close((found, weights), wanted[:2])
    theirs = library.PerceiverLayer(num_heads=2, kv_dim=8, **sizes).eval()
    own = EncoderLayer(d_model=8, heads=2, d_hidden=16, dropout=0.0).eval()
    copied(own.attention, theirs)
    own.attention_norm.load_state_dict(theirs.attention.self.layernorm1.state_dict())
    own.hidden_norm.load_state_dict(theirs.layernorm.state_dict())
    own.hidden.load_state_dict(nn.Sequential(theirs.mlp.dense1, nn.GELU(), theirs.mlp.dense2).state_dict())
    found, looks = own(latents)
    torch.testing.assert_close((found, looks.weights), theirs(latents, output_attentions=True)[:2])


def copied(ours: MultiHead, theirs: nn.Module) -> None:
    """Give the projections of one attention to another."""
    inner = theirs.attention.self
    pairs = zip(
        (ours.query_map, ours.key_map, ours.value_map, ours.merge),
        (inner.query, inner.key, inner.value, theirs.attention.output.dense),
        strict=True,
    )
    for mine, other in pairs:
        mine.load_state_dict(other.state_dict())
