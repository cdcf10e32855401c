"""Text to text: an encoder–decoder writes a text for a source, such as its translation or summary."""

from collections.abc import Mapping

import torch
from torch import Tensor

from limelight_export.errors import CheckpointError, ExportError
from limelight_export.importing.huggingface.architectures.architecture import EncoderDecoderArchitecture
from limelight_export.importing.huggingface.attention import run_eager
from limelight_export.importing.huggingface.imported_decoder import cache_states, output_map
from limelight_export.importing.huggingface.imported_encoder_decoder import (
    ImportedEncoderDecoder,
    cross_map,
    source_map,
)
from limelight_export.importing.huggingface.loading import load_config, load_model
from limelight_export.importing.huggingface.output_rules import GENERATION_CONFIG, checked_token, read_output_rules
from limelight_export.importing.huggingface.tasks.examples import choose_examples, text_instances
from limelight_export.importing.huggingface.tasks.layer_maps import encoder_decoder_maps, encoder_decoder_states
from limelight_export.importing.huggingface.tasks.task import Source
from limelight_export.importing.huggingface.tasks.text_generation import check_equal, end_tokens
from limelight_export.importing.huggingface.text import OUTPUT_TOKENIZER, read_tokenizer, token_limit
from limelight_export.verification.samples import example_rows
from limelight_models.cards.card import TrainedModel, TrainingData
from limelight_models.cards.hidden import named_states
from limelight_models.cards.inputs import TextInput, forced_target
from limelight_models.cards.labels import output_steps
from limelight_models.cards.results import Written

_TEXTS = ("The cat sat on the mat.", "A short letter, written by a friend, arrived this morning.")


def build_text_to_text(source: Source[EncoderDecoderArchitecture]) -> TrainedModel:
    """Build an encoder–decoder.

    Raises:
        CheckpointError: the checkpoint states no token that begins or ends a text, or cannot be loaded.
        ExportError: steps with a cache differ from the library's eager attention.
    """
    checkpoint, architecture = source.checkpoint, source.architecture
    config = load_config(checkpoint)
    sizes, vocabulary = architecture.sizes(config), int(config.vocab_size)
    if getattr(config, "decoder_vocab_size", None) not in (None, vocabulary):
        raise CheckpointError("config.json states a vocabulary of the output that is not the source's")
    tokenizer = output_tokenizer = read_tokenizer(checkpoint, vocabulary)
    if OUTPUT_TOKENIZER in checkpoint.made:
        output_tokenizer = read_tokenizer(checkpoint, vocabulary, OUTPUT_TOKENIZER)
    ends = end_tokens(checkpoint, config)
    begin = getattr(config, "decoder_start_token_id", None)
    begin = checkpoint.table(GENERATION_CONFIG).get("decoder_start_token_id", begin)
    begin = checked_token(begin, "decoder_start_token_id", vocabulary)
    limit = source.tokens_within(token_limit(checkpoint, sizes.positions))
    model_input = TextInput(summary="Text to read.", tokenizer=tokenizer, max_tokens=limit, special_tokens=True)
    model = load_model(checkpoint, "AutoModelForSeq2SeqLM")
    network = ImportedEncoderDecoder(
        model,
        sizes.decoder_layers,
        begin=begin,
        padding=int(config.pad_token_id or 0),
        allowed=read_output_rules(checkpoint, config).allowed(vocabulary),
    ).eval()
    written = Written(
        steps=output_steps(),
        tokenizer=output_tokenizer,
        begin=begin,
        end=ends[0],
        more_ends=ends[1:],
        max_new_tokens=sizes.positions - 1,
        position="position",
        states=cache_states([(sizes.decoder_heads, sizes.head_size, sizes.head_size)] * sizes.decoder_layers),
    )
    card = source.card(
        summary="Writes a text for a source.",
        inputs=[model_input, forced_target(output_tokenizer, sizes.positions - 1)],
        results=[written],
        maps=encoder_decoder_maps(
            sizes, source=model_input.tokens(), steps=written.steps, entry="token", whole="source"
        ),
        hidden=encoder_decoder_states(sizes, config, source=model_input.tokens(), steps=written.steps),
    )
    given, own = (text_instances(model_input.name, texts) for texts in (source.options.examples, _TEXTS))
    examples = choose_examples(card, given, own)
    for row in example_rows(card, examples):
        ids = row.tensors[model_input.tensor].tolist()
        tokens_, mask = torch.tensor([ids]), torch.ones((1, len(ids)), dtype=torch.bool)
        check_against_library(network, {"token_ids": tokens_, "token_mask": mask}, [begin, *ids[:3]], written)
    return TrainedModel(network, card, examples, TrainingData(), ())


def check_against_library(
    network: ImportedEncoderDecoder, tensors: Mapping[str, Tensor], output: list[int], written: Written
) -> None:
    """Compare the encoder and steps with transformers' eager attention over the whole output. Raises ExportError.

    Args:
        tensors: of the card's inputs, one row without padding.
    """
    put_out = torch.tensor([output])
    with torch.no_grad():
        expected = run_eager(network.model, **network.source(tensors), decoder_input_ids=put_out, use_cache=False)
        maps = {
            "encoder": expected.encoder_attentions,
            "decoder": expected.decoder_attentions,
            "cross": expected.cross_attentions,
        }
        if not all(maps.values()):
            raise ExportError(f"{type(network.model).__name__} returns no attention weights")
        encoded = network.encode(**tensors)
        states = {
            each.input: torch.zeros((1, each.cache[0], len(output), each.cache[1]))
            for each in written.states
            if each.cache is not None
        }
        pairs: dict[str, tuple[Tensor, Tensor]] = {}
        for layer, weights in enumerate(maps["encoder"]):
            pairs[source_map(layer)] = (encoded[source_map(layer)], weights)
        for name, vectors in named_states("encoder", expected.encoder_hidden_states).items():
            pairs[name] = (encoded[name], vectors)
        for place in range(len(output)):
            position = torch.tensor([place])
            answer = network.step(put_out[:, place], position=position, **tensors, **states, **encoded)
            for each in written.states:
                states[each.input][:, :, place] = answer.states[each.output][:, :, 0]
            pairs["scores"] = (answer.scores, network.scores(expected.logits[:, place], position))
            for layer, weights in enumerate(maps["decoder"]):
                pairs[output_map(layer)] = (answer.maps[output_map(layer)], weights[:, :, place])
            for layer, weights in enumerate(maps["cross"]):
                pairs[cross_map(layer)] = (answer.maps[cross_map(layer)], weights[:, :, place])
            for name, vectors in named_states("decoder", expected.decoder_hidden_states).items():
                pairs[name] = (answer.hidden[name], vectors[:, place])
            check_equal(pairs)
