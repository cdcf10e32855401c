"""Text generation: a causal language model continues a prompt."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from limelight_export.errors import CheckpointError, ExportError
from limelight_export.importing.huggingface.architectures.architecture import DecoderArchitecture
from limelight_export.importing.huggingface.attention import run_with_maps
from limelight_export.importing.huggingface.chat_template import read_chat
from limelight_export.importing.huggingface.checkpoint import Checkpoint
from limelight_export.importing.huggingface.imported_decoder import (
    ImportedDecoder,
    output_map,
    prompt_map,
)
from limelight_export.importing.huggingface.loading import load_config, load_model
from limelight_export.importing.huggingface.output_rules import GENERATION_CONFIG
from limelight_export.importing.huggingface.tasks.examples import choose_examples, text_instances
from limelight_export.importing.huggingface.tasks.layer_maps import decoder_maps
from limelight_export.importing.huggingface.tasks.task import Source
from limelight_export.importing.huggingface.text import read_tokenizer, token_limit
from limelight_export.verification.samples import example_rows
from limelight_models.attention.weights import Weights
from limelight_models.cards.card import TrainedModel, TrainingData
from limelight_models.cards.hidden import HiddenStates
from limelight_models.cards.inputs import TextInput, forced_target
from limelight_models.cards.labels import output_steps
from limelight_models.cards.results import Written

_TEXTS = ("The cat", "The cat sat on the mat and", "Attention shows which words a model looks at")
# Output tokens, unless half of the model's positions are fewer.
_MOST_NEW_TOKENS = 1024
# Most tokens that the lens reads from a vector.
_TOP_TOKENS = 20
# The largest difference of scores and weights between a decoder's steps and the library's eager attention.
_TOLERANCE = 2e-4


def build_text_generation(source: Source[DecoderArchitecture]) -> TrainedModel:
    """Build a causal language model.

    Raises:
        CheckpointError: the checkpoint states no token that ends a text, attends both ways, or cannot be loaded.
        ExportError: steps with a cache differ from the library's eager attention.
    """
    checkpoint, architecture = source.checkpoint, source.architecture
    config = load_config(checkpoint)
    if getattr(config, "use_bidirectional_attention", False):
        raise CheckpointError(
            "config.json states use_bidirectional_attention True: a token sees those behind it, and no text can be "
            "continued; the model can be an embedding: --task embedding"
        )
    tokenizer = read_tokenizer(checkpoint, int(config.vocab_size))
    ends = end_tokens(checkpoint, config)
    total = source.tokens_within(token_limit(checkpoint, architecture.positions(config)))
    if total < 2:
        raise CheckpointError("the model needs room for a token of the prompt and one of the output")
    new_tokens = min(_MOST_NEW_TOKENS, total // 2)
    prompt = TextInput(
        summary="Text to continue.",
        tokenizer=tokenizer,
        max_tokens=total - new_tokens,
        prefix="prompt",
        dimension="prompt",
        special_tokens=True,
    )
    layers, heads = int(config.num_hidden_layers), int(config.num_attention_heads)
    top_tokens = min(_TOP_TOKENS, int(config.vocab_size))
    model = load_model(checkpoint, "AutoModelForCausalLM", **architecture.options)
    network = ImportedDecoder(model, top_tokens).eval()
    chat, on_chat = read_chat(checkpoint)
    written = Written(
        steps=output_steps(),
        tokenizer=tokenizer,
        begin=0,
        end=ends[0],
        more_ends=ends[1:],
        max_new_tokens=new_tokens,
        position="position",
        prompt=prompt,
        starts_with_prompt=True,
        has_lens=True,
        chat=chat,
        states=network.states,
    )
    tokens = prompt.tokens("prompt")
    weights = Weights(heads=heads, normalised=not architecture.has_sinks)
    card = source.card(
        summary=f"Continues a text.{on_chat}",
        inputs=[prompt, forced_target(tokenizer, new_tokens, special_tokens=False)],
        results=[written],
        maps=decoder_maps(layers, weights, prompt=tokens, steps=written.steps),
        hidden=[
            HiddenStates(stack=stack, labels=labels, layers=layers, size=int(config.hidden_size), tokens=top_tokens)
            for stack, labels in (("prompt", tokens), ("decoder", written.steps))
        ],
    )
    given, own = (text_instances(prompt.name, texts) for texts in (source.options.examples, _TEXTS))
    examples = choose_examples(card, given, own)
    for row in example_rows(card, examples):
        _check_against_library(network, row.tensors[prompt.tensor].tolist(), written)
    return TrainedModel(network, card, examples, TrainingData(), ())


def end_tokens(checkpoint: Checkpoint, config: Any) -> list[int]:
    """Return the tokens that end a text; generation_config.json takes precedence."""
    stated = checkpoint.table(GENERATION_CONFIG).get("eos_token_id", getattr(config, "eos_token_id", None))
    found = stated if isinstance(stated, list) else [stated]
    if not found or not all(type(each) is int and 0 <= each < int(config.vocab_size) for each in found):
        raise CheckpointError(
            f"neither {GENERATION_CONFIG} nor config.json states a token of the model as eos_token_id; "
            "a text would never end"
        )
    return list(dict.fromkeys(found))


def _check_against_library(network: ImportedDecoder, ids: list[int], written: Written) -> None:
    """Compare prefill and a step with transformers' eager attention over the whole text. Raises ExportError."""
    if len(ids) < 2:
        return
    token = torch.tensor([ids])
    places = torch.arange(len(ids))[None]
    last = len(ids) - 1
    with torch.no_grad():
        expected, expected_maps = run_with_maps(network.model, input_ids=token, use_cache=False)
        prefilled = network.prefill(token, places)
        states = {each.input: prefilled[each.output] for each in written.states}
        stepped = network.step(token[:, last], position=places[:, last], **states)
    pairs = {"scores": (stepped.scores, expected.logits[:, last])}
    for layer, weights in enumerate(expected_maps):
        pairs[prompt_map(layer)] = (prefilled[prompt_map(layer)], weights)
        pairs[output_map(layer)] = (stepped.maps[output_map(layer)], weights[:, :, last])
    for layer, states in enumerate(expected.hidden_states):
        pairs[f"prompt.hidden.{layer}"] = (prefilled[f"prompt.hidden.{layer}"], states)
        pairs[f"decoder.hidden.{layer}"] = (stepped.hidden[f"decoder.hidden.{layer}"], states[:, last])
    check_equal(pairs)


def check_equal(pairs: Mapping[str, tuple[Tensor, Tensor]]) -> None:
    """Check what was found against transformers' own, by name. Raises ExportError for the first that differs."""
    for name, (found, wanted) in pairs.items():
        if found.shape != wanted.shape:
            raise ExportError(f"{name} has the shape {list(found.shape)}; transformers gives {list(wanted.shape)}")
        scale = max(1.0, float(wanted.abs().max()))
        difference = float((found - wanted).abs().max()) / scale
        if not difference <= _TOLERANCE:
            raise ExportError(f"{name} differs from transformers' eager attention by {difference:.2g} of its largest")
