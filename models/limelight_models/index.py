"""Every model that can be trained, by name. Light to import: a model's module is imported when the model is wanted.

A published model has one line in `ZOO`. Its recipe is the constant of its name in its module: `lcr-rot-hop` is
`LCR_ROT_HOP`. A variant is what the published model is compared with: `lcr-rot-hop-one` is `LCR_ROT_HOP_ONE`. Every
model has two controls besides, which need no line: NAME-uniform, with the same weight for every key, and NAME-frozen,
whose attention keeps the random parameters it began with. The model `mechanism` is made for a mechanism of the
catalogue.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from limelight.base.suggestions import similar

if TYPE_CHECKING:
    from limelight_models.recipes.recipe import Recipe


class Entry(NamedTuple):
    """A published model: its row of the catalogue of systems (empty for none), its module, endings of its variants."""

    row: str
    module: str
    variants: str = ""


ZOO = {
    "bahdanau": Entry("J1", "rnn_search.bahdanau", "last coverage"),
    "agreement": Entry("R8", "rnn_search.agreement", "apart"),
    "gru-gated": Entry("P11", "rnn_search.gru_gated"),
    "luong": Entry("J2", "rnn_search.luong", "dot concat location local-m local-p unfed"),
    "show-attend-tell": Entry("J3", "captioning.show_attend_tell", "hard free untaught supervised"),
    "listen-attend-spell": Entry("K14", "speech.listen_attend_spell", "location flat"),
    "joint-ctc": Entry("R21", "speech.joint_ctc", "attention"),
    "hiecoatt": Entry("J4", "co_attention.hiecoatt", "alternating question image supervised"),
    "han": Entry("J5", "hierarchical.han", "mean"),
    "han-code": Entry("J5", "hierarchical.han", "supervised"),
    "hatn": Entry("J6", "hierarchical.hatn", "source pnet"),
    "transformer": Entry("J7", "transformer.transformer"),
    "lcr-rot-hop": Entry("J8", "aspects.lcr_rot", "one"),
    "cmla": Entry("K28", "aspects.cmla", "apart one"),
    "deep-memory": Entry("R3", "aspects.deep_memory", "features gate none"),
    "dme": Entry("J9", "meta_embeddings.dme", "contextualised concatenated neighbours spelling learned"),
    "disan": Entry("J10", "disan.disan", "bilstm"),
    "resan": Entry("L15", "disan.resan", "soft"),
    "bi-blosan": Entry("L15", "disan.blosan", "within"),
    "sagan": Entry("J11", "generative.sagan", "plain"),
    "psac": Entry("J12", "co_attention.psac", "question video"),
    "memn2n": Entry("K3", "memory.memn2n", "one"),
    "dmn": Entry("K4", "memory.dmn", "one free"),
    "ntm": Entry("K5", "memory.ntm", "lstm content"),
    "lstmn": Entry("K8", "memory.lstmn", "plain"),
    "associative-memory": Entry("P16", "memory.associative", "items"),
    "key-value-predict": Entry("R4", "memory.key_value_predict", "two one"),
    "aoa-reader": Entry("K11", "reading.aoa_reader", "average"),
    "attentive-reader": Entry("R14", "reading.attentive_reader"),
    "gated-reader": Entry("R14", "reading.gated_reader", "one"),
    "iterative-reader": Entry("R15", "reading.iterative_reader", "one ungated"),
    "abae": Entry("P24", "sentences.abae", "alike"),
    "attention-xml": Entry("K18", "sentences.attention_xml", "shared"),
    "label-wise-lstm": Entry("K17", "sentences.label_wise", "shared"),
    "diversity-lstm": Entry("K23", "sentences.diversity", "plain orthogonal"),
    "san": Entry("K10", "co_attention.san", "one"),
    "lxmert": Entry("K22", "co_attention.lxmert", "one"),
    "visualbert": Entry("K22", "co_attention.visualbert", "late"),
    "mcan": Entry("K26", "co_attention.mcan", "stacked one four"),
    "sequence-parser": Entry("P14", "rnn_search.sequence_parser", "last"),
    "attention-summary": Entry("P9", "summaries.attention_summary"),
    "pointer-generator": Entry("R6", "summaries.pointer_generator", "writing uncovered"),
    "pointer-network": Entry("K2", "pointers.pointer_network", "fixed"),
    "qanet": Entry("J13", "reading.qanet", "convolved"),
    "rban": Entry("J14", "aspects.rban", "soft"),
    "attention-unet": Entry("J15", "segmentation.attention_unet", "features"),
    "mme": Entry("J16", "meta_embeddings.mme", "words characters neighbours spelling learned"),
    "lisa": Entry("P15", "sentences.lisa", "free"),
    "syntax-attention": Entry("P13", "sentences.syntax_attention", "text gaussian"),
    "coreference": Entry("P15", "sentences.coreference"),
    "biaffine": Entry("P14", "sentences.biaffine", "shallow"),
    "rnn-capsule": Entry("J17", "capsule.rnn_capsule", "probability"),
    "gat": Entry("K6", "graph.gat", "mean v2"),
    "gaan": Entry("K19", "graph.gaan", "ungated"),
    "ggru": Entry("K19", "graph.ggru", "ungated"),
    "localness": Entry("R1", "transformer.localness", "layer fixed none"),
    "adaptively-sparse": Entry("M19", "transformer.adaptively_sparse"),
    "fixed-heads": Entry("L14", "transformer.fixed_heads", "divided"),
    "synthesizer": Entry("L17", "transformer.synthesizer", "random factored random-factored mixed random-mixed"),
    "monotonic-multihead": Entry("P20", "transformer.monotonic_multihead", "one"),
    "transparent": Entry("P12", "transformer.transparent", "last"),
    "universal": Entry("L5", "transformer.universal", "fixed copied"),
    "decomposable-attention": Entry("K9", "sentence_pairs.decomposable", "within"),
    "entity-co-attention": Entry("P15", "sentence_pairs.entity_co_attention"),
    "attentive-pooling": Entry("K12", "sentence_pairs.attentive_pooling", "largest"),
    "abcnn": Entry("R9", "sentence_pairs.abcnn", "input pooling plain"),
    "word-by-word": Entry("R7", "sentence_pairs.word_by_word", "once"),
    "structured": Entry("K16", "sentences.structured", "free one"),
    "gpt": Entry("L2", "transformer.gpt"),
    "linear-gpt": Entry("M4", "transformer.linear_gpt"),
    "latent-attention": Entry("T3", "transformer.latent_attention", "separate"),
    "image-gpt": Entry("L6", "transformer.image_gpt"),
    "image-transformer": Entry("L6", "transformer.image_transformer", "whole"),
    "vit": Entry("L7", "vision.vit"),
    "deit": Entry("L7", "vision.deit", "soft label"),
    "xcit": Entry("M17", "vision.xcit", "local"),
    "stand-alone": Entry("L16", "vision.stand_alone", "unplaced"),
    "axial": Entry("L16", "vision.axial", "unplaced"),
    "hvt": Entry("M21", "vision.hvt", "whole"),
    "minilm": Entry("P22", "vision.minilm", "alone"),
    "linear-transformer": Entry("M4", "long.linear_transformer", "causal softmax softmax-causal"),
    "performer": Entry("M5", "long.performer", "causal independent trigonometric"),
    "relative-kernel": Entry("M18", "long.relative_kernel", "unnormalised causal"),
    "efficient-attention": Entry("R10", "long.efficient", "scaling"),
    "random-features": Entry("M10", "long.random_features", "causal gated"),
    "linformer": Entry("M3", "long.linformer", "shared"),
    "nystromformer": Entry("M11", "long.nystromformer", "plain"),
    "skyformer": Entry("M11", "long.skyformer"),
    "softmax-free": Entry("M12", "long.softmax_free"),
    "set-transformer": Entry("M9", "latents.set_transformer", "whole mean"),
    "luna": Entry("M15", "latents.luna", "tied"),
    "perceiver": Entry("L20", "latents.perceiver", "apart once"),
    "bigbird": Entry("M8", "long.bigbird", "window random"),
    "sparse-transformer": Entry("M1", "long.sparse_transformer", "strided local"),
    "long-short": Entry("M16", "long.long_short", "plain"),
    "fmmformer": Entry("M14", "long.fmmformer", "one far"),
    "routing-transformer": Entry("M6", "long.routing_transformer", "local"),
    "sinkhorn": Entry("M7", "long.sinkhorn", "sortcut"),
    "native-sparse": Entry("T5", "long.native_sparse", "window"),
    "deepseek-sparse": Entry("T5", "long.deepseek_sparse", "last"),
    "reformer": Entry("M2", "long.reformer", "one"),
    "yoso": Entry("M13", "long.yoso", "expected"),
    "mamba-2": Entry("T9", "long.mamba", "fixed"),
    "gated-deltanet": Entry("T4", "long.gated_deltanet", "ungated kimi"),
    "forgetting-transformer": Entry("T8", "long.forgetting", "ungated"),
    "stick-breaking": Entry("T10", "long.stick_breaking", "softmax"),
    "differential-transformer": Entry("T2", "long.differential", "softmax"),
    "gated-attention": Entry("T1", "long.gated_attention", "ungated"),
    "sinks": Entry("T7", "long.sinks", "softmax whole"),
    "dynamic-span": Entry("R2", "long.dynamic_span", "head none"),
    "rotary": Entry("T6", "long.rotary", "bias none"),
    "cct": Entry("", "vision.cct", "supervised"),
}
CONTROLS = ("uniform", "frozen")  # as `limelight_models.recipes.controls` has them
ALIGNMENTS = ("sparsemax", "1.5-entmax", "sigmoid")  # as `limelight_models.recipes.alignments` has them
MECHANISM = "mechanism"


def names() -> tuple[str, ...]:
    """Every name that can be trained but those of controls: published models, each before its variants, `mechanism`."""
    return (*(name for model in ZOO for name in (model, *variants(model))), MECHANISM)


def variants(model: str) -> tuple[str, ...]:
    """The names of a published model's variants."""
    return tuple(f"{model}-{ending}" for ending in ZOO[model].variants.split())


