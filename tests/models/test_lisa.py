"""Linguistically-informed self-attention: against PyTorch's layers and NumPy, and what its task asks of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from limelight_models.data import roles, rows
from limelight_models.network import Answer
from limelight_models.tasks.parse import Parse, heads_of
from limelight_models.tasks.task import Batch
from limelight_models.zoo.sentences.lisa import Lisa, LisaConfig

SIZES = LisaConfig(vocabulary=20, classes=3, d_model=8, layers=3, parsing=1, heads=2, d_hidden=6)
TAUGHT, FREE = Parse(), Parse(weight=0.0)
READ = rows.tagged({"words": ["the", "cat", "sat"], "tags": ["O", "B-agent", "-"], "heads": [2, 3, 0]})
# Neither the word on which the cat depends is known, nor what sits.
EXAMPLE = replace(READ, labels=("O", "B-agent", ""), gold=(READ.gold[0], READ.gold[2]))


def torchs(layer: nn.Module) -> nn.TransformerEncoderLayer:
    """PyTorch's layer with the weights of one of the network's."""
    made = nn.TransformerEncoderLayer(SIZES.d_model, SIZES.heads, SIZES.d_hidden, batch_first=True).double().eval()
    own, found = layer.state_dict(), {}
    for kind in ("weight", "bias"):
        found[f"self_attn.in_proj_{kind}"] = torch.cat(
            [own[f"attention.{each}_map.{kind}"] for each in ("query", "key", "value")]
        )
        for ours, theirs in {
            "attention.merge": "self_attn.out_proj",
            "hidden.0": "linear1",
            "hidden.2": "linear2",
            "after_attention.norm": "norm1",
            "after_hidden.norm": "norm2",
        }.items():
            found[f"{theirs}.{kind}"] = own[f"{ours}.{kind}"]
    made.load_state_dict(found)
    return made


def test_it_is_the_transformers_but_for_one_head_that_is_a_parsers() -> None:
    torch.manual_seed(0)
    network = Lisa(SIZES).double().eval().requires_grad_(False)
    ids = torch.tensor([[[3, 4], [5, 0], [6, 7], [8, 0]]])
    answer = network(token_ids=ids, token_mask=ids > 0)

    table, d = network.embedding.weight.numpy(), SIZES.d_model
    words = np.stack([table[[each for each in word if each]].mean(0) for word in ids[0].tolist()])
    angles = np.arange(4)[:, None] / 10_000 ** (np.arange(0, d, 2) / d)
    features = torch.from_numpy(np.sqrt(d) * words + np.concatenate([np.sin(angles), np.cos(angles)], -1))[None]
    for number, layer in enumerate(network.encoder):
        theirs = torchs(layer)
        if number != SIZES.parsing:
            _, weights = theirs.self_attn(features, features, features, average_attn_weights=False)
            features = theirs(features)
        else:
            query, key, value = theirs.self_attn.in_proj_weight.split(d)
            offsets = theirs.self_attn.in_proj_bias.split(d)
            q, k, v = (features @ w.T + b for w, b in zip((query, key, value), offsets, strict=True))
            first, second = slice(0, 4), slice(4, 8)
            form = layer.attention.attention.score.scores[0].query_map
            (w,), (b,) = form.weight, form.bias
            # Biaffine, of no scale: a key has a bias whoever asks (Dozat & Manning 2017, eq. 6).
            scores = torch.stack([k[0, :, first] @ (q[0, i, first] @ w + b.flatten()) for i in range(4)])
            free = q[0, :, second] @ k[0, :, second].T / 2
            weights = torch.stack([scores, free]).softmax(-1)[None]
            joined = torch.cat([weights[0, 0] @ v[0, :, first], weights[0, 1] @ v[0, :, second]], -1)
            features = theirs.norm1(features + theirs.self_attn.out_proj(joined[None]))
            features = theirs.norm2(features + theirs.linear2(theirs.linear1(features).relu()))
        # As exact as float32's sines of places.
        torch.testing.assert_close(answer.maps[f"encoder.{number}.self"], weights, atol=1e-5, rtol=1e-5)
    logits = features @ network.classify.linear.weight.T + network.classify.linear.bias
    torch.testing.assert_close(answer.outputs["logits"], logits, atol=1e-5, rtol=1e-5)


class Says(Lisa):
    """Scores and weights, whatever it is asked."""

    def forward(self, **tensors: torch.Tensor) -> Answer:
        weights = torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.5, 0.25, 0.25]]).expand(1, 2, 3, 3)
        return Answer({"logits": torch.zeros(1, 3, 2)}, {self.parses: weights})


def test_words_pay_for_weight_off_the_word_that_they_depend_on() -> None:
    target = TAUGHT.stack([TAUGHT.reader(("B-agent", "O"))(EXAMPLE)])
    assert target.tolist() == [[[1, 1], [0, -1], [-1, 2]]]
    batch, network = Batch({}, (0,), target), Says(SIZES)
    (taught, words), (free, _) = (each.loss(network, batch) for each in (TAUGHT, FREE))
    assert words == 2 and float(free) == pytest.approx(2 * np.log(2))
    assert float(taught - free) == pytest.approx(np.log(2) + np.log(4))


@pytest.mark.parametrize("heads", [[1, 2], [1, 2, 4], [1, 2, -1], [1, 2, 1.0], "123", 3])
def test_heads_that_are_no_words_are_refused(heads: object) -> None:
    with pytest.raises(ValueError, match='"heads" are no list of 3 numbers of words'):
        rows.tagged({"words": ["the", "cat", "sat"], "tags": ["O", "O", "O"], "heads": heads})


def test_a_made_sentence_says_of_every_word_on_which_it_depends() -> None:
    for example in roles.dataset().test[:50]:
        heads = heads_of(example)
        assert (heads >= 0).all() and (heads == np.arange(len(heads))).sum() == 1
