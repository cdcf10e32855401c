"""Interventions on imported checkpoints: the same changes in transformers' own attention give the same answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image as Pillow
from torch import Tensor
from torch.nn.functional import normalize

import limelight
from limelight.base.values import to_instance
from limelight.interventions import with_interventions
from limelight_bundle.values import Array
from limelight_export.importing.huggingface.importer import import_checkpoint
from limelight_export.importing.huggingface.tasks.task import ImportOptions
from limelight_models.cards.results import NEVER
from tests.importing.huggingface import test_clip, test_detr, test_speech, test_vision
from tests.importing.huggingface.decoders import DECODERS
from tests.importing.huggingface.encoder_decoders import ENCODER_DECODERS
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit.serving import serving

STEPS = 4
HIDDEN = -1e30  # the score of a key that a query does not see
TEXTS = ("the cat sat", "a dog", "where did the cat sat on a mat")
PICTURES = tuple(test_vision.picture(*size) for size in ((32, 32), (70, 45), (33, 97)))
RECORDINGS = tuple(test_speech.RECORDINGS.values())
# Outputs by name that transformers computes for a row, from the model, its folder, what is put in, and the answer.
Run = Callable[[Any, Path, Any, limelight.Attended], Mapping[str, Tensor]]


@dataclass(frozen=True)
class Architecture:
    """A checkpoint, the class of transformers that it is loaded by, inputs, and how transformers runs them."""

    write: Callable[[Path], Path]
    library: str
    run: Run
    inputs: Sequence[Any] = TEXTS
    options: Mapping[str, Any] = field(default_factory=dict)

    def instance(self, given: Any) -> Mapping[str, Any]:
        """What a client sends."""
        if self.inputs is TEXTS:
            return {"text": given}
        if self.inputs is PICTURES:
            return {"image": limelight.Image(given)}
        return {"audio": limelight.Audio(given, test_speech.RATE)}


def run_text(model: Any, folder: Path, text: str, answer: limelight.Attended) -> Mapping[str, Tensor]:
    return {"logits": model(torch.tensor([answer.maps[0].key.ids.tolist()])).logits}


def run_decoder(model: Any, folder: Path, text: str, answer: limelight.Attended) -> Mapping[str, Tensor]:
    prompt, output = answer.label_sets["prompt"].ids.tolist(), answer.prediction.sequences[0].token_ids
    scores = model(torch.tensor([[*prompt, *output[:-1]]]), use_cache=False).logits
    return {"scores": scores[:, len(prompt) - 1 :]}


def run_encoder_decoder(model: Any, folder: Path, text: str, answer: limelight.Attended) -> Mapping[str, Tensor]:
    begun = [model.config.decoder_start_token_id, *answer.prediction.sequences[0].token_ids[:-1]]
    source = torch.tensor([answer["encoder.0.self"].key.ids.tolist()])
    return {"scores": model(source, decoder_input_ids=torch.tensor([begun]), use_cache=False).logits}


def run_pictures(model: Any, folder: Path, data: bytes, answer: limelight.Attended) -> Mapping[str, Tensor]:
    return {"logits": model(test_vision.pixels_of(folder, data)).logits}


def run_clip_text(model: Any, folder: Path, text: str, answer: limelight.Attended) -> Mapping[str, Tensor]:
    return {"vector": normalize(model(test_clip.ids(folder, text)).text_embeds, dim=-1)}


def run_clip_picture(model: Any, folder: Path, data: bytes, answer: limelight.Attended) -> Mapping[str, Tensor]:
    return {"vector": normalize(model(test_clip.pixels(data)).image_embeds, dim=-1)}


def run_detr(model: Any, folder: Path, data: bytes, answer: limelight.Attended) -> Mapping[str, Tensor]:
    found = model(**test_detr.processor()(Pillow.open(BytesIO(data)), return_tensors="pt"))
    return {"logits": found.logits, "boxes": found.pred_boxes}


def run_speech(model: Any, folder: Path, samples: Array, answer: limelight.Attended) -> Mapping[str, Tensor]:
    begun = torch.tensor([[test_speech.START, *answer.prediction.sequences[0].token_ids[:-1]]])
    return {"scores": model(test_speech.features(samples), decoder_input_ids=begun, use_cache=False).logits}


def _text(name: str) -> Architecture:
    write = partial(ENCODERS[name].write, initializer_range=0.2)  # sharper weights differ by more than 1e-5 by rounding
    return Architecture(write, "AutoModelForSequenceClassification", run_text)


def _decoder(name: str) -> Architecture:
    return Architecture(DECODERS[name].write, "AutoModelForCausalLM", run_decoder)


def _encoder_decoder(name: str) -> Architecture:
    return Architecture(ENCODER_DECODERS[name].write, "AutoModelForSeq2SeqLM", run_encoder_decoder)


def _vision(kind: str) -> Architecture:
    write = partial(test_vision.write, kind=kind)
    return Architecture(write, "AutoModelForImageClassification", run_pictures, PICTURES)


def _clip(kind: str, library: str, run: Run, inputs: Sequence[Any]) -> Architecture:
    options = {"task": f"{kind}-embedding", "options": ImportOptions(name=f"clip-{kind}")}
    return Architecture(test_clip.write, library, run, inputs, options)


ARCHITECTURES = {
    "bert": _text("bert"),
    "mpnet": _text("mpnet"),  # relative positions, of a function of its own
    "roformer": _text("roformer"),  # another forward function, rotary positions
    "squeezebert": _text("squeezebert"),  # the same, features before tokens
    "modernbert-mean": _text("modernbert-mean"),  # a window
    "gpt2": _decoder("gpt2"),
    "llama": _decoder("llama"),  # grouped queries, rotary positions
    "gemma2": _decoder("gemma2"),  # a window, and soft caps
    "bloom": _decoder("bloom"),  # biases, of a function of its own
    "bart": _encoder_decoder("bart"),
    "vit": _vision("ViT"),
    "deit": _vision("DeiT"),
    "beit": _vision("Beit"),  # a bias in the place of a mask
    "clip-text": _clip("text", "CLIPTextModelWithProjection", run_clip_text, TEXTS),
    "clip-image": _clip("image", "CLIPVisionModelWithProjection", run_clip_picture, PICTURES),
    "detr": Architecture(test_detr.write, test_detr.LIBRARY, run_detr, PICTURES),
    "whisper": Architecture(test_speech.write, test_speech.LIBRARY, run_speech, RECORDINGS),
}


@dataclass
class Changes:
    """Changes of a map: what a client asks for, and the same as arrays [head, query, key].

    given: NaN where weights stay. uniform: 1 where they are equal over the keys that a query sees.
    """

    asked: list[limelight.Intervention]
    given: Array
    uniform: Array
    factors: Array
    scales: Array

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """What weights are, and what they are multiplied by."""
        return self.uniform, self.given, self.factors, self.scales

    @classmethod
    def none(cls, heads: int, queries: int, keys: int) -> "Changes":
        """None yet."""
        shape = heads, queries, keys
        return cls([], np.full(shape, np.nan), np.zeros(shape), np.ones(shape), np.ones(shape))

    @classmethod
    def drawn(cls, name: str, usual: limelight.AttentionMap, random: np.random.Generator) -> "Changes":
        """Give weights to a query of the first head, make the last head equal, and let some keys count less or more.

        Args:
            usual: the map without changes; a query sees the keys with weights.
        """
        of_steps, sees = usual.query.kind == "output_steps", usual.weights > 0
        query = 1 if of_steps else sees.shape[1] - 1
        size = sees.shape[2] - (sees.shape[1] - 1 - query if usual.key.kind == "input_steps" else 0)
        allowed = sees[0, query, :size]
        new = np.zeros(size, np.float32)
        new[allowed] = random.dirichlet(np.ones(allowed.sum()))
        keys, factor, scale = sorted({0, min(2, size - 1)}), random.choice([0, 0.25, 3]), random.uniform(-1, 2)
        made = cls.none(len(sees), STEPS if of_steps else sees.shape[1], sees.shape[2] + STEPS)
        made.asked = [
            limelight.scale_keys(name, keys, float(factor)),
            limelight.replace(name, "uniform", heads=-1),
            limelight.replace(name, new[None, None], heads=0, queries=query),
            limelight.scale_heads(name, {0: float(scale)}),
        ]
        made.uniform[-1], made.given[0, query] = 1, 0
        made.given[0, query, :size] = new
        made.factors[:, :, keys], made.scales[0] = factor, scale
        return made

    def of(self, weights: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Change weights [1, head, query, key]: those that a map shows, and those times the scales of heads."""
        _, _, queries, keys = weights.shape
        uniform, given, factors, scales = (
            torch.from_numpy(each[:, :queries, :keys]).to(weights.dtype) for each in self.arrays
        )
        sees = (scores > HIDDEN).to(weights.dtype)
        held = torch.where(uniform > 0, sees / sees.sum(-1, keepdim=True), weights)
        held = torch.where(given.isnan(), held, given)
        scaled = held * factors
        left = scaled.sum(-1, keepdim=True)
        shown = torch.where(left > 1e-30, scaled * held.sum(-1, keepdim=True) / left.clamp(min=1e-30), held)
        return shown, shown * scales