def published(name: str) -> str:
    """The published model that a name stands for, or is a variant of. Raises: ValueError where there is none."""
    return max((each for each in ZOO if name == each or name.startswith(f"{each}-")), key=len)


def module(model: str) -> str:
    """The full name of a published model's module."""
    return f"limelight_models.zoo.{ZOO[model].module}"


def recipe(name: str, mechanism: str = "", attention: str = "") -> "Recipe[Any]":
    """Find a recipe; attention: the alignment in the place of the model's softmax, empty for its own.

    Raises: DataError naming those there are, or saying that a mechanism is wanted, or not.
    """
    from limelight_models.data.dataset import DataError

    if attention:
        if name == MECHANISM:
            raise DataError(f"the model `{MECHANISM}` takes its attention with --mechanism")
        if attention not in ALIGNMENTS:
            close = similar(attention, ALIGNMENTS)
            raise DataError(f"there is no --attention {attention!r}; there are {', '.join(ALIGNMENTS)}{close}")
        from limelight_models.recipes.alignments import exchanged

        return exchanged(recipe(name, mechanism), name, attention)
    if name == MECHANISM:
        from limelight_models.catalogue.recipe import recipe_of

        return recipe_of(mechanism)
    known = names()
    model, _, control = name.rpartition("-")
    if name not in known and model in known and control in CONTROLS:
        from limelight_models.recipes.controls import controlled

        return controlled(recipe(model, mechanism), control)
    if name not in known:
        raise DataError(
            f"there is no model {name!r}; there are {', '.join(known)}, each with -{' and -'.join(CONTROLS)} as well"
            f"{similar(name, known)}"
        )
    if mechanism:
        raise DataError(
            f"{name} has a mechanism of its own; only the model `{MECHANISM}` takes another. --attention exchanges the "
            f"softmax of a model: {', '.join(ALIGNMENTS)}"
        )
    constant = name.upper().replace("-", "_")
    found: Recipe[Any] = getattr(import_module(module(published(name))), constant)
    return found
