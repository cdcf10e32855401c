"""ALBERT, whose layers share weights."""

from typing import Any

from limelight_export.importing.huggingface.architectures.architecture import (
    EncoderArchitecture,
    PackingPlaces,
    encoder_fields,
)
from limelight_export.importing.huggingface.fields import one_of
from limelight_models.cards.taxonomy import Citation


def _maps(config: Any) -> int:
    return int(config.num_hidden_layers) * int(config.inner_group_num)


ARCHITECTURES = (
    EncoderArchitecture(
        model_type="albert",
        title="ALBERT",
        citation=Citation(
            "Lan, Chen, Goodman, Gimpel, Sharma, Soricut",
            "ALBERT: A Lite BERT for Self-supervised Learning of Language Representations",
            2020,
            "ICLR",
        ),
        fields=encoder_fields(
            "type_vocab_size embedding_size num_hidden_groups inner_group_num",
            harmless="classifier_dropout_prob",
            # Read by no released class; other values are models of another structure.
            only={
                "gap_size": one_of(0),
                "net_structure_type": one_of(0),
                "num_memory_blocks": one_of(0),
                "down_scale_factor": one_of(1),
                "layers_to_keep": one_of([]),
            },
        ),
        maps=_maps,
        packing=PackingPlaces(
            packed="embeddings",
            unpacked=r"encoder\..*\.attention\.(query|key|value)|encoder",
            packed_inputs=r"encoder\..*\.attention\.dense",
        ),
    ),
)