@contextmanager
def changed(names: Sequence[str], changes: Mapping[str, Changes], shown: dict[str, Array]) -> Iterator[None]:
    """Change the softmax of each attention of transformers, in the order of their maps. shown: gets the maps."""
    original, left = torch.nn.functional.softmax, iter(names)

    def softmax(scores: Tensor, *arguments: Any, **options: Any) -> Tensor:
        weights = original(scores, *arguments, **options)
        if weights.dim() != 4:
            return weights
        name = next(left)
        of_map, scaled = changes[name].of(weights, scores) if name in changes else (weights, weights)
        shown[name] = of_map[0].numpy()
        return scaled

    torch.nn.functional.softmax = softmax
    try:
        with torch.no_grad():
            yield
    finally:
        torch.nn.functional.softmax = original
    assert next(left, None) is None


def order(name: str) -> tuple[bool, int, bool]:
    """The order in which transformers computes maps: the encoder, then of each layer its own and the one over it."""
    part, layer, kind = name.split(".")
    return part != "encoder", int(layer), kind != "self"


def of_one_pass(changes: Mapping[str, Changes], prompt: int, steps: int) -> dict[str, Changes]:
    """Put the changes of prompts and of output steps together by layer, as those of one pass over both.

    The prompt's last token is read by the first step: what the changes of that leave is as those of the prompt say.
    """
    size, made = prompt + steps - 1, dict[str, Changes]()
    for name, each in changes.items():
        whole = made.setdefault(name.partition(".")[2], Changes.none(len(each.given), size, size))
        if name.startswith("prompt"):
            for of_all, of_map in zip(whole.arrays, each.arrays, strict=True):
                of_all[:, :prompt, :prompt] = of_map[:, :, :prompt]
    for name, each in changes.items():
        if name.startswith("decoder"):
            whole, first = made[name.partition(".")[2]], prompt - 1
            replaces = (each.uniform[:, 0] + ~np.isnan(each.given[:, 0])).any(-1, keepdims=True)
            for number, (of_all, of_map) in enumerate(zip(whole.arrays, each.arrays, strict=True)):
                read, now = of_all[:, first].copy(), of_map[:, 0, :size]
                of_all[:, first:] = of_map[:, :steps, :size]
                of_all[:, first] = np.where(replaces if number < 2 else now != 1, now, read)
    return made


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for checkpoints."""
    torch.set_num_threads(1)
    return tmp_path_factory.mktemp("checkpoints")


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_changes_over_the_socket_are_those_in_transformers(name: str, folders: Path, tmp_path: Path) -> None:
    """Of three rows in a batch, one has changes of some maps, one of all, and one none; the first is alone, too."""
    architecture = ARCHITECTURES[name]
    folder = architecture.write(folders / name)
    served = import_checkpoint(folder, tmp_path, interventions=True, **architecture.options).bundle.description.name
    library = getattr(transformers, architecture.library).from_pretrained(folder, attn_implementation="eager").eval()
    generating = architecture.run in (run_decoder, run_encoder_decoder, run_speech)
    options: dict[str, Any] = {"generation": limelight.Generation(max_new_tokens=STEPS)} if generating else {}
    random = np.random.default_rng(0)
    with serving(tmp_path) as running, limelight.Client(running.server.address) as client:
        maps = [each.name for each in client.model(served).maps if each.interventions]
        instances = [architecture.instance(each) for each in architecture.inputs]
        usual = client.attend(served, instances, **options)
        some = [each for each in maps if each.startswith("prompt")] or maps[::2]
        drawn = [
            {each: Changes.drawn(each, answer[each], random) for each in chosen}
            for answer, chosen in zip(usual, (some, maps, []), strict=True)
        ]
        asked = [
            with_interventions(to_instance(instance), [one for each in changes.values() for one in each.asked])
            for instance, changes in zip(instances, drawn, strict=True)
        ]
        answers = client.attend(served, asked, **options)
        answers += [client.attend(served, asked[0], **options)]
    for place, answer in zip((0, 1, 2, 0), answers, strict=True):
        changes, shown = drawn[place], dict[str, Array]()
        names = sorted((each for each in answer if each.count(".") == 2), key=order)
        if architecture.run is run_decoder:
            prompt, steps = (answer[f"{part}.0.self"].weights.shape[1] for part in ("prompt", "decoder"))
            # The prompt's map shows its last row as changes of prompts alone leave it.
            last = prompt - any(each.startswith("decoder") for each in changes)
            changes, names = of_one_pass(changes, prompt, steps), [f"{layer}.self" for layer in range(len(maps) // 2)]
        with changed(names, changes, shown):
            expected = architecture.run(library, folder, architecture.inputs[place], answer)
        for each, wanted in shown.items():
            if architecture.run is run_decoder:
                np.testing.assert_allclose(answer[f"decoder.{each}"].weights, wanted[:, prompt - 1 :], atol=1e-5)
                np.testing.assert_allclose(
                    answer[f"prompt.{each}"].weights[:, :last], wanted[:, :last, :prompt], atol=1e-5
                )
            else:
                np.testing.assert_allclose(answer[each].weights, wanted, atol=1e-5, err_msg=each)
        for output, tensor in expected.items():
            found, wanted = answer.prediction.outputs[output], tensor[0].numpy()
            scores = np.where(found > NEVER / 2, wanted, found)
            np.testing.assert_allclose(found, scores, rtol=1e-5, atol=1e-5 * np.abs(wanted).max(), err_msg=output)
