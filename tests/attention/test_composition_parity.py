"""Compositions against implementations by others."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch_geometric.nn.aggr import AttentionalAggregation

from limelight_models.attention import Attention, Context, masks
from limelight_models.attention.features import TanhBilinear
from limelight_models.attention.levels import Hierarchical
from limelight_models.attention.queries.label_wise import LabelLinear
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.queries.self_attention import SelfAttention
from limelight_models.attention.score import ScaledDot, SelfAttentive
from limelight_models.attention.signals import output_agreement

D = 6


def gate(score: SelfAttentive) -> nn.Sequential:
    """The same score, as the network that torch_geometric takes."""
    hidden, importance = nn.Linear(D, 5), nn.Linear(5, 1, bias=False)
    hidden.weight.data, hidden.bias.data = score.key_map.weight[0].T, score.key_map.bias[0, 0]
    importance.weight.data = score.importance.weight[0].T
    return nn.Sequential(hidden, nn.Tanh(), importance)


def pool() -> SelfAttentivePool:
    return SelfAttentivePool(attention=Attention(score=SelfAttentive(d_k=D, d_w=5)))


def test_hierarchical_equals_attentional_aggregation_of_torch_geometric() -> None:
    """Its softmax over ragged segments knows nothing of padding: words by sentence, then sentences by document."""
    levels = Hierarchical(word=pool(), sentence=pool())
    words, mask = torch.randn(3, 4, 5, D), torch.rand(3, 4, 5) > 0.4
    mask[1, 2] = False  # a sentence of padding
    document, _ = levels(words, mask)
    present = mask.any(-1)
    sentence_of_word = present.flatten().long().cumsum(0) - 1
    by_word = AttentionalAggregation(gate(levels.word.attention.score))
    by_sentence = AttentionalAggregation(gate(levels.sentence.attention.score))
    segments = sentence_of_word.reshape(3, 4, 1).expand(3, 4, 5)[mask]
    sentences = by_word(words[mask], segments)
    documents = torch.arange(3).unsqueeze(-1).expand(3, 4)[present]
    torch.testing.assert_close(document, by_sentence(sentences, documents))


def test_self_attention_equals_the_fused_function_of_torch() -> None:
    layer = SelfAttention(attention=Attention(score=ScaledDot()), d_f=D, d_q=4, d_k=4, d_v=3)
    features = torch.randn(2, 5, D)
    mask = masks.causal.build(query=5, key=5)
    context, _ = layer(features, mask)
    maps = (layer.query_map, layer.key_map, layer.value_map)
    torch.testing.assert_close(context, scaled_dot_product_attention(*(m(features) for m in maps), attn_mask=mask))


def test_bilinear_affinity_equals_the_bilinear_layer_of_torch() -> None:
    score, layer = TanhBilinear(d_q=4, d_k=3), nn.Bilinear(4, 3, 1, bias=False)
    layer.weight.data = score.query_map.weight
    query, key = torch.randn(1, 1, 5, 4), torch.randn(1, 1, 7, 3)
    pairs = layer(query[0, 0].repeat_interleave(7, 0), key[0, 0].repeat(5, 1))
    torch.testing.assert_close(score(query, key, Context()).flatten(), pairs.tanh().flatten())


def test_label_linear_equals_one_linear_layer_a_label() -> None:
    layers, ours = [nn.Linear(D, 1) for _ in range(3)], LabelLinear(labels=3, d_v=D)
    ours.map.weight.data = torch.stack([layer.weight.T for layer in layers])
    ours.map.bias.data = torch.stack([layer.bias[None] for layer in layers])
    vectors = torch.randn(2, 3, D)
    expected = torch.cat([layer(vectors[:, label]) for label, layer in enumerate(layers)], -1)
    torch.testing.assert_close(ours(vectors), expected)


def test_agreement_of_outputs_equals_cosine_similarity_of_torch() -> None:
    vectors = torch.randn(2, 3, 4, D)
    pairs = torch.cosine_similarity(vectors.unsqueeze(1), vectors.unsqueeze(2), dim=-1)
    torch.testing.assert_close(output_agreement(vectors), pairs.mean())
