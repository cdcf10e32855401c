"""The networks against independent implementations: PyTorch's own layers with the same weights."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from limelight_models.attention.features import ConcatProduct
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.blocks.convolved import Parts
from limelight_models.blocks.halting import Halting
from limelight_models.blocks.patches import cut
from limelight_models.blocks.recurrent import BiGru, BiLstm, turning
from limelight_models.blocks.transformer import AddAndNorm, EncoderLayer, PostNormLayer
from limelight_models.blocks.two_way import TwoWay
from limelight_models.index import recipe
from limelight_models.network import GeneratingNetwork
from limelight_models.tasks.generate import greedy
from limelight_models.zoo.co_attention.hiecoatt import GRAMS, Phrases
from limelight_models.zoo.co_attention.mcan import GuidedLayer, Mcan
from limelight_models.zoo.co_attention.vqa import Lstm
from limelight_models.zoo.rnn_search.luong import Luong
from limelight_models.zoo.rnn_search.rnn_search import RnnSearch
from limelight_models.zoo.segmentation.attention_unet import Gate
from limelight_models.zoo.sentence_pairs.word_by_word import Premise
from limelight_models.zoo.transformer.decoder import Block, Decoder
from limelight_models.zoo.transformer.encoder_decoder import DecoderLayer, EncoderDecoder, EncoderDecoderConfig
from limelight_models.zoo.transformer.universal import UniversalTransformer
from tests.kit import small
from tests.oracles.zoo import sines

VIT, GPT, TRANSFORMER, LUONG, BAHDANAU = map(small.config, ("vit", "gpt", "transformer", "luong", "bahdanau"))
UNIVERSAL = small.config("universal")
# What the tensors are called that a generating model reads.


LENGTHS = torch.tensor([5, 1, 3, 5, 2])
THERE = torch.arange(5) < LENGTHS[:, None]


def packed(theirs: nn.GRU | nn.LSTM, features: Tensor) -> tuple[Tensor, Any]:
    """States of a layer of torch's over sequences of these lengths, and its last ones, without their padding."""
    given = nn.utils.rnn.pack_padded_sequence(features, LENGTHS, batch_first=True, enforce_sorted=False)
    states, last = theirs(given)
    return nn.utils.rnn.pad_packed_sequence(states, batch_first=True)[0], last


@pytest.mark.parametrize(("encoder", "layer"), [(BiGru, nn.GRU), (BiLstm, nn.LSTM)])
def test_bidirectional_encoders_equal_torchs_on_packed_sequences(
    encoder: type[BiGru], layer: type[nn.GRU | nn.LSTM]
) -> None:
    torch.manual_seed(1)
    ours, theirs = encoder(d_in=3, d_hidden=4), layer(3, 4, batch_first=True, bidirectional=True)
    weights = {f"{name}": value for name, value in ours.onward.state_dict().items()}
    weights |= {f"{name}_reverse": value for name, value in ours.reverse.state_dict().items()}
    theirs.load_state_dict(weights)
    features = torch.randn(5, 5, 3, dtype=torch.float64)
    wanted, _ = packed(theirs.double(), features)
    assert torch.allclose(ours.double()(features, THERE), wanted, atol=1e-12)


def test_lstms_that_read_onward_equal_torchs_on_packed_sequences() -> None:
    """That of questions, and that of a premise, whose biases are the weights of a feature more; its last cell too."""
    torch.manual_seed(1)
    theirs, features = nn.LSTM(4, 4, batch_first=True).double(), torch.randn(5, 5, 4, dtype=torch.float64)
    wanted, (_, cell) = packed(theirs, features)
    questions, premise = Lstm(4).double(), Premise(d_in=4, d=4).double()
    questions.cell.load_state_dict(theirs.state_dict())
    assert torch.allclose(questions(features, THERE), wanted, atol=1e-12)
    bias = theirs.bias_ih_l0 + theirs.bias_hh_l0
    weights = {"weight_ih_l0": torch.cat([theirs.weight_ih_l0, bias[:, None]], 1), "weight_hh_l0": theirs.weight_hh_l0}
    premise.cell.load_state_dict(weights)
    states, last = premise(features * THERE.unsqueeze(-1), THERE)
    assert torch.allclose(states * THERE.unsqueeze(-1), wanted, atol=1e-12)
    assert torch.allclose(last, cell, atol=1e-12)


