"""Models that exchange a part of the Transformer, against their equations written once more in NumPy."""

import numpy as np
import pytest
import torch
from entmax import entmax_bisect
from x_transformers.x_transformers import Attention

from limelight_models.attention import Context
from limelight_models.blocks.halting import Halting
from limelight_models.zoo.transformer.encoder_decoder import EncoderDecoder
from limelight_models.zoo.transformer.synthesizer import Synthesis
from tests.kit import small
from tests.oracles.cases import Array, array
from tests.oracles.zoo import linear, softmax

RNG = np.random.default_rng(4)


def features(d: int, tokens: int = 5) -> Array:
    return RNG.normal(size=(tokens, d))


def attended(attention: torch.nn.Module, x: Array) -> tuple[Array, Array]:
    """Answer of a module to one text [token, d] that attends to itself: output, and weights [head, token, token]."""
    given = torch.from_numpy(x)[None]
    output, weights = attention(given, given)
    return array(output)[0], array(weights)[0]


def first_attention(name: str) -> torch.nn.Module:
    """The attention of the first layer of a model's encoder."""
    network = small.make(name)
    assert isinstance(network, EncoderDecoder)
    return network.encoder[0].attention


@pytest.mark.parametrize("name", ["fixed-heads", "fixed-heads-divided"])
def test_heads_of_a_fixed_size_are_those_of_x_transformers(name: str) -> None:
    """Bhojanapalli et al. 2020: matrices of d_p rows for each head, whose scores have no higher rank."""
    attention, config = first_attention(name), small.config("fixed-heads")
    size = config.d_head if name == "fixed-heads" else config.d_model // config.heads
    theirs = Attention(dim=config.d_model, dim_head=size, heads=config.heads)
    theirs.to_q, theirs.to_k, theirs.to_v = attention.query_map, attention.key_map, attention.value_map
    theirs.to_out = attention.merge
    x = torch.from_numpy(features(config.d_model))[None]
    (output, weights), (wanted, kept) = attention(x, x), theirs(x, return_intermediates=True)
    np.testing.assert_allclose(weights, kept.pre_softmax_attn.softmax(-1), atol=1e-12)
    np.testing.assert_allclose(output, wanted, atol=1e-5)  # its softmax is in float32
    assert np.linalg.matrix_rank(kept.pre_softmax_attn[0]).max() == size


def test_each_head_is_as_sparse_as_its_own_alpha_says() -> None:
    """Correia et al. 2019: α-entmax by the authors' bisection, with α = 1 + sigmoid(a) for each head."""
    attention, config = first_attention("adaptively-sparse"), small.config("adaptively-sparse")
    with torch.no_grad():
        attention.attention.align.weight.copy_(torch.tensor([-1.5, 2.0])[:, None, None])
    size, x = config.d_model // config.heads, features(config.d_model, tokens=9)
    query, key = linear(attention.query_map, x), linear(attention.key_map, x)
    _, weights = attended(attention, x)
    for head, parameter in enumerate((-1.5, 2.0)):
        of_head = slice(head * size, (head + 1) * size)
        scores = query[:, of_head] @ key[:, of_head].T / np.sqrt(size)
        wanted = entmax_bisect(torch.from_numpy(scores), alpha=1 + 1 / (1 + np.exp(-parameter)), n_iter=80)
        np.testing.assert_allclose(weights[head], array(wanted), atol=1e-6)
    assert (weights == 0).any()


def test_sparsity_is_learned_by_each_head_of_each_attention() -> None:
    network = small.build("adaptively-sparse")
    ids, target = small.text(5, 1)[None], small.text(4, 3)[None]
    network(source_ids=ids, source_mask=ids != 0, target_ids=target).outputs["scores"].square().sum().backward()
    alphas = [each for name, each in network.named_parameters() if name.endswith("align.weight")]
    assert len(alphas) == 3 * small.config("adaptively-sparse").layers
    assert all(each.grad is not None and each.grad.abs().min() > 0 for each in alphas)


