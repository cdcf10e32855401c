"""Models of pictures, and of spectrograms that are read as such."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures.architecture import (
    ENCODES,
    WRITES,
    Architecture,
    EncoderArchitecture,
    Kind,
    VisionArchitecture,
    vision_fields,
)
from limelight_export.importing.huggingface.fields import Condition, Fields, fields, one_of
from limelight_models.cards.taxonomy import Citation

_CLIP = Citation(
    "Radford, Kim, Hallacy, Ramesh, Goh, Agarwal, Sastry, Askell, Mishkin, Clark, Krueger, Sutskever",
    "Learning Transferable Visual Models From Natural Language Supervision",
    2021,
    "ICML",
)
_SIGLIP = Citation("Zhai, Mustafa, Kolesnikov, Beyer", "Sigmoid Loss for Language Image Pre-Training", 2023, "ICCV")
_TOWER_FIELDS = "hidden_size intermediate_size num_hidden_layers num_attention_heads hidden_act layer_norm_eps"


@dataclass(frozen=True)
class Towers:
    """The modules of two encoders: names of transformers' classes, outputs and fields of configurations.

    Attributes:
        whole, text, vision: classes of both together, and of each.
        text_vector, vision_vector: outputs that are vectors.
        text_size, vision_size: fields of their sizes.
    """

    whole: str
    text: str
    vision: str
    text_vector: str
    vision_vector: str
    text_size: str
    vision_size: str


@dataclass(frozen=True, kw_only=True)
class TwoTowerArchitecture(Architecture):
    """An encoder of pictures and one of texts; each has fields of its own.

    Attributes:
        towers: their modules.
        fills_texts: whether texts are filled up with padding, which the encoder reads as it does other tokens.
        pools: whether attention pools a picture.
        activation: of the scores of texts: one of them belongs to a picture, or any number.
    """

    kind: ClassVar[Kind] = "two-tower"
    text: EncoderArchitecture
    vision: VisionArchitecture
    towers: Towers
    fills_texts: bool = False
    pools: bool = False
    activation: Literal["softmax", "sigmoid"] = "softmax"

    def check_parts(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the fields of both towers that change nothing. Raises CheckpointError as of `Fields.check`."""
        towers = {"text_config": self.text, "vision_config": self.vision}
        found: set[str] = set()
        for name, tower in towers.items():
            # transformers takes the fields of the second in place of the first.
            for stated in (config.get(name) or {}, config.get(f"{name}_dict") or {}):
                if not isinstance(stated, Mapping):
                    raise CheckpointError(f"config.json states a {name} that is not an object")
                found.update(tower.fields.check({"model_type": tower.model_type, **stated}))
        return tuple(sorted(found))


_WITHOUT_POOLER = {"add_pooling_layer": False}
_DINO_FIELDS = "mlp_ratio use_swiglu_ffn layerscale_value"
# Of training, and of a backbone of other models.
_BACKBONE_FIELDS = "apply_layernorm reshape_hidden_states out_features out_indices stage_names drop_path_rate"


def _tower_fields(used: str, only: Mapping[str, Condition] | None = None) -> Fields:
    return fields(f"{_TOWER_FIELDS} {used}", harmless="attention_dropout dropout", only={**ENCODES, **(only or {})})


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


@dataclass(frozen=True, kw_only=True)
class StagedArchitecture(Architecture):
    """An encoder of a picture in stages of ever fewer cells, which attend to a coarser grid of their own."""

    kind: ClassVar[Kind] = "staged-vision"


@dataclass(frozen=True, kw_only=True)
class AudioArchitecture(Architecture):
    """An encoder of a spectrogram of one size, cut into square patches that overlap."""

    kind: ClassVar[Kind] = "audio"


@dataclass(frozen=True, kw_only=True)
class TokenDetectionArchitecture(Architecture):
    """An encoder of a picture's patches, and of tokens beside them that each find an object."""

    kind: ClassVar[Kind] = "token-detection"


