"""Recipes against a running server: their figures equal those of whole maps, worked out here with loops."""

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from transformers import EsmForMaskedLM

import limelight
from limelight_export.importing.huggingface.importer import import_checkpoint
from tests.importing.huggingface import test_esm
from tests.importing.huggingface.decoders import DECODERS
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit.serving import serving

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "examples" / "recipes"
MOST_LINES = 60


def recipe(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, RECIPES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[limelight.Client]:
    repository = tmp_path_factory.mktemp("repository")
    checkpoints = tmp_path_factory.mktemp("checkpoints")
    import_checkpoint(DECODERS["llama"].write(checkpoints / "llama", max_position_embeddings=320), repository)
    import_checkpoint(test_esm.write(checkpoints / "esm2", EsmForMaskedLM), repository)
    import_checkpoint(ENCODERS["bert"].write(checkpoints / "bert"), repository)
    shutil.copytree(ROOT / "deploy" / "demo" / "dates", repository / "dates")
    with serving(repository) as running, limelight.Client(running.server.address) as found:
        yield found


def inside(labels: limelight.LabelSet, start: int, end: int) -> list[int]:
    """Tokens that share a character with a part of the text."""
    return [place for place, (first, last) in enumerate(labels.offsets) if first < end and last > start]


def test_recipes_are_short_and_on_the_page() -> None:
    page = (ROOT / "docs" / "recipes.md").read_text()
    files = sorted(RECIPES.glob("*.py"))
    assert len(files) == 7
    for each in files:
        assert len(each.read_text().splitlines()) <= MOST_LINES
        assert f"examples/recipes/{each.name}" in page


def test_the_share_of_an_instruction_is_that_of_the_whole_map(client: limelight.Client) -> None:
    found = recipe("injection").shares(client, "llama", "the cat sat", "on the mat")
    whole = client.attend(
        "llama", {"text": "the cat sat\non the mat"}, maps="prompt.*", generation=limelight.Generation(max_new_tokens=1)
    )
    assert set(found) == {"prompt.0.self", "prompt.1.self"}
    for each in whole.maps:
        places = inside(each.key, 0, len("the cat sat"))
        expected = [sum(float(row[-1, place]) for place in places) for row in each.weights]
        np.testing.assert_allclose(found[each.name], expected, atol=1e-5)


def test_heads_whose_share_falls_under_attack_are_chosen(client: limelight.Client) -> None:
    injection = recipe("injection")
    usual, attacks = ["on the mat", "at the mat"], ["which words a model looks at", "and attention shows which words"]
    heads = injection.important_heads(client, "llama", "the cat sat", usual, attacks, k=0.5)
    assert heads
    for name, several in heads.items():
        shares = [
            [injection.shares(client, "llama", "the cat sat", each)[name] for each in kind] for kind in (usual, attacks)
        ]
        for head in range(4):
            normal, attacked = ([each[head] for each in kind] for kind in shares)
            gap = (np.mean(normal) - 0.5 * np.std(normal)) - (np.mean(attacked) + 0.5 * np.std(attacked))
            assert (gap > 0) == (head in several)
    focused = [injection.focus(client, "llama", "the cat sat", each, heads) for each in (usual[0], attacks[0])]
    assert focused[0] > focused[1]


def test_lookback_ratios_are_those_of_the_whole_map(client: limelight.Client) -> None:
    answer = client.attend(
        "llama", {"text": "the cat sat"}, maps="decoder.*.self", generation=limelight.Generation(max_new_tokens=12)
    )
    found = recipe("lookback").lookback(answer)
    prompt = len(answer.label_sets["input"]) - len(answer.maps[0].query) + 1
    assert found.shape == (len(answer.prediction.sequences[0].token_ids), 2, 4)
    for layer, each in enumerate(answer.maps):
        for head, rows in enumerate(each.weights):
            for step, row in enumerate(rows):
                read, own = row[:prompt].mean(), row[prompt : prompt + step].mean() if step else 0.0
                assert found[step, layer, head] == pytest.approx(read / (read + own), abs=1e-5)
    sentences = recipe("lookback").sentences(answer)
    assert "".join(text for text, _ in sentences).replace(" ", "") in answer.prediction.text.replace(" ", "")
    assert all(ratio.shape == (2, 4) for _, ratio in sentences)


def test_passages_are_ordered_by_attention_and_by_effect(client: limelight.Client) -> None:
    passages = ["the cat sat on the mat", "attention shows which words"]
    found = recipe("citations").cite(client, "llama", "which cat", passages)
    prompt = "\n".join([*passages, "which cat", ""])
    answer = client.attend("llama", {"text": prompt}, maps="decoder.*.self")
    labels = answer.maps[0].key
    assert found
    shares = np.mean([each.weights.mean(0) for each in answer.maps], axis=0)
    first, second = (inside(labels, 0, 22), inside(labels, 23, 50))
    if len(found) == 1:  # one sentence: the mean over all its steps that have text
        steps = answer.maps[0].query
        rows = shares[steps.ends > steps.starts]
        expected = [rows[:, first].sum(-1).mean(), rows[:, second].sum(-1).mean()]
        np.testing.assert_allclose(found[0][1], expected, atol=1e-5)
    assert all(np.isfinite(effect).all() and (effect != 0).all() for _, _, effect in found)


def test_documents_get_the_attention_of_the_query_less_that_of_none(client: limelight.Client) -> None:
    rerank = recipe("rerank")
    documents = ["the cat sat on the mat", "attention shows", "which words a model looks at"]
    found = rerank.attention(client, "llama", "the cat", documents)
    prompt = "Here are some paragraphs:\n"
    spans = []
    for number, document in enumerate(documents):
        prompt += f"[{number + 1}] "
        spans.append((len(prompt), len(prompt) + len(document)))
        prompt += f"{document}\n"
    prompt += "Please find the paragraphs that are relevant to the query.\nQuery: "
    whole = client.attend(
        "llama",
        {"text": f"{prompt}the cat"},
        maps="prompt.*.self",
        generation=limelight.Generation(max_new_tokens=1),
    )
    query = inside(whole.maps[0].query, len(prompt), len(prompt) + len("the cat"))
    for score, span in zip(found, spans, strict=True):
        keys = inside(whole.maps[0].key, *span)
        expected = sum(each.weights[:, query][:, :, keys].sum() for each in whole.maps) / len(query)
        assert score == pytest.approx(float(expected), rel=1e-4)
    ordered = rerank.rerank(client, "llama", "the cat", documents)
    assert sorted(document for _, document in ordered) == sorted(documents)
    assert [score for score, _ in ordered] == sorted((score for score, _ in ordered), reverse=True)


def test_markup_is_carried_over_in_a_translation(client: limelight.Client) -> None:
    assert recipe("markup").translate(client, "dates", "<b>7</b> March <i>2021</i>") == "<i>2021</i>-03-<b>07</b>"


def test_contacts_are_those_of_transformers_at_least_six_apart(
    client: limelight.Client, tmp_path_factory: pytest.TempPathFactory
) -> None:
    protein = "MKTVRQERLKSIV"
    found = recipe("contacts").contacts(client, "esm2", protein, most=5)
    folder = test_esm.write(tmp_path_factory.mktemp("again") / "esm2", EsmForMaskedLM)
    given = test_esm.read(folder, protein)
    with torch.no_grad():
        model = EsmForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval()
        table = model.esm.predict_contacts(given["input_ids"], given["attention_mask"])[0].numpy()
    far = [(table[i, j], i, j) for i in range(len(protein)) for j in range(i + 6, len(protein))]
    assert [each[0] for each in found] == pytest.approx(sorted((each[0] for each in far), reverse=True)[:5], abs=1e-5)
    for probability, (one, letter), (other, partner) in found:
        assert probability == pytest.approx(float(table[one - 1, other - 1]), abs=1e-5)
        assert (letter, partner) == (protein[one - 1], protein[other - 1])


def test_words_are_linked_by_states_and_by_maps(client: limelight.Client) -> None:
    align = recipe("align")
    links = align.by_states(client, "bert", "the cat sat", "the cat sat", -1)
    assert links and all(one == other for one, other in links)  # a text with itself
    assert {one for one, _ in links} == {"the", "cat", "sat"}
    assert ("2021", "2021-03-07") in align.by_maps(client, "dates", "7 March 2021", "2021-03-07")
