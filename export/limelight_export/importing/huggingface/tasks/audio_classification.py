"""Classes of a recording, by an encoder of its spectrogram."""

from collections.abc import Mapping

from torch import Tensor

from limelight_export.importing.huggingface.architectures.pictures import AudioArchitecture
from limelight_export.importing.huggingface.loading import load_config, load_model
from limelight_export.importing.huggingface.recordings import fbank_input
from limelight_export.importing.huggingface.tasks.classification import labels_of
from limelight_export.importing.huggingface.tasks.examples import made_recordings
from limelight_export.importing.huggingface.tasks.layer_maps import self_maps
from limelight_export.importing.huggingface.tasks.pictures import ImportedPictureEncoder
from limelight_export.importing.huggingface.tasks.task import Source
from limelight_models.cards.card import TrainedModel, TrainingData
from limelight_models.cards.hidden import HiddenStates
from limelight_models.cards.results import Classes


class ImportedSpectrogramEncoder(ImportedPictureEncoder):
    """An encoder of spectrograms of transformers, which takes them as [batch, frame, mel]."""

    def arguments(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return {"input_values": tensors["features"].transpose(1, 2)}


def build_audio_classifier(source: Source[AudioArchitecture]) -> TrainedModel:
    """Build a model that classifies a recording.

    Raises:
        CheckpointError: the caller gives examples, or as of `fbank_input` and `load_model`.
    """
    config = load_config(source.checkpoint)
    mels, frames, patch = int(config.num_mel_bins), int(config.max_length), int(config.patch_size)
    recording = fbank_input(source.checkpoint, mels=mels, frames=frames)
    # As `ASTEmbeddings.get_shape`: bands, then times of each.
    grid = (mels - patch) // int(config.frequency_stride) + 1, (frames - patch) // int(config.time_stride) + 1
    patches = recording.cells(*grid, leading=("class", "distillation"))
    maps = self_maps(int(config.num_hidden_layers), int(config.num_attention_heads), patches, "patch")
    hidden = HiddenStates(stack="encoder", labels=patches, layers=len(maps), size=int(config.hidden_size))
    several = config.problem_type == "multi_label_classification"
    card = source.card(
        summary="Classifies a recording.",
        inputs=[recording],
        results=[Classes(labels=labels_of(config), activation="sigmoid" if several else "softmax")],
        maps=maps,
        hidden=[hidden],
        max_audio_seconds=recording.seconds,
    )
    network = ImportedSpectrogramEncoder(
        load_model(source.checkpoint, "AutoModelForAudioClassification"),
        lambda output: {"logits": output.logits},
        list(maps),
        hidden.names,
    )
    return TrainedModel(network.eval(), card, made_recordings(source, recording), TrainingData(), ())
