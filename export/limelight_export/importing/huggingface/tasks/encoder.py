"""Parts of all tasks of encoders: the network around a transformers model, its inputs and its maps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from limelight_bundle.values import Instance, Pair
from limelight_export.errors import CheckpointError, ExportError
from limelight_export.importing.huggingface.architectures.architecture import EncoderArchitecture
from limelight_export.importing.huggingface.attention import run_with_maps
from limelight_export.importing.huggingface.checkpoint import TOKENIZER, TOKENIZER_CONFIG
from limelight_export.importing.huggingface.contacts import CONTACTS, contact_map, predict_contacts
from limelight_export.importing.huggingface.loading import load_config, load_model
from limelight_export.importing.huggingface.tasks.examples import choose_examples, text_instances
from limelight_export.importing.huggingface.tasks.layer_maps import self_maps
from limelight_export.importing.huggingface.tasks.task import Source
from limelight_export.importing.huggingface.text import adds_special_tokens, read_tokenizer, token_limit
from limelight_export.importing.huggingface.token_packing import clearing_padding, packing_tokens
from limelight_models.attention.export_markers import is_marking
from limelight_models.cards.card import TrainedModel, TrainingData
from limelight_models.cards.hidden import HiddenStates
from limelight_models.cards.inputs import JoinedPairInput, TextInput, Tokenizer
from limelight_models.cards.labels import LabelSet
from limelight_models.cards.results import Result
from limelight_models.network import Answer, Network

# The outputs of a card from what a transformers model returns and the mask of the tokens, BOOL [batch, token].
Head = Callable[[Any, Tensor], Mapping[str, Tensor]]
EncoderSource = Source[EncoderArchitecture]

_TEXTS = ("The cat sat on the mat.", "Attention shows which words a model looks at, in every layer and head.")
_PAIRS = (
    ("Where did the cat sit?", "The cat sat on the mat."),
    ("Who wrote it?", "A short letter, written by a friend, arrived this morning."),
)


class ImportedEncoder(Network):
    """An encoder of transformers as a network of this repository.

    Args:
        head: the card's outputs from the model's.
        maps: names of the maps, one a layer.
        hidden: names of the hidden states, the embeddings' first.
        padding: token id of padding; some models number positions by it.
    """

    def __init__(
        self,
        model: nn.Module,
        architecture: EncoderArchitecture,
        head: Head,
        maps: Sequence[str],
        hidden: Sequence[str],
        *,
        padding: int,
    ) -> None:
        super().__init__()
        self.model = model
        self._architecture, self._head = architecture, head
        self._maps, self._hidden, self._padding = tuple(maps), tuple(hidden), padding

    def forward(self, **tensors: Tensor) -> Answer:
        ids = tensors["token_ids"]
        mask = tensors.get("token_mask", torch.ones_like(ids, dtype=torch.bool))
        arguments = {"token_type_ids": tensors["segment_ids"]} if "segment_ids" in tensors else {}
        if "token_mask" in tensors:  # all tokens of a text that is filled up are read
            ids, arguments["attention_mask"] = torch.where(mask, ids, self._padding), mask.to(torch.int64)
        clearing = clearing_padding(self.model, self._architecture.mixed, mask)
        with clearing, packing_tokens(self.model, self._architecture.packing, mask) as unpacked:
            output, maps = run_with_maps(self.model, input_ids=ids, **arguments)
        if self._architecture.returns_scores and not is_marking():
            maps = tuple(each.softmax(-1) for each in maps)
        if len(maps) != len(self._maps):
            raise ExportError(f"{type(self.model).__name__} returns {len(maps)} maps, not {len(self._maps)}")
        hidden = dict(zip(self._hidden, unpacked(output.hidden_states), strict=True))
        outputs = {**self._head(output, mask), **hidden}
        named = dict(zip(self._maps, maps, strict=True))
        if self._architecture.has_contacts:
            named[CONTACTS] = predict_contacts(self.model, tensors["token_ids"], mask, maps)
        return Answer(outputs, named)


@dataclass(frozen=True)
class EncoderParts:
    """The parts of a loaded encoder that a task needs.

    Attributes:
        config: configuration as transformers reads it.
    """

    config: Any
    model: nn.Module
    tokenizer: Tokenizer
    max_tokens: int


def load_encoder(
    source: EncoderSource, auto_class: str, *, most: int = 0, needs_special_tokens: bool = True, **options: Any
) -> EncoderParts:
    """Load the configuration, the tokenizer and the weights of an encoder.

    Args:
        auto_class, options: as of `loading.load_model`; the architecture's own options beside them.
        most: most tokens that other files of the checkpoint state; 0 for no such limit.
        needs_special_tokens: whether a text needs some.
    Raises:
        CheckpointError: one of them cannot be imported.
    """
    config = load_config(source.checkpoint)
    tokenizer = read_tokenizer(source.checkpoint, int(config.vocab_size))
    if needs_special_tokens and not adds_special_tokens(tokenizer):
        raise CheckpointError(
            f"{TOKENIZER} adds no special tokens to a text, with which encoders are trained; save the tokenizer again"
        )
    limit = token_limit(source.checkpoint, source.architecture.positions(config))
    most_tokens = source.tokens_within(min(limit, most or limit))
    model = load_model(source.checkpoint, auto_class, **source.architecture.options, **options)
    return EncoderParts(config, model, tokenizer, most_tokens)


def text_input(parts: EncoderParts, summary: str) -> TextInput:
    """One text with the tokenizer's special tokens."""
    return TextInput(summary=summary, tokenizer=parts.tokenizer, max_tokens=parts.max_tokens, special_tokens=True)