def test_turning_round_by_hand() -> None:
    mask = torch.tensor([[True, True, True, False], [False] * 4])
    assert turning(mask).tolist() == [[2, 1, 0, 3], [0, 1, 2, 3]]


def test_the_parts_of_a_words_pieces_stand_one_after_the_other() -> None:
    parts = Parts(torch.tensor([[0, 0, 0], [1, 0, 0], [2, 3, 0], [4, 5, 6]]), most=4)
    words = torch.tensor([[[2, 3, 0], [1, 0, 0], [3, 3, 2], [0, 0, 0]]])
    assert parts(words).tolist() == [[[2, 3, 4, 5], [1, 0, 0, 0], [4, 5, 6, 4], [0, 0, 0, 0]]]


def torchs(attention: MultiHead) -> dict[str, Tensor]:
    """The weights of a multi-head attention as torch's own has them."""
    maps = (attention.query_map, attention.key_map, attention.value_map)
    return {
        "in_proj_weight": torch.cat([each.weight for each in maps]),
        "in_proj_bias": torch.cat([each.bias for each in maps]),
        "out_proj.weight": attention.merge.weight,
        "out_proj.bias": attention.merge.bias,
    }


def blocks() -> tuple[EncoderLayer, nn.TransformerEncoderLayer]:
    """A layer of ours and one of torch's, with the same weights."""
    torch.manual_seed(2)
    d, heads = VIT.d_model, VIT.heads
    ours = EncoderLayer(d_model=d, heads=heads, d_hidden=VIT.d_hidden, dropout=0.1).eval()
    theirs = nn.TransformerEncoderLayer(
        d, heads, VIT.d_hidden, activation=nn.functional.gelu, batch_first=True, norm_first=True
    ).eval()
    theirs.self_attn.load_state_dict(torchs(ours.attention))
    pairs = ((theirs.norm1, ours.attention_norm), (theirs.norm2, ours.hidden_norm))
    for layer, own in (*pairs, (theirs.linear1, ours.hidden[0]), (theirs.linear2, ours.hidden[2])):
        layer.load_state_dict(own.state_dict())
    return ours.double(), theirs.double()


def weights_of(theirs: nn.TransformerEncoderLayer, features: Tensor) -> Tensor:
    normed = theirs.norm1(features)
    return theirs.self_attn(normed, normed, normed, need_weights=True, average_attn_weights=False)[1]


def test_a_block_of_the_vision_transformer_equals_torchs() -> None:
    ours, theirs = blocks()
    features = torch.randn(2, 5, VIT.d_model, dtype=torch.float64)
    output, looks = ours(features)
    assert torch.allclose(output, theirs(features), atol=1e-10)
    assert torch.allclose(looks.weights, weights_of(theirs, features), atol=1e-10)


def test_swapping_query_and_key_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = blocks()
    features = torch.randn(2, 5, VIT.d_model, dtype=torch.float64)
    right = ScaledDot.forward
    monkeypatch.setattr(ScaledDot, "forward", lambda self, query, key, context: right(self, key, query, context))
    assert not torch.allclose(ours(features)[1].weights, weights_of(theirs, features), atol=1e-3)


