"""VisualBERT and LXMERT against transformers', with the same weights: answers and every map."""

from collections.abc import Iterable, Mapping

import pytest
import torch
from torch import Tensor, nn
from transformers import LxmertConfig, LxmertModel, VisualBertConfig, VisualBertModel
from transformers.models.lxmert.modeling_lxmert import LxmertAttention, LxmertVisualAnswerHead

from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.blocks.transformer import AddAndNorm, PostNormLayer
from limelight_models.zoo.co_attention.lxmert import Lxmert
from limelight_models.zoo.co_attention.visualbert import VisualBert
from limelight_models.zoo.co_attention.vqa import last_word
from tests.kit import small

Pair = tuple[nn.Module, nn.Module]  # a part of transformers' model, and ours


def copy(pairs: Iterable[Pair]) -> None:
    """Give theirs our weights."""
    for other, own in pairs:
        other.load_state_dict(own.state_dict())


def attention(theirs: nn.Module, output: nn.Module, ours: MultiHead, norm: AddAndNorm) -> list[Pair]:
    """An attention of BERT's, with what is behind it."""
    pairs: list[Pair] = [(theirs.query, ours.query_map), (theirs.key, ours.key_map), (theirs.value, ours.value_map)]
    return [*pairs, (output.dense, ours.merge), (output.LayerNorm, norm.norm)]


def network(intermediate: nn.Module, output: nn.Module, ours: PostNormLayer) -> list[Pair]:
    """A position-wise network of BERT's, with what is behind it."""
    pairs: list[Pair] = [(intermediate.dense, ours.hidden[0]), (output.dense, ours.hidden[2])]
    return [*pairs, (output.LayerNorm, ours.after_hidden.norm)]


def layer(theirs: nn.Module, ours: PostNormLayer) -> list[Pair]:
    """A layer of BERT's."""
    looking = attention(theirs.attention.self, theirs.attention.output, ours.attention, ours.after_attention)
    return looking + network(theirs.intermediate, theirs.output, ours)


def batch(name: str) -> dict[str, Tensor]:
    """Questions of different lengths about pictures."""
    card = small.card(name)
    rows = [card.preprocessor().row(each.instance) for each in small.data(name).test]
    read = small.batch(card, rows)
    assert not read["question_mask"].all()
    return {each: tensor.double() if tensor.is_floating_point() else tensor for each, tensor in read.items()}


def embed(theirs: nn.Module, ours: VisualBert) -> None:
    """Embeddings: a region's place is in its features, so that all have the same one, of zeros."""
    with torch.no_grad():
        theirs.word_embeddings.weight.copy_(ours.embeddings.words.words.weight)
        theirs.position_embeddings.weight.copy_(ours.embeddings.words.places.weight)
        theirs.token_type_embeddings.weight[0].copy_(ours.embeddings.segments[0])
        theirs.visual_token_type_embeddings.weight[1].copy_(ours.embeddings.segments[1])
        theirs.visual_position_embeddings.weight.zero_()
    copy([(theirs.visual_projection, ours.embeddings.project), (theirs.LayerNorm, ours.embeddings.norm)])


def visualbert(name: str) -> tuple[VisualBert, VisualBertModel, list[nn.Module]]:
    """Our model, transformers' with its weights, and the layers of that: late fusion has an additional one."""
    ours = small.make(name)
    assert isinstance(ours, VisualBert)
    config, late = ours.config, not ours.config.early
    theirs = VisualBertModel(
        VisualBertConfig(
            vocab_size=config.vocabulary, hidden_size=config.d, visual_embedding_dim=config.d,
            num_hidden_layers=config.layers - late, bypass_transformer=late,
            num_attention_heads=config.heads, intermediate_size=config.d_hidden, hidden_act="gelu",
            max_position_embeddings=config.max_tokens, attn_implementation="eager",
        )
    ).double().eval()  # fmt: skip
    embed(theirs.embeddings, ours)
    layers = [*theirs.encoder.layer, *([theirs.additional_layer] if late else [])]
    own = [*ours.alone.values(), *(each.layer for each in ours.joint.values())]
    copy(pair for both in zip(layers, own, strict=True) for pair in layer(*both))
    return ours, theirs, layers


def joint(found: Mapping[str, Tensor], number: int, weights: Tensor, mask: Tensor) -> None:
    """Assert that the four maps of a layer are the parts of its weights; padding asks for nothing."""
    words, asks = mask.shape[1], mask[:, None, :, None]
    torch.testing.assert_close(found[f"words.{number}.self"], weights[:, :, :words, :words] * asks)
    torch.testing.assert_close(found[f"words.{number}.cross"], weights[:, :, :words, words:] * asks)
    torch.testing.assert_close(found[f"regions.{number}.cross"], weights[:, :, words:, :words])
    torch.testing.assert_close(found[f"regions.{number}.self"], weights[:, :, words:, words:])


def test_visualbert_is_that_of_transformers() -> None:
    (ours, theirs, layers), tensors = visualbert("visualbert"), batch("visualbert")
    mask, regions = tensors["question_mask"], ours.regions(tensors["pixels"])
    wanted = theirs(tensors["question_ids"], mask, visual_embeds=regions, output_attentions=True)
    found = ours(**tensors)
    logits = ours.classify(last_word(wanted.last_hidden_state, mask).squeeze(1))
    torch.testing.assert_close(found.outputs["logits"], logits, atol=1e-9, rtol=0)
    assert len(found.maps) == 4 * len(layers)
    for number, weights in enumerate(wanted.attentions):
        joint(found.maps, number, weights, mask)


