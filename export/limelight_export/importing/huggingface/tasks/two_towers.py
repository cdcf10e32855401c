"""Models with an encoder of pictures and one of texts: either by itself, or classes of pictures that are texts."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from limelight_bundle.tokenizer_files import load_tokenizer
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures.architecture import EncoderArchitecture, VisionArchitecture
from limelight_export.importing.huggingface.architectures.pictures import TwoTowerArchitecture
from limelight_export.importing.huggingface.attention import run_eager
from limelight_export.importing.huggingface.checkpoint import TOKENIZER_CONFIG
from limelight_export.importing.huggingface.loading import load_config, load_model
from limelight_export.importing.huggingface.tasks.classification import labels_of
from limelight_export.importing.huggingface.tasks.encoder import EncoderParts, encoder_model, text_input
from limelight_export.importing.huggingface.tasks.pictures import picture_model
from limelight_export.importing.huggingface.tasks.task import Source
from limelight_export.importing.huggingface.text import read_tokenizer, token_id, token_limit
from limelight_models.cards.card import TrainedModel
from limelight_models.cards.inputs import FilledTextInput
from limelight_models.cards.results import Classes, Vector

# The end of a text is found by its id, or is the largest id: padding must be neither.
_PADDING = 0


def build_text_embedding(source: Source[TwoTowerArchitecture]) -> TrainedModel:
    """Build a model that maps a text to a vector. Raises: CheckpointError where it cannot be loaded."""
    text, _ = _towers(source)
    _refuse_labels(source)
    towers = source.architecture.towers
    parts = _text_parts(source)
    read = text_input(parts, "A text.")
    if source.architecture.fills_texts:
        filler = int(parts.config.pad_token_id)
        text_of = load_tokenizer(parts.tokenizer.text).id_to_token(filler)
        read = FilledTextInput(**vars(read), filler=filler, filler_text=str(text_of))
    size = int(getattr(parts.config, towers.text_size))
    return encoder_model(
        text,
        parts,
        lambda output, mask: {"vector": normalize(output[towers.text_vector], dim=-1)},
        model_input=read,
        tokens=read.tokens(words=True),
        results=[Vector(size=size, summary="The vector of the text, of length 1.")],
        summary="Maps a text to a vector that is compared with those of pictures.",
    )


def build_picture_embedding(source: Source[TwoTowerArchitecture]) -> TrainedModel:
    """Build a model that maps a picture to a vector. Raises: CheckpointError as of `picture_model`."""
    _, vision = _towers(source)
    _refuse_labels(source)
    config, towers = load_config(source.checkpoint).vision_config, source.architecture.towers
    size = int(getattr(config, towers.vision_size))
    return picture_model(
        vision,
        config,
        lambda: load_model(source.checkpoint, towers.vision),
        lambda output: {"vector": normalize(output[towers.vision_vector], dim=-1)},
        result=Vector(size=size, summary="The vector of the picture, of length 1."),
        summary="Maps a picture to a vector that is compared with those of texts.",
        default_to_square=False,
        pools=source.architecture.pools,
    )


def build_classifier(source: Source[TwoTowerArchitecture]) -> TrainedModel:
    """Build a model that classifies a picture by the encoder of pictures alone. Raises: as of `picture_model`."""
    _, vision = _towers(source)
    _refuse_labels(source)
    config = load_config(source.checkpoint)
    return picture_model(
        vision,
        config.vision_config,
        lambda: load_model(source.checkpoint, "AutoModelForImageClassification"),
        lambda output: {"logits": output.logits},
        result=Classes(labels=labels_of(config)),
        summary="Classifies a picture.",
        default_to_square=False,
    )


class _Similarity(nn.Module):
    """Scores of classes: the cosines of a picture's vector and the classes', times the model's scale, and its bias.

    Args:
        name: of the picture's vector among the model's outputs.
        vectors: [class, feature] of length 1.
    """

    def __init__(self, name: str, vectors: Tensor, scale: float, bias: float) -> None:
        super().__init__()
        self.vectors: Tensor
        self.register_buffer("vectors", vectors)
        self._name, self._scale, self._bias = name, scale, bias

    def forward(self, output: Any) -> dict[str, Tensor]:
        """Compare a picture's vector with those of the classes."""
        return {"logits": normalize(output[self._name], dim=-1) @ self.vectors.T * self._scale + self._bias}