@pytest.mark.parametrize("by_feature", [False, True])
def test_a_gate_is_that_of_the_paper(by_feature: bool) -> None:
    """Oktay et al. 2018, eq. 1-3, by the convolutions of Fig. 2: 2 x 2 with stride 2 for W_x, 1 x 1 for the others."""
    torch.manual_seed(4)
    gate = Gate(d_x=3, d_g=5, d_w=4, by_feature=by_feature).double()
    score = gate.attention.score
    for parameter in gate.parameters():
        nn.init.normal_(parameter)
    features, gating = (torch.randn(2, *shape, dtype=torch.float64) for shape in ((3, 4, 6), (5, 2, 3)))
    of_x = score.key_map.weight[0].T.reshape(4, 3, 2, 2)
    of_g = score.query_map.weight[0].T[:, :, None, None]
    last = score.importance.weight[0].T[:, :, None, None]
    hidden = conv2d(features, of_x, stride=2) + conv2d(gating, of_g, score.query_map.bias[0, 0])
    coarse = torch.sigmoid(conv2d(torch.relu(hidden), last, score.importance.bias[0, 0]))
    wanted = nn.Upsample(scale_factor=2, mode="bilinear")(coarse)
    gated, coefficients = gate(features, gating)
    assert torch.allclose(gated, features * wanted, atol=1e-12)
    shown = coefficients if by_feature else coefficients.unsqueeze(-1)
    assert torch.allclose(shown[:, 0, 0], wanted.flatten(2).transpose(1, 2), atol=1e-12)


def test_the_decoder_equals_torchs_layers_under_a_causal_mask() -> None:
    model = small.make("gpt")
    assert isinstance(model, Decoder)
    prompt, target = small.text(5, 1)[None], small.text(4, 2)[None]
    found = model(prompt_ids=prompt, prompt_mask=prompt != 0, target_ids=target)
    ids = torch.cat([torch.tensor([[GPT.begin]]), prompt, target[:, :-1]], 1)
    features = model.tokens(ids) + model.places.weight[: ids.shape[1]]
    causal = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], dtype=torch.float64)
    for number, layer in enumerate(model.layers):
        assert isinstance(layer, Block)
        theirs = nn.TransformerEncoderLayer(
            GPT.d_model, GPT.heads, GPT.d_hidden,
            activation=nn.functional.gelu, batch_first=True, norm_first=True, dropout=0.0,
        ).double()  # fmt: skip
        theirs.self_attn.load_state_dict(torchs(layer.attention.attention))
        pairs = ((theirs.norm1, layer.attention_norm), (theirs.norm2, layer.hidden_norm))
        for torchs_own, own in (*pairs, (theirs.linear1, layer.hidden[0]), (theirs.linear2, layer.hidden[2])):
            torchs_own.load_state_dict(own.state_dict())
        normed = theirs.norm1(features)
        _, weights = theirs.self_attn(normed, normed, normed, attn_mask=causal, average_attn_weights=False)
        # The prompt's last token, and those of the target but for its last, are each where the next is put out.
        assert torch.allclose(found.maps[f"decoder.{number}.self"], weights[:, :, 5:], atol=1e-12)
        features = theirs(features, src_mask=causal)
    scores = model.norm(features[:, 5:]) @ model.tokens.weight.T
    assert torch.allclose(found.outputs["scores"], scores, atol=1e-10)


def test_latent_attention_keeps_a_fraction_of_what_separate_heads_keep() -> None:
    """Numbers a token, of all layers, at the sizes of DeepSeek-V2, which it says are 34,560 (60 × 9/2 × 128)."""

    def kept(name: str) -> int:
        chosen = recipe(name)
        sizes = {**chosen.presets["paper"].sizes, **chosen.changes}
        states = chosen.config(vocabulary=9, begin=1, end=2, **sizes).states()
        return sum(heads * size for heads, size in (each.cache for each in states))

    assert (kept("latent-attention"), kept("latent-attention-separate")) == (34_560, 60 * 128 * (192 + 128))