def test_late_fusion_is_that_of_transformers_layers() -> None:
    """Their `bypass_transformer`, layer by layer: as a whole it takes a mask that 5.23 does not make."""
    (ours, theirs, (first, last)), tensors = visualbert("visualbert-late"), batch("visualbert-late")
    ids, mask, regions = tensors["question_ids"], tensors["question_mask"], ours.regions(tensors["pixels"])
    features, words = theirs.embeddings(ids, visual_embeds=regions), ids.shape[1]
    there = torch.cat([mask, mask.new_ones(regions.shape[:2])], 1)[:, None, None].double()
    hidden = (1 - there) * torch.finfo(torch.float64).min
    read, own = first(features[:, :words], hidden[..., :words], output_attentions=True)
    made, both = last(torch.cat([read, features[:, words:]], 1), hidden, output_attentions=True)
    found = ours(**tensors)
    logits = ours.classify(last_word(made, mask).squeeze(1))
    torch.testing.assert_close(found.outputs["logits"], logits, atol=1e-9, rtol=0)
    torch.testing.assert_close(found.maps["words.0.self"], own * mask[:, None, :, None])
    joint(found.maps, 1, both, mask)


def test_lxmert_is_that_of_transformers() -> None:
    """Theirs, as the authors' code, has one cross-attention for both ways: ours gets the same weights twice."""
    ours, tensors = small.make("lxmert"), batch("lxmert")
    assert isinstance(ours, Lxmert)
    for crossing in ours.crossing:
        crossing.to_words.load_state_dict(crossing.to_regions.state_dict())
        crossing.after_words.load_state_dict(crossing.after_regions.state_dict())
    config, ids, mask = ours.config, tensors["question_ids"], tensors["question_mask"]
    described = LxmertConfig(
        vocab_size=config.vocabulary, hidden_size=config.d, num_attention_heads=config.heads,
        intermediate_size=config.d_hidden, l_layers=config.word_layers, r_layers=config.region_layers,
        x_layers=config.layers, visual_feat_dim=config.d, max_position_embeddings=config.max_tokens,
    )  # fmt: skip
    theirs, head = LxmertModel(described).double().eval(), LxmertVisualAnswerHead(described, config.classes).double()
    copy(lxmert_pairs(theirs, ours))
    copy(zip((head.logit_fc[number] for number in (0, 2, 3)), (*ours.hidden[::2], ours.classify), strict=True))
    with torch.no_grad():
        theirs.embeddings.token_type_embeddings.weight.zero_()
    weights: list[Tensor] = []
    for each in theirs.modules():
        if isinstance(each, LxmertAttention):  # what goes through its dropout, called once or twice
            each.dropout.register_forward_hook(lambda _, given, made: weights.append(made))
    boxes = ours.placed.boxes.expand(len(ids), -1, -1)
    wanted = theirs(ids, ours.regions(tensors["pixels"]), boxes, attention_mask=mask)
    found = ours(**tensors)
    logits = head(theirs.pooler.activation(theirs.pooler.dense(last_word(wanted.language_output, mask).squeeze(1))))
    torch.testing.assert_close(found.outputs["logits"], logits, atol=1e-9, rtol=0)
    assert len(found.maps) == len(weights)
    for (name, own), other in zip(found.maps.items(), weights, strict=True):
        of_words = name.startswith(("text", "words"))
        torch.testing.assert_close(own, other * mask[:, None, :, None] if of_words else other)


def lxmert_pairs(theirs: LxmertModel, ours: Lxmert) -> list[Pair]:
    """All parts of LXMERT that have weights."""
    embeddings, encoder = theirs.embeddings, theirs.encoder
    pairs: list[Pair] = [
        (embeddings.word_embeddings, ours.words.words),
        (embeddings.position_embeddings, ours.words.places),
        (embeddings.LayerNorm, ours.norm),
        (encoder.visn_fc.visn_fc, ours.placed.feature),
        (encoder.visn_fc.visn_layer_norm, ours.placed.feature_norm),
        (encoder.visn_fc.box_fc, ours.placed.box),
        (encoder.visn_fc.box_layer_norm, ours.placed.box_norm),
        (theirs.pooler.dense, ours.pool),
    ]
    for stack, own in ((encoder.layer, ours.text), (encoder.r_layers, ours.picture)):
        pairs += [pair for each in zip(stack, own, strict=True) for pair in layer(*each)]
    for other, own in zip(encoder.x_layers, ours.crossing, strict=True):
        shared, words, regions = other.visual_attention, own.over_words, own.over_regions
        pairs += attention(shared.att, shared.output, own.to_regions, own.after_regions)
        for itself, over in ((other.lang_self_att, words), (other.visn_self_att, regions)):
            pairs += attention(itself.self, itself.output, over.attention, over.after_attention)
        pairs += network(other.lang_inter, other.lang_output, words)
        pairs += network(other.visn_inter, other.visn_output, regions)
    return pairs


def test_a_regions_box_is_where_its_cell_is() -> None:
    model = small.make("lxmert")
    assert isinstance(model, Lxmert)
    rows, columns = model.regions.cells.grid
    boxes = model.placed.boxes.unflatten(0, (rows, columns))
    assert boxes[0, 0].tolist() == pytest.approx([0, 0, 1 / columns, 1 / rows])
    assert boxes[1, 2].tolist() == pytest.approx([2 / columns, 1 / rows, 3 / columns, 2 / rows])