def pair_input(source: EncoderSource, parts: EncoderParts, summary: str) -> JoinedPairInput:
    """Two texts as one sequence, with segments where the model tells them apart and its tokenizer states them."""
    segments = int(getattr(parts.config, "type_vocab_size", 0) or 0)
    names = source.checkpoint.table(TOKENIZER_CONFIG).get("model_input_names")
    told_apart = segments > 1 and source.architecture.has_segments and (names is None or "token_type_ids" in names)
    return JoinedPairInput(
        summary=summary,
        tokenizer=parts.tokenizer,
        max_tokens=parts.max_tokens,
        segments=segments if told_apart else 0,
    )


def encoder_model(
    source: EncoderSource,
    parts: EncoderParts,
    head: Head,
    *,
    model_input: TextInput,
    tokens: LabelSet,
    results: Sequence[Result],
    summary: str,
    examples: Sequence[Instance] = (),
) -> TrainedModel:
    """Put an encoder together for export.

    Args:
        tokens: label set of the tokens of `model_input`.
        summary: sentence that says what the model does.
        examples: instances instead of those of this module, where the caller gives none.
    Raises:
        CheckpointError: the caller's examples are not of this input, or no other is short enough.
    """
    architecture, config = source.architecture, parts.config
    maps = self_maps(architecture.maps(config), int(config.num_attention_heads), tokens, "token")
    hidden = HiddenStates(stack="encoder", labels=tokens, layers=len(maps), size=int(config.hidden_size))
    padding = config.pad_token_id
    network = ImportedEncoder(parts.model, architecture, head, list(maps), hidden.names, padding=padding or 0)
    contacts = {CONTACTS: contact_map(tokens)} if architecture.has_contacts else {}
    card = source.card(
        summary=summary,
        inputs=[model_input],
        results=results,
        maps=maps | contacts,
        hidden=[hidden],
    )
    own = tuple(examples) or _own_examples(model_input)
    chosen = choose_examples(card, _given_examples(source, model_input), own)
    return TrainedModel(network.eval(), card, chosen, TrainingData(), ())


def _given_examples(source: EncoderSource, model_input: TextInput) -> tuple[Instance, ...]:
    """Make instances of the caller's examples."""
    given = source.options.examples
    if not isinstance(model_input, JoinedPairInput):
        return text_instances(model_input.name, given)
    pairs = [tuple(text.split("\t")) for text in given]
    if any(len(pair) != 2 for pair in pairs):
        raise CheckpointError("an example of this model is two texts, separated by a tab")
    return tuple({model_input.name: Pair(*pair)} for pair in pairs)


def _own_examples(model_input: TextInput) -> tuple[Instance, ...]:
    if not isinstance(model_input, JoinedPairInput):
        return text_instances(model_input.name, _TEXTS)
    return tuple({model_input.name: Pair(*pair)} for pair in _PAIRS)
