"""Interventions on imported checkpoints: the same change in transformers' own attention gives the same answer."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

import limelight
from limelight_export.importing.huggingface.importer import import_checkpoint
from tests.importing.huggingface.decoders import DECODERS
from tests.importing.huggingface.encoder_decoders import ENCODER_DECODERS
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit.serving import serving

STEPS = 4
TEXT = "the cat sat"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkpoint of each kind: its attention by the marker, by a cache with grouped queries, by a memory."""
    root = tmp_path_factory.mktemp("checkpoints")
    written = {"bert": ENCODERS["bert"], "llama": DECODERS["llama"], "bart": ENCODER_DECODERS["bart"]}
    return {name: each.write(root / name) for name, each in written.items()}


@pytest.fixture(scope="module")
def client(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[limelight.Client]:
    repository = tmp_path_factory.mktemp("repository")
    for folder in folders.values():
        import_checkpoint(folder, repository, interventions=True)
    with serving(repository) as running, limelight.Client(running.server.address) as found:
        yield found


Change = Callable[[Any, Tensor], Tensor | None]


@contextmanager
def changed(model: Any, change: Change) -> Iterator[None]:
    """Change weights [batch, head, query, key] of eager attention, by the module; None leaves them."""
    module = sys.modules[type(model).__module__]
    original = module.eager_attention_forward

    def attend(attention: Any, query: Tensor, key: Tensor, value: Tensor, *args: Any, **options: Any) -> Any:
        output, weights = original(attention, query, key, value, *args, **options)
        new = change(attention, weights)
        if new is None:
            return output, weights
        repeated = value.repeat_interleave(query.shape[1] // value.shape[1], dim=1)
        return (new @ repeated).transpose(1, 2).contiguous(), new

    module.eager_attention_forward = attend
    try:
        yield
    finally:
        module.eager_attention_forward = original


def multiplied(weights: Tensor, keys: list[int], factor: float, queries: slice = slice(None)) -> Tensor:
    factors = torch.ones(weights.shape[-1])
    factors[keys] = factor
    scaled = weights * factors
    left = scaled.sum(-1, keepdim=True)
    new = torch.where(left > 1e-30, scaled / left.clamp(min=1e-30), weights)
    made = weights.clone()
    made[:, :, queries] = new[:, :, queries]
    return made


def read(model: Any, folder: Path) -> Any:
    return getattr(transformers, model).from_pretrained(folder, attn_implementation="eager").eval()


@pytest.mark.parametrize("factor", [0.0, 3.0])
def test_an_encoder_looks_away_from_a_part_of_its_text(
    client: limelight.Client, folders: dict[str, Path], factor: float
) -> None:
    library = read("BertForSequenceClassification", folders["bert"])
    maps = [each.name for each in client.model("bert").maps]
    asked = [limelight.scale_keys(name, limelight.TextSpan(4, 7), factor) for name in maps]
    answer = client.attend("bert", {"text": TEXT}, interventions=asked, outputs=["logits"])
    tokens = answer[maps[0]].key
    keys = [place for place in range(len(tokens)) if tokens.starts[place] < 7 and tokens.ends[place] > 4]
    ids = torch.tensor([tokens.ids.tolist()])
    with changed(library, lambda _, weights: multiplied(weights, keys, factor)), torch.no_grad():
        wanted = library(ids, output_attentions=True)
    np.testing.assert_allclose(answer.prediction.outputs["logits"], wanted.logits[0], atol=1e-5)
    for name, weights in zip(maps, wanted.attentions, strict=True):
        np.testing.assert_allclose(answer[name].weights, weights[0], atol=1e-5)
    usual = client.predict("bert", {"text": TEXT}, outputs=["logits"])
    assert np.abs(usual.outputs["logits"] - answer.prediction.outputs["logits"]).max() > 1e-4


def test_a_decoder_looks_away_at_each_step_that_writes(client: limelight.Client, folders: dict[str, Path]) -> None:
    library = read("LlamaForCausalLM", folders["llama"])
    asked = [
        limelight.scale_keys("decoder.0.self", [0, 2], 0.25),
        limelight.replace("decoder.1.self", "uniform", heads=1),
        limelight.scale_heads("decoder.1.self", {0: 0.5}),
    ]
    generation = limelight.Generation(max_new_tokens=STEPS)
    answer = client.attend("llama", {"text": TEXT}, interventions=asked, generation=generation)
    prompt, output = answer.label_sets["prompt"].ids.tolist(), list(answer.prediction.sequences[0].token_ids)
    last = len(prompt) - 1  # of the prompt, which the first step reads

    def change(attention: Any, weights: Tensor) -> Tensor:
        if attention.layer_idx == 0:
            return multiplied(weights, [0, 2], 0.25, slice(last, None))
        made = weights.clone()
        seen = torch.ones_like(weights[0, 0]).tril()
        made[:, 1, last:] = (seen / seen.sum(-1, keepdim=True))[last:]
        return made

    def scale(_: Any, arguments: tuple[Tensor]) -> tuple[Tensor]:
        scaled = arguments[0].clone()
        scaled[:, last:, : scaled.shape[-1] // library.config.num_attention_heads] *= 0.5
        return (scaled,)

    hook = library.model.layers[1].self_attn.o_proj.register_forward_pre_hook(scale)
    ids = torch.tensor([prompt + output[:-1]])
    with changed(library, change), torch.no_grad():
        wanted = library(ids, output_attentions=True, use_cache=False)
    hook.remove()
    assert wanted.logits[0, last:].argmax(-1).tolist() == output
    for layer, weights in enumerate(wanted.attentions):
        np.testing.assert_allclose(answer[f"decoder.{layer}.self"].weights, weights[0, :, last:], atol=1e-5)


def test_an_encoder_and_its_decoder_look_away_from_a_word(client: limelight.Client, folders: dict[str, Path]) -> None:
    library = read("BartForConditionalGeneration", folders["bart"])
    names = [f"{part}.{layer}.{kind}" for part, kind in (("encoder", "self"), ("decoder", "cross")) for layer in (0, 1)]
    asked = [limelight.scale_keys(name, limelight.TextSpan(4, 7)) for name in names]
    generation = limelight.Generation(max_new_tokens=STEPS)
    answer = client.attend("bart", {"text": TEXT}, interventions=asked, generation=generation)
    source, output = answer[names[0]].key, list(answer.prediction.sequences[0].token_ids)
    keys = [place for place in range(len(source)) if source.starts[place] < 7 and source.ends[place] > 4]
    ids, begun = torch.tensor([source.ids.tolist()]), [library.config.decoder_start_token_id, *output[:-1]]

    def change(attention: Any, weights: Tensor) -> Tensor | None:
        return None if attention.is_causal else multiplied(weights, keys, 0)

    with changed(library, change), torch.no_grad():
        wanted = library(ids, decoder_input_ids=torch.tensor([begun]), output_attentions=True, use_cache=False)
    assert wanted.logits[0].argmax(-1).tolist() == output
    for layer in range(2):
        of_source, of_output = answer[f"encoder.{layer}.self"], answer[f"decoder.{layer}.cross"]
        np.testing.assert_allclose(of_source.weights, wanted.encoder_attentions[layer][0], atol=1e-5)
        np.testing.assert_allclose(of_output.weights, wanted.cross_attentions[layer][0], atol=1e-5)
        assert not of_output.weights[..., keys].any()