# Of training.
_LOSSES = """
    auxiliary_loss class_cost bbox_cost giou_cost bbox_loss_coefficient giou_loss_coefficient eos_coefficient
"""


ARCHITECTURES = (
    # ViT and DeiT: an encoder of a picture's patches.
    VisionArchitecture(
        model_type="vit",
        title="ViT",
        citation=Citation(
            "Dosovitskiy, Beyer, Kolesnikov, Weissenborn, Zhai, Unterthiner, Dehghani, Minderer, Heigold, Gelly, "
            "Uszkoreit, Houlsby",
            "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale",
            2021,
            "ICLR",
        ),
        fields=vision_fields(),
        options=_WITHOUT_POOLER,
    ),
    VisionArchitecture(
        model_type="deit",
        title="DeiT",
        citation=Citation(
            "Touvron, Cord, Douze, Massa, Sablayrolles, Jégou",
            "Training data-efficient image transformers & distillation through attention",
            2021,
            "ICML",
        ),
        fields=vision_fields(),
        leading=("class", "distillation"),
        options=_WITHOUT_POOLER,
    ),
    VisionArchitecture(
        model_type="vit_msn",
        title="ViT-MSN",
        citation=Citation(
            "Assran, Caron, Misra, Bojanowski, Bordes, Vincent, Joulin, Rabbat, Ballas",
            "Masked Siamese Networks for Label-Efficient Learning",
            2022,
            "ECCV",
        ),
        fields=vision_fields(),
    ),
    # DINOv2, whose processors make smaller pictures than it has positions for.
    VisionArchitecture(
        model_type="dinov2",
        title="DINOv2",
        citation=Citation(
            "Oquab, Darcet, Moutakanni, Vo, Szafraniec, Khalidov, Fernandez, Haziza, Massa, El-Nouby, Assran, Ballas, "
            "Galuba, Howes, Huang, Li, Misra, Rabbat, Sharma, Synnaeve, Xu, Jégou, Mairal, Labatut, Joulin, Bojanowski",
            "DINOv2: Learning Robust Visual Features without Supervision",
            2024,
            "TMLR",
        ),
        fields=vision_fields(_DINO_FIELDS + " use_mask_token", harmless=_BACKBONE_FIELDS),
        interpolates=True,
    ),
    VisionArchitecture(
        model_type="dinov2_with_registers",
        title="DINOv2 with registers",
        citation=Citation("Darcet, Oquab, Mairal, Bojanowski", "Vision Transformers Need Registers", 2024, "ICLR"),
        fields=vision_fields(_DINO_FIELDS + " num_register_tokens", harmless=_BACKBONE_FIELDS),
        interpolates=True,
    ),
    # BEiT, whose scores have a bias by relative position, of a layer or of all.
    VisionArchitecture(
        model_type="beit",
        title="BEiT",
        citation=Citation("Bao, Dong, Piao, Wei", "BEiT: BERT Pre-Training of Image Transformers", 2022, "ICLR"),
        fields=vision_fields(
            "use_mask_token use_absolute_position_embeddings use_relative_position_bias "
            "use_shared_relative_position_bias use_mean_pooling layer_scale_init_value",
            # Of heads that are not imported.
            harmless=f"""
            {_BACKBONE_FIELDS} vocab_size pool_scales use_auxiliary_head auxiliary_loss_weight auxiliary_channels
            auxiliary_num_convs auxiliary_concat_input semantic_loss_ignore_index add_fpn segmentation_indices
            """,
        ),
        is_pooled=True,
    ),
    # SegFormer, whose keys a convolution makes fewer.
    StagedArchitecture(
        model_type="segformer",
        title="SegFormer",
        citation=Citation(
            "Xie, Wang, Yu, Anandkumar, Alvarez, Luo",
            "SegFormer: Simple and Efficient Design for Semantic Segmentation with Transformers",
            2021,
            "NeurIPS",
        ),
        fields=fields(
            """
            num_channels num_encoder_blocks depths sr_ratios hidden_sizes patch_sizes strides num_attention_heads
            mlp_ratios hidden_act layer_norm_eps decoder_hidden_size reshape_last_stage
            """,
            # Of training, and of other versions, whose modules did not read them either.
            harmless="""
            hidden_dropout_prob attention_probs_dropout_prob classifier_dropout_prob drop_path_rate
            semantic_loss_ignore_index image_size downsampling_rates pad_token_id tie_word_embeddings
            """,
            only=ENCODES,
        ),
    ),
    # CLIP: an encoder of pictures and one of texts, whose vectors are compared.
    TwoTowerArchitecture(
        model_type="clip",
        title="CLIP",
        citation=_CLIP,
        fields=fields(
            "text_config vision_config text_config_dict vision_config_dict projection_dim logit_scale_init_value",
            harmless="tie_word_embeddings",
            only=ENCODES,
        ),
        text=EncoderArchitecture(
            model_type="clip_text_model",
            title="CLIP",
            citation=_CLIP,
            fields=_tower_fields("projection_dim vocab_size max_position_embeddings pad_token_id tie_word_embeddings"),
        ),
        vision=VisionArchitecture(
            model_type="clip_vision_model",
            title="CLIP",
            citation=_CLIP,
            fields=_tower_fields("projection_dim num_channels image_size patch_size tie_word_embeddings"),
        ),
        towers=Towers(
            "CLIPModel",
            "CLIPTextModelWithProjection",
            "CLIPVisionModelWithProjection",
            text_vector="text_embeds",
            vision_vector="image_embeds",
            text_size="projection_dim",
            vision_size="projection_dim",
        ),
    ),
    # SigLIP: the same without a class token, and a score for each text by itself.
    TwoTowerArchitecture(
        model_type="siglip",
        title="SigLIP",
        citation=_SIGLIP,
        fields=fields("text_config vision_config", harmless="tie_word_embeddings", only=ENCODES),
        text=EncoderArchitecture(
            model_type="siglip_text_model",
            title="SigLIP",
            citation=_SIGLIP,
            fields=_tower_fields("vocab_size max_position_embeddings projection_size pad_token_id"),
        ),
        vision=VisionArchitecture(
            model_type="siglip_vision_model",
            title="SigLIP",
            citation=_SIGLIP,
            fields=_tower_fields("num_channels image_size patch_size", {"vision_use_head": one_of(True)}),
            leading=(),
        ),
        towers=Towers(
            "SiglipModel",
            "SiglipTextModel",
            "SiglipVisionModel",
            text_vector="pooler_output",
            vision_vector="pooler_output",
            text_size="projection_size",
            vision_size="hidden_size",
        ),
        fills_texts=True,
        pools=True,
        activation="sigmoid",
    ),
    # DETR: a convolutional network, an encoder of its cells, and a decoder whose queries each find an object.
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
            harmless=f"""
            {_LOSSES} dropout attention_dropout activation_dropout classifier_dropout encoder_layerdrop
            decoder_layerdrop init_std init_xavier_std mask_loss_coefficient dice_loss_coefficient num_hidden_layers
            max_position_embeddings scale_embedding use_pretrained_backbone tie_word_embeddings pad_token_id
            """,
            only={
                **WRITES,
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
            only=ENCODES,
        ),
    ),
    TokenDetectionArchitecture(
        model_type="yolos",
        title="YOLOS",
        citation=Citation(
            "Fang, Liao, Wang, Fang, Qi, Wu, Niu, Liu",
            "You Only Look at One Sequence: Rethinking Transformer in Vision through Object Detection",
            2021,
            "NeurIPS",
        ),
        fields=vision_fields("num_detection_tokens use_mid_position_embeddings", harmless=_LOSSES),
    ),
    AudioArchitecture(
        model_type="audio-spectrogram-transformer",
        title="AST",
        citation=Citation("Gong, Chung, Glass", "AST: Audio Spectrogram Transformer", 2021, "Interspeech"),
        fields=vision_fields("frequency_stride time_stride max_length num_mel_bins"),
    ),
)
