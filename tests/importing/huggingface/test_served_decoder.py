"""An imported decoder as a client reads it: texts, and maps of prompts and of output tokens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

import limelight
from export.importing.huggingface.importer import import_checkpoint
from limelight import Attention, Generation
from tests.importing.huggingface.checkpoints import write_json
from tests.importing.huggingface.decoders import BEGIN, DECODERS, END, TEXT
from tests.service.serving import serving

PROMPTS = ("a", "the cat", TEXT)
STEPS = 9


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A checkpoint with grouped queries and a layer with a window, and the model by transformers alone.

    The third token that it puts out after "the cat" ends a text.
    """
    folder = DECODERS["qwen2"].write(tmp_path_factory.mktemp("checkpoint") / "small")
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode("the cat").ids
    third = model.generate(torch.tensor([ids]), max_new_tokens=3, do_sample=False)[0, -1]
    write_json(folder / "generation_config.json", {"eos_token_id": [END, int(third)]})
    return folder, model


@pytest.fixture(scope="module")
def client(library: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[limelight.Client]:
    repository = tmp_path_factory.mktemp("repository")
    import_checkpoint(library[0], repository)
    with serving(repository) as running, limelight.Client(running.server.address) as found:
        yield found


def expected(library: Any, prompt: list[int], output: list[int]) -> tuple[torch.Tensor, list[np.ndarray]]:
    with torch.no_grad():
        answer = library(torch.tensor([prompt + output]), output_attentions=True, use_cache=False)
    return answer.logits[0], [each[0].numpy() for each in answer.attentions]


def test_texts_and_maps_equal_transformers_alone_and_together(client: limelight.Client, library: Any) -> None:
    generation = Generation(max_new_tokens=STEPS)
    together = client.attend("small", [{"text": each} for each in PROMPTS], generation=generation)
    for prompt, answer in zip(PROMPTS, together, strict=True):
        alone = client.attend("small", {"text": prompt}, generation=generation)
        ids = answer.label_sets["prompt"].ids.tolist()
        output = list(answer.prediction.sequences[0].token_ids)
        assert ids[0] == BEGIN and output == list(alone.prediction.sequences[0].token_ids)
        scores, maps = expected(library[1], ids, output)
        assert scores[len(ids) - 1 : -1].argmax(-1).tolist() == output
        assert len(answer.maps) == 2 * len(maps)
        for layer, weights in enumerate(maps):
            of_prompt, of_output = answer[f"prompt.{layer}.self"], answer[f"decoder.{layer}.self"]
            last = len(ids) - 1
            np.testing.assert_allclose(of_prompt.weights, weights[:, : len(ids), : len(ids)], atol=1e-5)
            np.testing.assert_allclose(of_output.weights, weights[:, last:-1, :-1], atol=1e-5)
            np.testing.assert_allclose(of_prompt.weights, alone[f"prompt.{layer}.self"].weights, atol=1e-5)
        assert answer["decoder.0.self"].key.ids.tolist() == ids + output[:-1]


def test_each_token_that_ends_a_text_ends_it(client: limelight.Client) -> None:
    (sequence,) = client.predict("small", {"text": "the cat"}, generation=Generation(max_new_tokens=STEPS)).sequences
    assert (len(sequence.token_ids), sequence.finish_reason) == (3, "end")


def test_tokens_of_a_stream_have_their_maps_and_its_end_has_those_of_the_prompt(client: limelight.Client) -> None:
    whole = client.attend("small", {"text": TEXT}, generation=Generation(max_new_tokens=4))
    *_, end = events = list(client.generate("small", {"text": TEXT}, max_new_tokens=4, attention=Attention()))
    tokens = [each for each in events if isinstance(each, limelight.GeneratedToken)]
    assert [each.id for each in tokens] == list(whole.prediction.sequences[0].token_ids)
    for step, each in enumerate(tokens):
        found = next(one for one in each.maps if one.name == "decoder.1.self").weights
        wanted = whole["decoder.1.self"].weights[:, step : step + 1, : found.shape[2]]
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert isinstance(end, limelight.GenerationEnd)
    of_prompt = {each.name: each.weights for each in end.maps}
    assert set(of_prompt) == {"prompt.0.self", "prompt.1.self"}
    np.testing.assert_allclose(of_prompt["prompt.0.self"], whole["prompt.0.self"].weights, atol=1e-5)


def test_beams_and_selected_heads_of_a_prompt(client: limelight.Client) -> None:
    beams = Generation(strategy="beam", beams=3, max_new_tokens=4)
    answer = client.attend("small", {"text": TEXT}, maps="prompt.*", heads=[1], queries=[-1], generation=beams)
    whole = client.attend("small", {"text": TEXT}, generation=Generation(max_new_tokens=1))
    assert answer["prompt.1.self"].weights.shape[:2] == (1, 1)
    np.testing.assert_allclose(answer["prompt.1.self"].weights[0, 0], whole["prompt.1.self"].weights[1, -1], atol=1e-5)


def test_a_prompt_without_text_is_refused_and_the_next_is_answered(client: limelight.Client) -> None:
    with pytest.raises(limelight.InvalidArgument, match="is empty"):
        client.predict("small", {"text": ""})
    assert client.predict("small", {"text": "the"}, generation=Generation(max_new_tokens=1)).sequences
