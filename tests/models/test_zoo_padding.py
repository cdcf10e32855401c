"""The same input gives the same answer alone, in a batch and padded: outputs and weights."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.network import Answer
from tests.models import small

lengths = st.integers(1, 7)
documents = st.lists(st.lists(lengths, min_size=1, max_size=4), min_size=1, max_size=4)
quick = settings(max_examples=25, deadline=None)


@quick
@pytest.mark.parametrize("name", ["han", "han-mean"])
@given(shapes=documents, extra=st.integers(0, 3))
def test_a_document_is_answered_the_same_in_any_company(name: str, shapes: list[list[int]], extra: int) -> None:
    model = small.make(name)
    ids = [small.document(shape, seed) for seed, shape in enumerate(shapes)]
    stacked = small.stack(ids, extra)
    batched = model(token_ids=stacked, token_mask=stacked != 0)
    for row, each in enumerate(ids):
        small.same(model(token_ids=each[None], token_mask=each[None] != 0), batched, row)
    sums = batched.maps["word"].sum(-1)
    assert torch.allclose(sums[:, 0], (stacked != 0).any(-1).double(), atol=1e-12)
    assert torch.allclose(batched.maps["sentence"].sum(-1), torch.ones(len(ids), 1, 1).double(), atol=1e-12)


@quick
@pytest.mark.parametrize(
    "name", ["bahdanau", "bahdanau-last", "luong", "luong-concat", "luong-location", "luong-local-m", "luong-local-p"]
)
@given(sources=st.lists(lengths, min_size=1, max_size=4), target=lengths, extra=st.integers(0, 3))
def test_a_text_is_answered_the_same_in_any_company(name: str, sources: list[int], target: int, extra: int) -> None:
    model = small.make(name)
    ids = [small.text(length, seed) for seed, length in enumerate(sources)]
    targets = torch.stack([small.text(target, seed) for seed in range(len(sources))])
    stacked = small.stack(ids, extra)
    batched = model(source_ids=stacked, source_mask=stacked != 0, target_ids=targets)
    for row, each in enumerate(ids):
        alone = model(source_ids=each[None], source_mask=each[None] != 0, target_ids=targets[row : row + 1])
        small.same(alone, batched, row)
    if "local" not in name:  # a window may hold nothing, and a bell's weights sum to less
        assert torch.allclose(batched.maps["decoder.cross"].sum(3), torch.ones(()).double(), atol=1e-12)


@quick
@pytest.mark.parametrize("name", ["mme", "mme-words", "mme-characters"])
@given(shapes=documents, extra=st.integers(0, 3))
def test_words_are_tagged_the_same_in_any_company(name: str, shapes: list[list[int]], extra: int) -> None:
    model = small.make(name)
    ids = [small.document(shape, seed) for seed, shape in enumerate(shapes)]
    stacked = small.stack(ids, extra)
    batched = model(token_ids=stacked, token_mask=stacked != 0)
    for row, each in enumerate(ids):
        alone = model(token_ids=each[None], token_mask=each[None] != 0)
        logits = batched.outputs["logits"][row : row + 1, : each.shape[0]]
        assert torch.allclose(alone.outputs["logits"], logits, atol=1e-12)
        small.same(Answer({}, alone.maps), batched, row)
    for weights in batched.maps.values():
        real = (stacked != 0).any(-1).double()[:, None]
        assert torch.allclose(weights.sum(3), real.expand(weights.shape[:3]), atol=1e-12)


@quick
@given(prompts=st.lists(lengths, min_size=1, max_size=4), target=lengths, extra=st.integers(0, 2))
def test_a_prompt_is_continued_the_same_in_any_company(prompts: list[int], target: int, extra: int) -> None:
    model = small.make("gpt")
    ids = [small.text(length, seed) for seed, length in enumerate(prompts)]
    targets = torch.stack([small.text(target, seed) for seed in range(len(prompts))])
    stacked = small.stack(ids, extra)
    batched = model(prompt_ids=stacked, prompt_mask=stacked != 0, target_ids=targets)
    for row, each in enumerate(ids):
        alone = model(prompt_ids=each[None], prompt_mask=each[None] != 0, target_ids=targets[row : row + 1])
        small.same(alone, batched, row)
    for weights in batched.maps.values():
        assert torch.allclose(weights.sum(3), torch.ones(()).double(), atol=1e-12)


@quick
@pytest.mark.parametrize("name", ["rnn-capsule", "rnn-capsule-uniform", "dme", "dme-contextualised"])
@given(sizes=st.lists(lengths, min_size=1, max_size=4), extra=st.integers(0, 3))
def test_a_sentence_is_classified_the_same_in_any_company(name: str, sizes: list[int], extra: int) -> None:
    model = small.make(name)
    ids = [small.text(length, seed) for seed, length in enumerate(sizes)]
    stacked = small.stack(ids, extra)
    batched = model(token_ids=stacked, token_mask=stacked != 0)
    for row, each in enumerate(ids):
        small.same(model(token_ids=each[None], token_mask=each[None] != 0), batched, row)
    for weights in batched.maps.values():
        asked = torch.ones(()) if name.startswith("rnn") else (stacked != 0)[:, None]  # padding asks for nothing
        assert torch.allclose(weights.sum(3), asked.double().expand(weights.shape[:3]), atol=1e-12)


@quick
@pytest.mark.parametrize("name", ["disan", "disan-bilstm"])
@given(sizes=st.lists(st.tuples(lengths, lengths), min_size=1, max_size=4), extra=st.integers(0, 3))
def test_a_pair_is_compared_the_same_in_any_company(name: str, sizes: list[tuple[int, int]], extra: int) -> None:
    model = small.make(name)
    first, second = ([small.text(size[side], 2 * seed + side) for seed, size in enumerate(sizes)] for side in range(2))
    both = small.stack(first, extra), small.stack(second, extra)
    batched = model(first_ids=both[0], first_mask=both[0] != 0, second_ids=both[1], second_mask=both[1] != 0)
    for row, (one, other) in enumerate(zip(first, second, strict=True)):
        tensors = {"first_ids": one[None], "second_ids": other[None]}
        masks = {name.replace("ids", "mask"): ids != 0 for name, ids in tensors.items()}
        small.same(model(**tensors, **masks), batched, row)


def test_the_directions_of_disan_look_back_and_ahead_and_never_at_the_token_itself() -> None:
    ids = small.text(4, 1)[None]
    maps = small.make("disan")(first_ids=ids, first_mask=ids != 0, second_ids=ids, second_mask=ids != 0).maps
    before, after = (maps[f"first.{name}"][0, 0].sum(-1) > 0 for name in ("forward", "backward"))
    assert torch.equal(before, torch.ones(4, 4).tril(-1).bool())
    assert torch.equal(after, torch.ones(4, 4).triu(1).bool())
    sums = maps["first.source"][0, 0, 0].sum(0)
    assert torch.allclose(sums, torch.ones_like(sums))


@quick
@pytest.mark.parametrize(("name", "shapes"), [("vit", {(2, 7, 7)}), ("cct", {(1, 1, 6), (2, 6, 6)})])
@given(count=st.integers(1, 5))
def test_an_image_is_answered_the_same_in_any_company(name: str, shapes: set[tuple[int, int, int]], count: int) -> None:
    model = small.make(name)
    pixels = torch.randn(count, 1, 4, 6, generator=torch.Generator().manual_seed(count), dtype=torch.float64)
    batched = model(pixels=pixels)
    for row in range(count):
        small.same(model(pixels=pixels[row : row + 1]), batched, row)
    assert {tuple(weights.shape[1:]) for weights in batched.maps.values()} == shapes
    for map_name, weights in batched.maps.items():
        if ":" not in map_name:
            assert torch.allclose(weights.sum(-1), torch.ones(()).double(), atol=1e-12)


@pytest.mark.parametrize("name", ["han", "bahdanau"])
def test_without_the_mask_padding_changes_the_answer(name: str) -> None:
    """The sabotage that the tests above must notice."""
    model = small.make(name)
    if name == "han":
        ids = small.document([3, 2], 1)[None]
        padded = small.stack([ids[0]], 2)
        alone = model(token_ids=ids, token_mask=ids != 0)
        unmasked = model(token_ids=padded, token_mask=torch.ones_like(padded, dtype=torch.bool))
    else:
        ids, target = small.text(4, 1)[None], small.text(3, 2)[None]
        padded = small.stack([ids[0]], 2)
        alone = model(source_ids=ids, source_mask=ids != 0, target_ids=target)
        everything = torch.ones_like(padded, dtype=torch.bool)
        unmasked = model(source_ids=padded, source_mask=everything, target_ids=target)
    with pytest.raises(AssertionError):
        small.same(alone, unmasked, 0)


def test_a_sentence_of_padding_is_zeros_and_no_nan() -> None:
    model = small.make("han")
    ids = torch.zeros(1, 2, 3, dtype=torch.int64)
    ids[0, 0] = 5
    answer = model(token_ids=ids, token_mask=ids != 0)
    assert torch.isfinite(answer.outputs["logits"]).all()
    assert not answer.maps["word"][0, 0, 1].any() and answer.maps["sentence"][0, 0, 0].tolist() == [1.0, 0.0]
