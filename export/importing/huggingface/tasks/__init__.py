"""The tasks of imported models, and which of them a checkpoint was trained for."""

from export.errors import CheckpointError
from export.importing.huggingface.architectures.architecture import Architecture
from export.importing.huggingface.checkpoint import Checkpoint
from export.importing.huggingface.tasks.classification import build_classifier, build_pair_classifier
from export.importing.huggingface.tasks.embedding import build_embedding, states_pooling
from export.importing.huggingface.tasks.image_classification import build_image_classifier
from export.importing.huggingface.tasks.masked_words import build_masked_words
from export.importing.huggingface.tasks.object_detection import build_object_detection
from export.importing.huggingface.tasks.question_answering import build_question_answering
from export.importing.huggingface.tasks.task import Task
from export.importing.huggingface.tasks.text_generation import build_text_generation
from export.importing.huggingface.tasks.text_to_text import build_text_to_text
from export.importing.huggingface.tasks.token_classification import build_token_classifier
from export.importing.huggingface.tasks.transcription import build_transcription, build_translation_of_speech
from export.importing.huggingface.tasks.two_towers import (
    build_picture_embedding,
    build_text_embedding,
    build_zero_shot,
)

CROSS_ENCODER = Task("cross-encoder", "encoder", (), build_pair_classifier)
EMBEDDING = Task("embedding", "encoder", ("Model",), build_embedding)
TASKS = (
    Task("classification", "encoder", ("ForSequenceClassification",), build_classifier),
    CROSS_ENCODER,
    Task("token-classification", "encoder", ("ForTokenClassification",), build_token_classifier),
    Task("question-answering", "encoder", ("ForQuestionAnswering",), build_question_answering),
    Task("masked-words", "encoder", ("ForMaskedLM", "ForPreTraining"), build_masked_words),
    EMBEDDING,
    Task("text-generation", "decoder", ("ForCausalLM", "LMHeadModel"), build_text_generation),
    Task(
        "image-classification",
        "vision",
        ("ForImageClassification",),
        build_image_classifier,
    ),
    Task("object-detection", "detection", ("ForObjectDetection",), build_object_detection),
    Task("text-to-text", "encoder-decoder", ("ForConditionalGeneration", "MTModel"), build_text_to_text),
    Task("transcription", "speech", ("ForConditionalGeneration",), build_transcription),
    Task("speech-translation", "speech", (), build_translation_of_speech),
    Task("zero-shot", "two-tower", ("CLIPModel",), build_zero_shot),
    Task("image-embedding", "two-tower", (), build_picture_embedding),
    Task("text-embedding", "two-tower", (), build_text_embedding),
)


def task_of(checkpoint: Checkpoint, architecture: Architecture, wanted: str = "") -> Task:
    """Find the task of a checkpoint: the wanted one, or what its files state.

    Raises:
        CheckpointError: there is no such task for this architecture, or the files state none.
    """
    possible = {each.name: each for each in TASKS if each.kind == architecture.kind}
    if wanted:
        if wanted not in possible:
            raise CheckpointError(
                f"{architecture.title} cannot be imported for {wanted!r}; it can be for {', '.join(possible)}"
            )
        return possible[wanted]
    if EMBEDDING.name in possible and states_pooling(checkpoint):
        return EMBEDDING
    if CROSS_ENCODER.name in possible and _is_cross_encoder(checkpoint):
        return CROSS_ENCODER
    for each in possible.values():
        if any(name.endswith(ending) for name in checkpoint.classes for ending in each.class_endings):
            return each
    raise CheckpointError(
        f"config.json states the classes {', '.join(checkpoint.classes) or 'of no task'}; "
        f"name a task: --task {'|'.join(possible)}"
    )


def _is_cross_encoder(checkpoint: Checkpoint) -> bool:
    """Return whether sentence-transformers saved the checkpoint as a cross-encoder."""
    fields = ("sentence_transformers", "sbert_ce_default_activation_function")
    return any(name in checkpoint.config for name in fields)
