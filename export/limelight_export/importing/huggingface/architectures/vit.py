"""ViT and DeiT: an encoder of a picture's patches."""

from limelight_export.importing.huggingface.architectures.architecture import VisionArchitecture, vision_fields
from limelight_models.cards.taxonomy import Citation

ARCHITECTURES = (
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
        leading=("class",),
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
    ),
)
