"""Transcription and translation of speech: an encoder–decoder writes what a recording says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from limelight_bundle.tokenizer_files import load_tokenizer
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures.encoder_decoders import SpeechArchitecture
from limelight_export.importing.huggingface.checkpoint import Checkpoint
from limelight_export.importing.huggingface.imported_decoder import cache_states
from limelight_export.importing.huggingface.imported_speech import ALIGNMENT_MAP, ImportedSpeech
from limelight_export.importing.huggingface.loading import load_config, load_model
from limelight_export.importing.huggingface.output_rules import (
    GENERATION_CONFIG,
    OutputRules,
    checked_token,
    stated_tokens,
)
from limelight_export.importing.huggingface.recordings import audio_input
from limelight_export.importing.huggingface.tasks.examples import made_recordings
from limelight_export.importing.huggingface.tasks.layer_maps import encoder_decoder_maps, encoder_decoder_states
from limelight_export.importing.huggingface.tasks.task import Source
from limelight_export.importing.huggingface.tasks.text_generation import end_tokens
from limelight_export.importing.huggingface.tasks.text_to_text import check_against_library
from limelight_export.importing.huggingface.text import read_tokenizer
from limelight_export.verification.samples import example_rows
from limelight_models.attention.weights import Weights
from limelight_models.cards.card import TrainedModel, TrainingData
from limelight_models.cards.inputs import Tokenizer, forced_target
from limelight_models.cards.labels import LabelSet, output_steps
from limelight_models.cards.maps import Map
from limelight_models.cards.results import Written


def build_transcription(source: Source[SpeechArchitecture]) -> TrainedModel:
    """Build a model that writes what a recording says, in its language. Raises: as of `_build`."""
    return _build(source, "transcribe", "Writes what a recording says.")


def build_translation_of_speech(source: Source[SpeechArchitecture]) -> TrainedModel:
    """Build a model that writes in English what a recording says. Raises: as of `_build`."""
    return _build(source, "translate", "Writes in English what a recording says in another language.")


@dataclass(frozen=True)
class _Output:
    """Output settings of generation_config.json.

    Attributes:
        begin: token that the decoder starts with.
        alignment: layer and head of the attention by which words are aligned with the recording.
    """

    begin: int
    rules: OutputRules
    alignment: tuple[tuple[int, int], ...]


def _build(source: Source[SpeechArchitecture], task: str, does: str) -> TrainedModel:
    """Build an encoder–decoder of recordings.

    Raises:
        CheckpointError: a file of the checkpoint states something that is not supported, or it cannot be loaded.
        ExportError: steps with a cache differ from the library's eager attention.
    """
    checkpoint, architecture = source.checkpoint, source.architecture
    config = load_config(checkpoint)
    sizes, vocabulary = architecture.sizes(config), int(config.vocab_size)
    frames = int(config.max_source_positions) * architecture.joined
    recording = audio_input(checkpoint, mels=int(config.num_mel_bins), frames=frames)
    tokenizer, ends = read_tokenizer(checkpoint, vocabulary), end_tokens(checkpoint, config)
    output = _read_output(checkpoint, config, tokenizer, task, source.options.language)
    network = ImportedSpeech(
        load_model(checkpoint, "AutoModelForSpeechSeq2Seq"),
        sizes.decoder_layers,
        begin=output.begin,
        allowed=output.rules.allowed(vocabulary),
        alignment=output.alignment,
    ).eval()
    most, before = source.tokens_within(sizes.positions - 1), len(output.rules.forced)
    if most < before + 2:
        raise CheckpointError(f"the output needs room for a token between {before} forced ones and its end, not {most}")
    written = Written(
        steps=output_steps(),
        tokenizer=tokenizer,
        begin=output.begin,
        end=ends[0],
        more_ends=ends[1:],
        max_new_tokens=most,
        position="position",
        steps_before_target=before,
        states=cache_states([(sizes.decoder_heads, sizes.head_size, sizes.head_size)] * sizes.decoder_layers),
    )
    heard = recording.joined_frames(architecture.joined)
    card = source.card(
        summary=does,
        inputs=[recording, forced_target(tokenizer, most - before - 1, special_tokens=False)],
        results=[written],
        maps=encoder_decoder_maps(sizes, source=heard, steps=written.steps, entry="frame", whole="recording")
        | _alignment_map(output.alignment, heard, written),
        hidden=encoder_decoder_states(sizes, config, source=heard, steps=written.steps),
        max_audio_seconds=recording.seconds,
    )
    examples = made_recordings(source, recording)
    for row in example_rows(card, examples):
        tensors = {name: torch.from_numpy(array)[None] for name, array in row.tensors.items()}
        check_against_library(network, tensors, [output.begin, *(each[0] for each in output.rules.forced), 0], written)
    return TrainedModel(network, card, examples, TrainingData(), ())


def _alignment_map(alignment: Sequence[tuple[int, int]], heard: LabelSet, written: Written) -> dict[str, Map]:
    """Describe the map by which words are aligned; none where the checkpoint states no heads for it."""
    if not alignment:
        return {}
    names = tuple(f"layer {layer}, head {head}" for layer, head in alignment)
    return {
        ALIGNMENT_MAP: Map(
            weights=Weights(heads=len(alignment)),
            kind="cross",
            queries=written.steps,
            keys=heard,
            of_heads=LabelSet(name="alignment_heads", kind="heads", names=names),
            summary="The heads of decoder.*.cross by which words are aligned with the recording.",
        )
    }


def _language_token(language: str, tokens: Mapping[str, Any]) -> Any:
    """Find the token of a language by its code, its English name or the token's text, in capitals or not.

    Raises:
        CheckpointError: the model does not know the language.
    """
    from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

    lower = language.strip().lower()
    token = lower if lower in tokens else f"<|{TO_LANGUAGE_CODE.get(lower, lower)}|>"
    if token not in tokens:
        known = ", ".join(sorted(name.strip("<|>") for name in tokens))
        raise CheckpointError(f"the model knows no language {language!r}; it knows {known}")
    return tokens[token]


def _read_output(checkpoint: Checkpoint, config: Any, tokenizer: Tokenizer, task: str, language: str) -> _Output:
    stated = checkpoint.table(GENERATION_CONFIG)
    vocabulary = int(config.vocab_size)

    languages = stated.get("lang_to_id") or {}
    forced: list[tuple[int, ...]] = []
    if languages and stated.get("is_multilingual", True):
        language = language or str(stated.get("language") or "")
        spoken = [_language_token(language, languages)] if language else list(languages.values())
        forced.append(tuple(checked_token(each, "lang_to_id", vocabulary) for each in spoken))
        of_task = (stated.get("task_to_id") or {}).get(task)
        forced.append((checked_token(of_task, f"{task} of task_to_id", vocabulary),))
    elif language or task != "transcribe":
        raise CheckpointError(f"{GENERATION_CONFIG} states no lang_to_id: the model transcribes one language only")
    # Files of older versions do not state it; the token is the model's all the same.
    for_no_times = stated.get("no_timestamps_token_id")
    if for_no_times is None:
        for_no_times = load_tokenizer(tokenizer.text).token_to_id("<|notimestamps|>")
    if for_no_times is None:
        raise CheckpointError(
            f"{GENERATION_CONFIG} states no no_timestamps_token_id, and the tokenizer has no <|notimestamps|>"
        )
    forced.append((checked_token(for_no_times, "no_timestamps_token_id", vocabulary),))
    begin = stated.get("decoder_start_token_id", config.decoder_start_token_id)
    rules = OutputRules(
        tuple(forced),
        stated_tokens(checkpoint, config, "suppress_tokens"),
        stated_tokens(checkpoint, config, "begin_suppress_tokens"),
    )
    return _Output(checked_token(begin, "decoder_start_token_id", vocabulary), rules, _alignment(checkpoint, config))


def _alignment(checkpoint: Checkpoint, config: Any) -> tuple[tuple[int, int], ...]:
    """Read the heads by which words are aligned; none where the checkpoint states none."""
    found = checkpoint.table(GENERATION_CONFIG).get("alignment_heads") or []
    limits = int(config.decoder_layers), int(config.decoder_attention_heads)
    for each in found:
        if len(each) != 2 or not all(0 <= place < limit for place, limit in zip(each, limits, strict=True)):
            raise CheckpointError(f"{GENERATION_CONFIG} states alignment_heads {each}, which the model does not have")
    return tuple((int(layer), int(head)) for layer, head in found)
