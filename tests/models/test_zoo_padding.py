"""The same input gives the same answer alone, in a batch and padded: outputs and weights."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cards.parts import PARTS
from models.network import Answer
from models.zoo.disan.disan import SIDES
from tests.models import small

lengths = st.integers(1, 7)
documents = st.lists(st.lists(lengths, min_size=1, max_size=4), min_size=1, max_size=4)
quick = settings(max_examples=25, deadline=None)


@quick
@pytest.mark.parametrize("name", ["han", "han-mean", "hatn", "hatn-pnet"])
@given(shapes=documents, extra=st.integers(0, 3))
def test_a_document_is_answered_the_same_in_any_company(name: str, shapes: list[list[int]], extra: int) -> None:
    model = small.make(name)
    ids = [small.document(shape, seed) for seed, shape in enumerate(shapes)]
    stacked = small.stack(ids, extra)
    batched = model(token_ids=stacked, token_mask=stacked != 0)
    for row, each in enumerate(ids):
        small.same(model(token_ids=each[None], token_mask=each[None] != 0), batched, row)
    for name_, weights in batched.maps.items():
        wanted = (stacked != 0).any(-1) if name_.endswith("word") else torch.ones(len(ids), 1)
        assert torch.allclose(weights.sum(-1)[:, 0], wanted.double(), atol=1e-12)


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
@pytest.mark.parametrize("name", ["disan", "disan-bilstm", "rban", "rban-uniform", "rban-soft"])
@given(sizes=st.lists(st.tuples(lengths, lengths), min_size=1, max_size=4), extra=st.integers(0, 3))
def test_a_pair_is_compared_the_same_in_any_company(name: str, sizes: list[tuple[int, int]], extra: int) -> None:
    model = small.make(name)
    first, second = ([small.text(size[side], 2 * seed + side) for seed, size in enumerate(sizes)] for side in range(2))
    both = small.stack(first, extra), small.stack(second, extra)
    batched = model(**with_masks(dict(zip(SIDES, both, strict=True))))
    for row, pair in enumerate(zip(first, second, strict=True)):
        small.same(model(**with_masks({side: ids[None] for side, ids in zip(SIDES, pair, strict=True)})), batched, row)


@quick
@pytest.mark.parametrize("name", ["lcr-rot-hop", "lcr-rot-hop-one", "lcr-rot-hop-uniform"])
@given(sizes=st.lists(st.tuples(lengths, lengths, lengths), min_size=1, max_size=4), extra=st.integers(0, 3))
def test_a_target_is_judged_the_same_in_any_company(name: str, sizes: list[tuple[int, ...]], extra: int) -> None:
    model = small.make(name)
    ids = {part: [small.text(size[n], 3 * seed + n) for seed, size in enumerate(sizes)] for n, part in enumerate(PARTS)}
    batched = model(**with_masks({part: small.stack(each, extra) for part, each in ids.items()}))
    for row in range(len(sizes)):
        small.same(model(**with_masks({part: each[row][None] for part, each in ids.items()})), batched, row)
    for weights in batched.maps.values():
        assert torch.allclose(weights.sum(-1), torch.ones(()).double(), atol=1e-12)


def with_masks(ids: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors of the parts of an input, by the names of the card; draws come out as they most likely do."""
    masks = {f"{part}_mask": each != 0 for part, each in ids.items()}
    noise = {f"{part}_noise": torch.full(each.shape, 0.5) for part, each in ids.items()}
    return {f"{part}_ids": each for part, each in ids.items()} | masks | noise


def test_what_keeping_words_is_compared_with_keeps_them_all_alike() -> None:
    tensors = with_masks({side: small.text(4, seed)[None] for seed, side in enumerate(SIDES)})
    maps = small.make("rban-uniform")(**tensors | {"second_noise": torch.full((1, 4), 0.999)}).maps
    for name in ("question", "answer"):
        assert torch.allclose(maps[name], torch.full((1, 1, 1, 4), 0.25, dtype=torch.float64))


def test_words_that_a_sampler_does_not_keep_have_no_weight() -> None:
    model = small.make("rban")
    tensors = with_masks({side: small.text(4, seed)[None] for seed, side in enumerate(SIDES)})
    every, none, some = torch.zeros(1, 4), torch.ones(1, 4), torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    for noise, kept in ((every, 4), (some, 2), (none, 0)):
        answer = model(**tensors | {"second_noise": noise, "first_noise": every})
        weights = answer.maps["answer"][0, 0, 0]
        assert torch.equal(weights > 0, noise[0] == 0) and torch.isfinite(answer.outputs["logits"]).all()
        assert float(weights.sum()) == pytest.approx(float(kept > 0))
        assert not answer.maps["affinity"][0, 0][:, noise[0] == 1].any()
        assert float(answer.maps["question"].sum()) == pytest.approx(1)


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


@quick
@pytest.mark.parametrize(
    "name", ["hiecoatt", "hiecoatt-alternating", "hiecoatt-question", "mcan", "mcan-stacked", "psac", "psac-uniform"]
)
@given(sizes=st.lists(lengths, min_size=1, max_size=4), extra=st.integers(0, 3))
def test_a_question_is_answered_the_same_in_any_company(name: str, sizes: list[int], extra: int) -> None:
    model = small.make(name)
    ids = [small.text(length, seed) for seed, length in enumerate(sizes)]
    small_one = small.PSAC if name.startswith("psac") else small.MCAN
    size = small_one.rows, small_one.columns
    pixels = torch.randn(len(ids), 1, *size, generator=torch.Generator().manual_seed(extra), dtype=torch.float64)
    stacked = small.stack(ids, extra)
    batched = model(pixels=pixels, question_ids=stacked, question_mask=stacked != 0)
    for row, each in enumerate(ids):
        one = {"pixels": pixels[row : row + 1], "question_ids": each[None], "question_mask": each[None] != 0}
        small.same(model(**one), batched, row)


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