def test_image_gpt_is_that_of_transformers() -> None:
    """Whose first token stands behind the levels in its vocabulary, and which has a map of its own to scores."""
    library = pytest.importorskip("transformers.models.imagegpt.modeling_imagegpt")
    model, config = small.make("image-gpt"), small.config("image-gpt")
    sizes = {"n_embd": config.d_model, "n_layer": config.layers, "n_head": config.heads, "n_inner": config.d_hidden}
    places = {"vocab_size": config.vocabulary, "n_positions": config.places, "attn_implementation": "eager"}
    theirs = library.ImageGPTModel(library.ImageGPTConfig(**sizes, **places)).double().eval()
    assert isinstance(model, Decoder)
    theirs.wte.weight.data, theirs.wpe.weight.data = model.tokens.weight, model.places.weight
    theirs.ln_f.weight.data = model.norm.weight
    for layer, block in zip(model.layers, theirs.h, strict=True):
        heads = layer.attention.attention
        maps = (heads.query_map, heads.key_map, heads.value_map)
        block.attn.c_attn.weight.data = torch.cat([each.weight for each in maps]).T
        block.attn.c_attn.bias.data = torch.cat([each.bias for each in maps])
        pairs = (
            (heads.merge, block.attn.c_proj),
            (layer.hidden[0], block.mlp.c_fc),
            (layer.hidden[2], block.mlp.c_proj),
        )
        for ours, other in pairs:
            other.weight.data, other.bias.data = ours.weight.T, ours.bias
        block.ln_1.weight.data, block.ln_2.weight.data = layer.attention_norm.weight, layer.hidden_norm.weight
    prompt, target = small.text(5, 1)[None], small.text(7, 2)[None]
    found = model(prompt_ids=prompt, prompt_mask=prompt != 0, target_ids=target)
    ids = torch.cat([torch.tensor([[config.begin]]), prompt, target[:, :-1]], 1)
    wanted = theirs(ids, output_attentions=True, output_hidden_states=True)
    for number, weights in enumerate(wanted.attentions):
        assert torch.allclose(found.maps[f"decoder.{number}.self"], weights[:, :, 5:], atol=1e-10)
    for number, features in enumerate(wanted.hidden_states):
        assert torch.allclose(found.outputs[f"decoder.hidden.{number}"], features[:, 5:], atol=1e-10)


def test_the_transformer_equals_torchs() -> None:
    model = small.make("transformer")
    assert isinstance(model, EncoderDecoder)
    ids, target = small.stack([small.text(5, 1), small.text(3, 2)]), torch.stack([small.text(4, 3), small.text(4, 4)])
    found = model(source_ids=ids, source_mask=ids != 0, target_ids=target)
    source = model.embed(model.source_embedding, ids, torch.arange(5))
    put_in = torch.cat([torch.full((2, 1), TRANSFORMER.begin), target[:, :-1]], 1)
    features = model.embed(model.target_embedding, put_in, torch.arange(4))
    for layer in model.encoder:
        source = reading(layer, TRANSFORMER)(source, src_key_padding_mask=ids == 0)
    causal = nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
    for number, reader in enumerate(model.decoder):
        other = writing(reader, TRANSFORMER)
        _, weights = other.self_attn(features, features, features, attn_mask=causal, average_attn_weights=False)
        assert torch.allclose(found.maps[f"decoder.{number}.self"], weights, atol=1e-12)
        features = other(features, source, tgt_mask=causal, memory_key_padding_mask=ids == 0)
    assert torch.allclose(found.outputs["scores"], features @ model.target_embedding.weight.T, atol=1e-10)


