"""The tasks of imported models, and which of them a checkpoint was trained for."""

from limelight.base.suggestions import similar
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures.architecture import Architecture
from limelight_export.importing.huggingface.checkpoint import Checkpoint
from limelight_export.importing.huggingface.tasks.task import Task

MODULES = "modules.json"

TASKS = (
    Task("classification", "encoder", ("ForSequenceClassification",), "classification.build_classifier"),
    Task("cross-encoder", "encoder", (), "classification.build_pair_classifier"),
    Task("token-classification", "encoder", ("ForTokenClassification",), "token_classification.build_token_classifier"),
    Task("question-answering", "encoder", ("ForQuestionAnswering",), "question_answering.build_question_answering"),
    Task("masked-words", "encoder", ("ForMaskedLM", "ForPreTraining"), "masked_words.build_masked_words"),
    Task("embedding", "encoder", ("Model",), "embedding.build_embedding"),
    Task("token-vectors", "encoder", ("ColBERT",), "token_vectors.build_token_vectors"),
    Task("text-generation", "decoder", ("ForCausalLM", "LMHeadModel"), "text_generation.build_text_generation"),
    Task("embedding", "decoder", ("Model",), "embedding.build_decoder_embedding"),
    Task("image-classification", "vision", ("ForImageClassification",), "image_classification.build_image_classifier"),
    Task("audio-classification", "audio", ("ForAudioClassification",), "audio_classification.build_audio_classifier"),
    Task("image-embedding", "vision", ("Model",), "image_embedding.build_image_embedding"),
    Task("image-classification", "staged-vision", ("ForImageClassification",), "staged_pictures.build_classifier"),
    Task("segmentation", "staged-vision", ("ForSemanticSegmentation",), "staged_pictures.build_segmentation"),
    Task("object-detection", "detection", ("ForObjectDetection",), "object_detection.build_object_detection"),
    Task("object-detection", "token-detection", ("ForObjectDetection",), "object_detection.build_token_detection"),
    Task("text-to-text", "encoder-decoder", ("ForConditionalGeneration", "MTModel"), "text_to_text.build_text_to_text"),
    Task("transcription", "speech", ("ForConditionalGeneration",), "transcription.build_transcription"),
    Task("speech-translation", "speech", (), "transcription.build_translation_of_speech"),
    Task("zero-shot", "two-tower", ("CLIPModel", "SiglipModel"), "two_towers.build_zero_shot"),
    Task("image-classification", "two-tower", ("ForImageClassification",), "two_towers.build_classifier"),
    Task("image-embedding", "two-tower", (), "two_towers.build_picture_embedding"),
    Task("text-embedding", "two-tower", (), "two_towers.build_text_embedding"),
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
                f"{similar(wanted, possible)}"
            )
        return possible[wanted]
    saved_for = _saved_for(checkpoint)
    if saved_for and saved_for not in possible:
        raise CheckpointError(
            f"sentence-transformers saved the checkpoint as a model of the task {saved_for}, for which "
            f"{architecture.title} cannot be imported; --task {'|'.join(possible)} imports it for another"
        )
    if saved_for:
        return possible[saved_for]
    for each in possible.values():
        if any(name.endswith(ending) for name in checkpoint.classes for ending in each.class_endings):
            return each
    raise CheckpointError(
        f"config.json states the classes {', '.join(checkpoint.classes) or 'of no task'}; "
        f"name a task: --task {'|'.join(possible)}"
    )


def states_pooling(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint is of sentence-transformers, which states pooling."""
    return checkpoint.file(MODULES) is not None


def _saved_for(checkpoint: Checkpoint) -> str:
    """Return the task for which sentence-transformers saved the checkpoint; empty for none."""
    if states_pooling(checkpoint):
        return "embedding"
    fields = ("sentence_transformers", "sbert_ce_default_activation_function")
    return "cross-encoder" if any(checkpoint.config.get(name) is not None for name in fields) else ""
