"""DETR: a convolutional network, an encoder of its cells, and a decoder whose queries each find an object."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures.architecture import Architecture, Kind
from limelight_export.importing.huggingface.fields import PLAIN, Condition, Fields, fields, one_of
from limelight_models.cards.taxonomy import Citation

_BACKBONE = "resnet"
_NO_TIMM = "a backbone of timm is not read; the revision no_timm of DETR's own checkpoints has one of transformers"


@dataclass(frozen=True, kw_only=True)
class DetectionArchitecture(Architecture):
    """A model that finds objects in a picture, behind a backbone with fields of its own."""

    kind: ClassVar[Kind] = "detection"
    backbone: Fields

    def check_parts(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the fields of the backbone that change nothing.

        Raises:
            CheckpointError: it is another network than a ResNet of transformers, or as of `Fields.check`.
        """
        stated = config.get("backbone_config")
        # transformers takes one of timm where none is stated.
        if not isinstance(stated, Mapping) or stated.get("model_type") == "timm_backbone":
            raise CheckpointError(f"config.json states no backbone_config of transformers: {_NO_TIMM}")
        if stated.get("model_type") != _BACKBONE:
            raise CheckpointError(
                f"config.json states a backbone_config of {stated.get('model_type')!r}; it can be {_BACKBONE!r}"
            )
        return self.backbone.check(stated)


ARCHITECTURES = (
    DetectionArchitecture(
        model_type="detr",
        title="DETR",
        citation=Citation(
            "Carion, Massa, Synnaeve, Usunier, Kirillov, Zagoruyko",
            "End-to-End Object Detection with Transformers",
            2020,
            "ECCV",
        ),
        fields=fields(
            """
            backbone_config num_channels num_queries d_model encoder_layers encoder_ffn_dim encoder_attention_heads
            decoder_layers decoder_ffn_dim decoder_attention_heads activation_function
            """,
            harmless="""
            dropout attention_dropout activation_dropout classifier_dropout encoder_layerdrop decoder_layerdrop init_std
            init_xavier_std auxiliary_loss class_cost bbox_cost giou_cost mask_loss_coefficient dice_loss_coefficient
            bbox_loss_coefficient giou_loss_coefficient eos_coefficient num_hidden_layers max_position_embeddings
            scale_embedding use_pretrained_backbone tie_word_embeddings pad_token_id
            """,
            only={
                **PLAIN,
                "is_encoder_decoder": one_of(True),
                "is_decoder": one_of(False),
                "position_embedding_type": one_of("sine"),
                # transformers applies these to backbones of timm alone.
                "use_timm_backbone": Condition(f"False: {_NO_TIMM}", lambda value: not value),
                "backbone": one_of(None),
                "backbone_kwargs": one_of(None, {}),
                "dilation": one_of(False, None),
            },
        ),
        backbone=fields(
            """
            num_channels embedding_size hidden_sizes depths layer_type hidden_act downsample_in_first_stage
            downsample_in_bottleneck out_features out_indices stage_names
            """,
            harmless="tie_word_embeddings pad_token_id",
            only={**PLAIN, "is_encoder_decoder": one_of(False), "is_decoder": one_of(False)},
        ),
    ),
)
