"""Every model that can be trained, by name -> where its recipe is: no module is imported before its model is wanted.

Those after a dash are what attention is compared with. Every model has two controls besides, which need no line here:
NAME-uniform, with the same weight for every key, and NAME-frozen, whose attention keeps the random parameters it began
with. `mechanism` is made for a mechanism of the registry. Light to import, so that the command line can list the names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models.training.recipe import Recipe

MODELS = {
    "han": "models.zoo.hierarchical.han:HAN",
    "han-code": "models.zoo.hierarchical.han:HAN_CODE",
    "han-code-supervised": "models.zoo.hierarchical.han:HAN_CODE_SUPERVISED",
    "han-mean": "models.zoo.hierarchical.han:HAN_MEAN",
    "bahdanau": "models.zoo.rnn_search.bahdanau:BAHDANAU",
    "bahdanau-last": "models.zoo.rnn_search.bahdanau:BAHDANAU_LAST",
    "luong": "models.zoo.rnn_search.luong:LUONG",
    "luong-dot": "models.zoo.rnn_search.luong:LUONG_DOT",
    "luong-concat": "models.zoo.rnn_search.luong:LUONG_CONCAT",
    "luong-location": "models.zoo.rnn_search.luong:LUONG_LOCATION",
    "luong-local-m": "models.zoo.rnn_search.luong:LUONG_LOCAL_M",
    "luong-local-p": "models.zoo.rnn_search.luong:LUONG_LOCAL_P",
    "luong-unfed": "models.zoo.rnn_search.luong:LUONG_UNFED",
    "gat": "models.zoo.graph.gat:GAT",
    "gat-mean": "models.zoo.graph.gat:GAT_MEAN",
    "vit": "models.zoo.vision.vit:VIT",
    "cct": "models.zoo.vision.cct:CCT",
    "cct-supervised": "models.zoo.vision.cct:CCT_SUPERVISED",
    "transformer": "models.zoo.transformer.transformer:TRANSFORMER",
    "gpt": "models.zoo.transformer.gpt:GPT",
    "rnn-capsule": "models.zoo.capsule.rnn_capsule:RNN_CAPSULE",
    "rnn-capsule-probability": "models.zoo.capsule.rnn_capsule:RNN_CAPSULE_PROBABILITY",
    "disan": "models.zoo.disan.disan:DISAN",
    "disan-bilstm": "models.zoo.disan.disan:DISAN_BILSTM",
    "dme": "models.zoo.meta_embeddings.dme:DME",
    "dme-contextualised": "models.zoo.meta_embeddings.dme:DME_CONTEXTUALISED",
    "dme-neighbours": "models.zoo.meta_embeddings.dme:DME_NEIGHBOURS",
    "dme-spelling": "models.zoo.meta_embeddings.dme:DME_SPELLING",
    "dme-learned": "models.zoo.meta_embeddings.dme:DME_LEARNED",
    "mme": "models.zoo.meta_embeddings.mme:MME",
    "mme-words": "models.zoo.meta_embeddings.mme:MME_WORDS",
    "mme-characters": "models.zoo.meta_embeddings.mme:MME_CHARACTERS",
    "mme-neighbours": "models.zoo.meta_embeddings.mme:MME_NEIGHBOURS",
    "mme-spelling": "models.zoo.meta_embeddings.mme:MME_SPELLING",
    "mme-learned": "models.zoo.meta_embeddings.mme:MME_LEARNED",
    "show-attend-tell": "models.zoo.captioning.show_attend_tell:SHOW_ATTEND_TELL",
    "show-attend-tell-hard": "models.zoo.captioning.show_attend_tell:SHOW_ATTEND_TELL_HARD",
    "show-attend-tell-free": "models.zoo.captioning.show_attend_tell:SHOW_ATTEND_TELL_FREE",
    "show-attend-tell-untaught": "models.zoo.captioning.show_attend_tell:SHOW_ATTEND_TELL_UNTAUGHT",
    "show-attend-tell-supervised": "models.zoo.captioning.show_attend_tell:SHOW_ATTEND_TELL_SUPERVISED",
    "attention-unet": "models.zoo.segmentation.attention_unet:ATTENTION_UNET",
    "attention-unet-features": "models.zoo.segmentation.attention_unet:ATTENTION_UNET_FEATURES",
    "sagan": "models.zoo.generative.sagan:SAGAN",
    "sagan-plain": "models.zoo.generative.sagan:SAGAN_PLAIN",
    "hiecoatt": "models.zoo.co_attention.hiecoatt:HIECOATT",
    "hiecoatt-alternating": "models.zoo.co_attention.hiecoatt:HIECOATT_ALTERNATING",
    "hiecoatt-question": "models.zoo.co_attention.hiecoatt:HIECOATT_QUESTION",
    "hiecoatt-image": "models.zoo.co_attention.hiecoatt:HIECOATT_IMAGE",
    "hiecoatt-supervised": "models.zoo.co_attention.hiecoatt:HIECOATT_SUPERVISED",
    "mcan": "models.zoo.co_attention.mcan:MCAN",
    "mcan-stacked": "models.zoo.co_attention.mcan:MCAN_STACKED",
    "mcan-one": "models.zoo.co_attention.mcan:MCAN_ONE",
    "mcan-four": "models.zoo.co_attention.mcan:MCAN_FOUR",
    "psac": "models.zoo.co_attention.psac:PSAC",
    "psac-question": "models.zoo.co_attention.psac:PSAC_QUESTION",
    "psac-video": "models.zoo.co_attention.psac:PSAC_VIDEO",
    "lcr-rot-hop": "models.zoo.aspects.lcr_rot:LCR_ROT_HOP",
    "lcr-rot-hop-one": "models.zoo.aspects.lcr_rot:LCR_ROT_ONE",
    "rban": "models.zoo.aspects.rban:RBAN",
    "rban-soft": "models.zoo.aspects.rban:RBAN_SOFT",
    "hatn": "models.zoo.hierarchical.hatn:HATN",
    "hatn-source": "models.zoo.hierarchical.hatn:HATN_SOURCE",
    "hatn-pnet": "models.zoo.hierarchical.hatn:HATN_PNET",
    "mechanism": "models.testbed.recipe:recipe_of",
}

# Published models, and the row of the catalogue of each that has one; other names are variants of these, after a dash.
PUBLISHED = {
    "bahdanau": "J1",
    "luong": "J2",
    "show-attend-tell": "J3",
    "hiecoatt": "J4",
    "han": "J5",
    "han-code": "J5",
    "hatn": "J6",
    "transformer": "J7",
    "lcr-rot-hop": "J8",
    "dme": "J9",
    "disan": "J10",
    "sagan": "J11",
    "psac": "J12",
    "mcan": "J13",
    "rban": "J14",
    "attention-unet": "J15",
    "mme": "J16",
    "rnn-capsule": "J17",
    "gat": "K6",
    "gpt": "L2",
    "vit": "L7",
    "cct": "",
}

CONTROLS = ("uniform", "frozen")  # as `models.zoo.controls` has them


def published(name: str) -> str:
    """The published model that a name stands for, or is a variant of. Raises: ValueError where there is none."""
    return max((each for each in PUBLISHED if name == each or name.startswith(f"{each}-")), key=len)


def recipe(name: str, mechanism: str = "") -> "Recipe[Any]":
    """Find a recipe. Raises: DataError naming those there are, or saying that a mechanism is wanted, or not."""
    from models.data.dataset import DataError
    from models.training.recipe import Recipe

    model, _, control = name.rpartition("-")
    if name not in MODELS and model in MODELS and control in CONTROLS:
        from models.zoo.controls import controlled

        return controlled(recipe(model, mechanism), control)
    if name not in MODELS:
        raise DataError(
            f"there is no model {name!r}; there are {', '.join(MODELS)}, each with -{' and -'.join(CONTROLS)} as well"
        )
    module, _, attribute = MODELS[name].partition(":")
    found: Any = getattr(import_module(module), attribute)
    if isinstance(found, Recipe):
        if mechanism:
            raise DataError(f"{name} has a mechanism of its own; only the model `mechanism` takes another")
        return found
    made: Recipe[Any] = found(mechanism)
    return made