def build_zero_shot(source: Source[TwoTowerArchitecture]) -> TrainedModel:
    """Build a model that classifies a picture by the texts of its classes, which are encoded once.

    Raises:
        CheckpointError: labels are missing or not distinct, the prompt has no place for one, a text is too long, or as
            of `picture_model`.
    """
    _, vision = _towers(source)
    labels, prompt = source.options.labels, source.options.prompt
    if len(set(labels)) < max(len(labels), 2):
        raise CheckpointError(
            "classes are two or more distinct labels: --label cat --label dog, or a file with --labels; "
            "without labels, --task image-embedding gives the vector of a picture"
        )
    if "{}" not in prompt:
        raise CheckpointError(f"the prompt {prompt!r} has no {{}} in the place of the label")
    architecture, towers = source.architecture, source.architecture.towers
    whole: Any = load_model(source.checkpoint, towers.whole)
    bias = float(getattr(whole, "logit_bias", 0.0))
    vectors = _vectors(source, [prompt.replace("{}", label) for label in labels])
    return picture_model(
        vision,
        load_config(source.checkpoint).vision_config,
        lambda: load_model(source.checkpoint, towers.vision),
        _Similarity(towers.vision_vector, vectors, float(whole.logit_scale.exp()), bias),
        result=Classes(labels=labels, activation=architecture.activation),
        summary=f"Classifies a picture by the text {prompt!r} of each class.",
        default_to_square=False,
        pools=architecture.pools,
    )


def _towers(
    source: Source[TwoTowerArchitecture],
) -> tuple[Source[EncoderArchitecture], Source[VisionArchitecture]]:
    """Return the two encoders."""
    architecture = source.architecture
    return (
        Source(source.checkpoint, architecture.text, source.options),
        Source(source.checkpoint, architecture.vision, source.options),
    )


def _refuse_labels(source: Source[TwoTowerArchitecture]) -> None:
    if source.options.labels:
        raise CheckpointError(
            "a vector has no classes: leave out --label and --labels, or import with --task zero-shot"
        )


def _text_parts(source: Source[TwoTowerArchitecture]) -> EncoderParts:
    config = load_config(source.checkpoint).text_config
    tokenizer = read_tokenizer(source.checkpoint, int(config.vocab_size))
    most = token_limit(source.checkpoint, int(config.max_position_embeddings))
    limit = source.tokens_within(most)
    if source.architecture.fills_texts:
        if "attention_mask" in (source.checkpoint.table(TOKENIZER_CONFIG).get("model_input_names") or ()):
            raise CheckpointError(
                f"{TOKENIZER_CONFIG} states attention_mask among model_input_names; {source.architecture.title} is "
                "trained to read padding, so leave it out"
            )
        if limit != most:
            raise CheckpointError(f"{source.architecture.title} reads every text as {most} tokens, not {limit}")
        filler = token_id(tokenizer, source.checkpoint, "pad_token")
        config.pad_token_id = config.pad_token_id if filler is None else filler
    else:
        if config.eos_token_id == _PADDING:
            raise CheckpointError(f"config.json states eos_token_id {_PADDING}, which stands for padding here")
        config.pad_token_id = _PADDING
    return EncoderParts(config, load_model(source.checkpoint, source.architecture.towers.text), tokenizer, limit)


def _vectors(source: Source[TwoTowerArchitecture], texts: list[str]) -> Tensor:
    """Encode texts, each alone: [text, feature] of length 1."""
    parts = _text_parts(replace(source, options=replace(source.options, max_tokens=0)))
    tokenizer, vectors = load_tokenizer(parts.tokenizer.text), []
    for text in texts:
        ids = tokenizer.encode(text).ids
        if len(ids) > parts.max_tokens:
            raise CheckpointError(f"the text {text!r} has {len(ids)} tokens; the model reads {parts.max_tokens}")
        if source.architecture.fills_texts:
            ids += [int(parts.config.pad_token_id)] * (parts.max_tokens - len(ids))
        with torch.no_grad():
            output = run_eager(parts.model, input_ids=torch.tensor([ids]))
        vectors.append(normalize(output[source.architecture.towers.text_vector][0], dim=-1))
    return torch.stack(vectors)