@pytest.mark.parametrize("name", ["universal-fixed", "universal"])
def test_the_universal_transformer_is_torchs_layers_in_a_loop(name: str) -> None:
    """Each step adds to every token where it stands and which step it is; what counts of each is Graves' (2016)."""
    model = small.make(name)
    assert isinstance(model, UniversalTransformer)
    ids, target = small.stack([small.text(5, 1), small.text(3, 2)]), torch.stack([small.text(4, 3), small.text(4, 4)])
    put_in = torch.cat([torch.full((2, 1), UNIVERSAL.begin), target[:, :-1]], 1)
    found, d = model(source_ids=ids, source_mask=ids != 0, target_ids=target), UNIVERSAL.d_model

    def loop(halting: Halting, features: Tensor, layer: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        made, chances = [], []
        for number in range(1, 1 + model.steps):
            features = features + torch.from_numpy(sines(range(features.shape[1]), d) + sines([number], d))
            last_step = torch.full_like(features[..., :1], number == model.steps)
            chances.append(last_step if halting.stop is None else halting.stop(features).sigmoid())
            features = layer(features)
            made.append(features)
        p = torch.cat(chances, -1)
        before = p.cumsum(-1) - p
        counts = torch.where(before + p > UNIVERSAL.threshold, 1 - before, p) * (before <= UNIVERSAL.threshold)
        kept = torch.cumprod(torch.cat([torch.ones_like(p[..., :1]), 1 - counts.flip(-1)[..., :-1]], -1), -1).flip(-1)
        return (torch.stack(made, -1) * (counts * kept).unsqueeze(-2)).sum(-1), counts * kept

    embedded = (d**0.5 * each(of) for each, of in ((model.source_embedding, ids), (model.target_embedding, put_in)))
    first, last = reading(model.encoder[0], UNIVERSAL), writing(model.decoder[0], UNIVERSAL)
    source, of_source = loop(model.encoder_halting, next(embedded), lambda x: first(x, src_key_padding_mask=ids == 0))
    causal = nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
    features, of_target = loop(
        model.decoder_halting,
        next(embedded),
        lambda x: last(x, source, tgt_mask=causal, memory_key_padding_mask=ids == 0),
    )
    assert torch.allclose(found.maps["encoder.steps"][:, 0], of_source * (ids != 0).unsqueeze(-1), atol=1e-12)
    assert torch.allclose(found.maps["decoder.steps"][:, 0], of_target, atol=1e-12)
    assert torch.allclose(found.outputs["scores"], features @ model.target_embedding.weight.T, atol=1e-10)


def reading(ours: nn.Module, config: EncoderDecoderConfig) -> nn.TransformerEncoderLayer:
    """A layer of torch's with the weights of an encoder's of ours."""
    assert isinstance(ours, PostNormLayer)
    sizes = (config.d_model, config.heads, config.d_hidden)
    theirs = nn.TransformerEncoderLayer(*sizes, batch_first=True, dropout=0.0).double()
    theirs.self_attn.load_state_dict(torchs(ours.attention))
    load(theirs, ours.hidden, [ours.after_attention, ours.after_hidden])
    return theirs


def writing(ours: nn.Module, config: EncoderDecoderConfig) -> nn.TransformerDecoderLayer:
    """A layer of torch's with the weights of a decoder's of ours."""
    assert isinstance(ours, DecoderLayer)
    sizes = (config.d_model, config.heads, config.d_hidden)
    theirs = nn.TransformerDecoderLayer(*sizes, batch_first=True, dropout=0.0).double()
    theirs.self_attn.load_state_dict(torchs(ours.itself.attention))
    theirs.multihead_attn.load_state_dict(torchs(ours.cross.attention))
    load(theirs, ours.hidden, [ours.after_itself, ours.after_cross, ours.after_hidden])
    return theirs


def load(theirs: nn.Module, hidden: nn.Sequential, norms: list[AddAndNorm]) -> None:
    """Give a layer of torch's the weights of ours, attention apart."""
    pairs = [("linear1", hidden[0]), ("linear2", hidden[2])]
    pairs += [(f"norm{number}", each.norm) for number, each in enumerate(norms, 1)]
    for name, own in pairs:
        theirs.get_submodule(name).load_state_dict(own.state_dict())


def test_a_guided_layer_equals_torchs_decoder_layer_without_its_mask() -> None:
    model = small.make("mcan")
    assert isinstance(model, Mcan)
    config, layer = small.config("mcan"), model.looking[0]
    assert isinstance(layer, GuidedLayer)
    theirs = nn.TransformerDecoderLayer(config.d, config.heads, config.d_hidden, batch_first=True, dropout=0.0).double()
    theirs.self_attn.load_state_dict(torchs(layer.itself))
    theirs.multihead_attn.load_state_dict(torchs(layer.guided))
    load(theirs, layer.hidden, [layer.after_itself, layer.after_guided, layer.after_hidden])
    regions, words = torch.randn(2, 6, config.d, dtype=torch.float64), torch.randn(2, 5, config.d, dtype=torch.float64)
    mask = torch.arange(5) < torch.tensor([[5], [3]])
    found, _, cross = layer(regions, words, mask)
    assert torch.allclose(found, theirs(regions, words, memory_key_padding_mask=~mask), atol=1e-10)
    assert not cross[1, ..., 3:].any()


def test_phrases_are_the_strongest_of_one_two_and_three_words() -> None:
    """By hand: a window of s words around each, zeros beyond the ends."""
    phrases = Phrases(4).double()
    words = torch.randn(1, 5, 4, dtype=torch.float64)
    found = phrases(words, torch.ones(1, 5, dtype=torch.bool))
    for place in range(5):
        grams = []
        for size, gram in zip(GRAMS, phrases.grams, strict=True):
            assert isinstance(gram, nn.Conv1d)
            first = place - size // 2
            made = gram.bias.clone()
            for offset in range(size):
                if 0 <= first + offset < 5:
                    made += gram.weight[:, :, offset] @ words[0, first + offset]
            grams.append(torch.tanh(made))
        assert torch.allclose(found[0, place], torch.stack(grams).amax(0))


def test_frames_listen_to_words_and_look_at_frames_by_way_of_them() -> None:
    """Number by number, as Seo et al. (2017) and Xiong et al. (2017) have it."""
    torch.manual_seed(4)
    frames, words, mask = torch.randn(1, 3, 4), torch.randn(1, 3, 4), torch.tensor([[True, True, False]])
    module = TwoWay(ConcatProduct(d=4))
    (heard, looked), (listening, looking) = module(frames, words, mask)
    of_word, of_frame, of_both = module.attention.score.weight.weight[0, :, 0].chunk(3)
    said = words[0, :2]
    affinity = torch.stack([(q @ of_word + v @ of_frame + (v * q) @ of_both) for v in frames[0] for q in said])
    affinity = affinity.reshape(3, 2)
    first, second = affinity.softmax(1), affinity.softmax(0).T
    assert torch.allclose(listening[0, 0, :, :2], first, atol=1e-6) and not listening[..., 2].any()
    assert torch.allclose(looking[0, 0, :2], second, atol=1e-6) and not looking[0, 0, 2].any()
    assert torch.allclose(heard[0], first @ said, atol=1e-6)
    assert torch.allclose(looked[0], first @ second @ frames[0], atol=1e-6)


def test_patches_are_cut_row_by_row() -> None:
    patches = cut(torch.arange(24.0).reshape(1, 1, 4, 6), 2)
    assert patches.shape == (1, 6, 4)
    assert patches[0, 0].tolist() == [0, 1, 6, 7] and patches[0, 1].tolist() == [2, 3, 8, 9]
    assert patches[0, 3].tolist() == [12, 13, 18, 19]


@pytest.mark.parametrize("size", [1, 4])
def test_coverage_begins_at_nothing_whatever_the_size_of_the_encoder(size: int) -> None:
    made = recipe("bahdanau-coverage")
    plan = small.blueprint("bahdanau-coverage")
    network = made.build(replace(plan, config=replace(plan.config, d_encoder=size))).eval()
    ids = small.text(5, 1)[None]
    answer = network(source_ids=ids, source_mask=ids != 0, target_ids=small.text(4, 3)[None])
    assert answer.maps["decoder.cross"].shape == (1, 1, 4, 5)


def test_the_stacked_lstms_of_luong_equal_torchs() -> None:
    """With nothing fed back, the decoder is an LSTM over the target alone; the encoder reads from the source's end."""
    model = small.make("luong-unfed")
    assert isinstance(model, Luong)
    d, ids, target = LUONG.d, small.stack([small.text(5, 1), small.text(3, 2)]), small.text(4, 3)
    encoder, decoder = (nn.LSTM(d, d, LUONG.layers, batch_first=True).double() for _ in range(2))
    for number, (layer, cell) in enumerate(zip(model.encoder.layers, model.decoder.cells, strict=True)):
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            encoder.get_parameter(f"{name}_l{number}").data = layer.get_parameter(f"{name}_l0").data
            decoder.get_parameter(f"{name}_l{number}").data = cell.get_parameter(name).data
    memory = model.encode(source_ids=ids, source_mask=ids != 0)["memory"]
    forced = model(source_ids=ids, source_mask=ids != 0, target_ids=target.expand(2, -1))
    for row, length in enumerate((5, 3)):
        states, (last, _) = encoder(model.source_embedding(ids[row, :length].flip(0)[None]))
        assert torch.allclose(memory[row, :length], states[0].flip(0))
        cells = torch.stack([to_cell(state) for to_cell, state in zip(model.cells, last[:, 0], strict=True)])
        put_in = torch.cat([torch.tensor([LUONG.begin]), target[:-1]])
        tops, _ = decoder(model.target_embedding(put_in)[None], (last, cells[:, None]))
        weights = (tops[0] @ model.attention.score.score.query_map.weight[0] @ states[0].flip(0).T).softmax(-1)
        assert torch.allclose(forced.maps["decoder.cross"][row, 0, :, :length], weights)
        vectors = torch.tanh(model.combine(torch.cat([weights @ states[0].flip(0), tops[0]], -1)))
        assert torch.allclose(forced.outputs["scores"][row], model.scores(vectors))


def test_windows_of_luong_follow_the_output_or_are_predicted() -> None:
    ids, target = small.stack([small.text(7, 1), small.text(4, 2)]), small.text(8, 3).expand(2, -1)
    near = torch.arange(7) - torch.arange(8)[:, None]
    for name in ("luong-local-m", "luong-local-p"):
        weights = small.make(name)(source_ids=ids, source_mask=ids != 0, target_ids=target).maps["decoder.cross"]
        seen = weights[:, 0] > 0
        if name == "luong-local-m":
            assert torch.equal(seen, (near.abs() <= LUONG.radius) & (ids != 0)[:, None])
        else:
            # One window of 2 D + 1 places at most, without a hole, and less than all of the weight.
            places = torch.arange(7)
            widths = (seen * places).amax(-1) - torch.where(seen, places, 7).amin(-1) + 1
            assert torch.equal(widths, seen.sum(-1)) and int(widths.max()) <= 2 * LUONG.radius + 1
            assert (weights.sum(-1) < 1).all() and (weights.sum(-1) > 0).all()


def test_the_end_token_is_apart_from_the_most_tokens_that_are_allowed() -> None:
    model, found = small.make("gpt"), 0
    assert isinstance(model, GeneratingNetwork)
    written = small.card("gpt").written
    assert written is not None
    for seed in range(8):
        ids = small.text(5, seed)[None]
        tensors = {"prompt_ids": ids, "prompt_mask": ids != 0}
        (tokens,) = greedy(model, written, tensors)
        for place in range(2, len(tokens)):
            if tokens[place] not in tokens[:place]:  # so this could be the end
                found += 1
                ending = replace(written, end=tokens[place], max_new_tokens=place)
                assert greedy(model, ending, tensors) == [tokens[: place + 1]]
                assert greedy(model, replace(ending, max_new_tokens=place - 1), tensors) == [tokens[: place - 1]]
    assert found


def test_without_attention_the_decoder_sees_the_two_final_states_and_nothing_else() -> None:
    model = small.make("bahdanau-last")
    assert isinstance(model, RnnSearch)
    ids = small.stack([small.text(5, 1), small.text(3, 2)])
    tensors = {**model.encode(source_ids=ids, source_mask=ids != 0), "source_mask": ids != 0}
    tensors["state"] = tensors["initial_state"]
    _, context, _ = model.attend(torch.zeros(2, BAHDANAU.d_embedding, dtype=torch.float64), tensors)
    half, memory = BAHDANAU.d_encoder, tensors["memory"]
    for row, last in enumerate((4, 2)):
        assert torch.equal(context[row], torch.cat([memory[row, last, :half], memory[row, 0, half:]]))


def test_without_attention_words_and_sentences_are_averaged() -> None:
    ids = small.document([4, 1, 2], 3)[None]
    maps = small.make("han-mean")(token_ids=ids, token_mask=ids != 0).maps
    assert torch.allclose(maps["sentence"], torch.full((1, 1, 1, 3), 1 / 3, dtype=torch.float64))
    assert torch.allclose(maps["word"][0, 0, 2], torch.tensor([0.5, 0.5, 0, 0], dtype=torch.float64))