def made_scores(name: str, score: torch.nn.Module, hidden: Array, head: int, tokens: int) -> Array:
    """A head's scores [token, token] of a synthesizer, for the hidden layer relu(W₁ x + b₁) [token, feature]."""
    if name == "synthesizer-random":
        return array(score.table)[:tokens, head, :tokens]
    if name == "synthesizer-random-factored":
        return array(score.first)[:tokens, head] @ array(score.second)[:tokens, head].T
    maps = {each: (array(part.weight)[head], array(part.bias)[head, 0]) for each, part in score.named_children()}
    if name == "synthesizer":
        w, b = maps["position_map"]
        return (hidden @ w + b)[:, :tokens]
    inner, outer = (hidden @ w + b for w, b in (maps["inner_map"], maps["outer_map"]))
    size = inner.shape[1]  # of a block, whose places share a score of the outer ones
    return np.array([[inner[i, j % size] * outer[i, j // size] for j in range(tokens)] for i in range(tokens)])


SYNTHESIZERS = ["synthesizer", "synthesizer-factored", "synthesizer-random", "synthesizer-random-factored"]


@pytest.mark.parametrize("name", [*SYNTHESIZERS, "synthesizer-mixed", "synthesizer-random-mixed"])
def test_a_synthesizer_makes_the_weights_of_its_paper(name: str) -> None:
    """Tay et al. 2021: dense and random, factorised, and mixed with products of queries and keys by a trained share."""
    attention, config, mixed = first_attention(name), small.config("synthesizer"), name.endswith("mixed")
    assert isinstance(attention, Synthesis)
    x, score, size = features(config.d_model), attention.attention.score, config.d_model // config.heads
    assert hasattr(attention, "key_map") == mixed and hasattr(attention, "query_map") == (mixed or "random" not in name)
    query = linear(attention.query_map, x) if hasattr(attention, "query_map") else np.zeros_like(x)
    shown, heads = [], []
    for head in range(config.heads):
        part = slice(head * size, (head + 1) * size)
        made = score.synthesized if mixed else score
        scores = made_scores(name.removesuffix("-mixed"), made, np.maximum(query[:, part], 0), head, len(x))
        if mixed:
            share = 1 / (1 + np.exp(-score.share.item()))
            compared = query[:, part] @ linear(attention.key_map, x)[:, part].T / np.sqrt(size)
            scores = share * scores + (1 - share) * compared
        shown.append(softmax(scores))
        heads.append(shown[-1] @ linear(attention.value_map, x)[:, part])
    output, weights = attended(attention, x)
    np.testing.assert_allclose(weights, shown, atol=1e-12)
    np.testing.assert_allclose(output, linear(attention.merge, np.concatenate(heads, -1)), atol=1e-12)
    changed = x.copy()
    changed[0] += 1
    others = attended(attention, changed)[1]
    assert (others[:, 1:] == weights[:, 1:]).all() == (not mixed)  # no token is compared with another
    assert (others == weights).all() == ("random" in name and not mixed)


@pytest.mark.parametrize("name", SYNTHESIZERS)
def test_a_text_that_has_ended_may_step_past_its_last_place(name: str) -> None:
    """While others of its batch go on; what a key's place is said to be goes before its place among the keys."""
    score, most = first_attention(name).attention.score, small.config("synthesizer").max_source
    query, keys = torch.randn(2, 2, 1, 4).double(), torch.zeros(2, 2, most, 4).double()
    query[1] = query[0]
    beyond, last = score(query, keys, Context(query_positions=torch.tensor([most, most - 1]).reshape(2, 1, 1)))
    np.testing.assert_array_equal(beyond, last)
    places = torch.tensor([most - 1, most]).reshape(2, 1, 1)
    one = score(query, keys[:, :, :1], Context(query_positions=places, key_positions=places))
    np.testing.assert_array_equal(one[..., 0], torch.stack([last, last])[..., -1])


@pytest.mark.parametrize("name", ["transparent", "transparent-last"])
def test_each_layer_of_the_decoder_reads_its_own_mixture_of_layers(name: str) -> None:
    """Bapna et al. 2018: z_j = Σ_i softmax(W)_ji h_i; without it all read the last."""
    network, ids = small.make(name), small.text(5, 1)[None]
    assert isinstance(network, EncoderDecoder)
    layers = [torch.from_numpy(features(network.config.d_model))[None] for _ in range(1 + len(network.encoder))]
    read, shown = network.read(layers)
    mixture = softmax(array(network.mix.score.weight))
    if name.endswith("last"):
        mixture = np.zeros_like(mixture)
        mixture[:, -1] = 1
    np.testing.assert_allclose(array(shown["layers"])[0, 0], mixture, atol=1e-12)
    for of_reader, row in zip(read, mixture, strict=True):
        wanted = sum(weight * array(each) for weight, each in zip(row, layers, strict=True))
        np.testing.assert_allclose(array(of_reader), wanted, atol=1e-12)
    encoded = network.encode(source_ids=ids, source_mask=ids != 0)
    np.testing.assert_allclose(array(encoded["layers"])[0, 0], mixture, atol=1e-12)


def test_a_token_halts_by_hand() -> None:
    """Probabilities of 0.4 at every step: 0.4, 0.4, then the remainder of 0.2, and nothing of the fourth step."""
    halting = Halting(d=1, threshold=0.99)
    assert halting.stop is not None
    torch.nn.init.zeros_(halting.stop.weight)
    torch.nn.init.constant_(halting.stop.bias, np.log(0.4 / 0.6))
    pondered, entered = halting.begin(torch.zeros(1, 1, 1)), torch.zeros(1, 1, 1)
    for made in (1.0, 10.0, 100.0, 1000.0):
        pondered = halting(pondered, entered, torch.full((1, 1, 1), made))
    assert pondered.result.item() == pytest.approx(0.2 * 100 + 0.8 * (0.4 * 10 + 0.6 * 0.4))
    assert halting.shown(pondered).flatten().tolist() == pytest.approx([0.6 * 0.8 * 0.4, 0.8 * 0.4, 0.2, 0])
    assert pondered.cost.item() == pytest.approx(3 + 0.2) and not pondered.running.any()
    pondered.cost.sum().backward()
    gradient = halting.stop.bias.grad
    assert gradient is not None
    assert gradient.item() == pytest.approx(-2 * 0.4 * 0.6), "to halt likelier leaves less to the last step"


def test_steps_of_real_tokens_are_paid_for() -> None:
    network = small.make("universal").train()
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.eval()
    ids, target = small.text(5, 1), small.text(4, 3)
    tensors = {"source_ids": ids[None], "target_ids": target[None]}
    one = network(**tensors, source_mask=ids[None] != 0, target_mask=target[None] != 0)
    tensors = {"source_ids": small.stack([ids], 3), "target_ids": small.stack([target], 2)}
    padded = network(**tensors, **{f"{side}_mask": tensors[f"{side}_ids"] != 0 for side in ("source", "target")})
    ponder, price = float(one.signals["ponder"]), small.config("universal").price
    assert ponder > 2 and float(padded.signals["ponder"]) == pytest.approx(ponder)
    assert float(network.objective(torch.ones(4), one, target)) == pytest.approx(4 + 4 * price * ponder)
    assert not small.make("universal-fixed").train()(**tensors, source_mask=tensors["source_ids"] != 0).signals
