"""Levels in the catalogue, rows E1 to E4."""

import torch

from limelight_models.attention.core import Attention
from limelight_models.attention.levels import AttentionViaAttention, Hierarchical, TargetObject
from limelight_models.attention.score import General
from limelight_models.catalogue.examples import Inputs, Neighbours, calling, some
from limelight_models.catalogue.mechanism import FEATURES as D
from limelight_models.catalogue.mechanism import Mechanism, Sizes
from limelight_models.catalogue.testbed import aspect_forms, document_forms, letters_forms
from limelight_models.catalogue.testbed.document_forms import pool
from limelight_models.catalogue.testbed.form import attended
from limelight_models.catalogue.testbed.text import Scale


def single(s: Scale) -> Attention:
    """One level, by a general score."""
    return Attention(score=General(d_q=s.d, d_k=s.d))


def via_inputs(sizes: Sizes, generator: torch.Generator) -> Inputs:
    """One query an instance, `query` words and `key` characters; the first instance has no words."""
    return {
        "query": torch.randn(sizes.batch, 1, D, generator=generator),
        "words": torch.randn(sizes.batch, sizes.query, D, generator=generator),
        "characters": torch.randn(sizes.batch, sizes.key, D, generator=generator),
        "word_mask": some(generator, sizes.batch, sizes.query, empty=0),
        "character_mask": some(generator, sizes.batch, sizes.key),
    }


def document_inputs(sizes: Sizes, generator: torch.Generator) -> Inputs:
    """Documents of `query` sentences of `key` words; some sentences are padding, and the whole first document is."""
    words = torch.randn(sizes.batch, sizes.query, sizes.key, D, generator=generator)
    sentences = some(generator, sizes.batch, sizes.query, 1, empty=0)
    return {"words": words, "word_mask": some(generator, sizes.batch, sizes.query, sizes.key) & sentences}


def span_inputs(sizes: Sizes, generator: torch.Generator) -> Inputs:
    """Texts with a target span; the first instance has no target."""
    return {
        "text": torch.randn(sizes.batch, sizes.key, D, generator=generator),
        "span": some(generator, sizes.batch, sizes.key, empty=0),
        "text_mask": some(generator, sizes.batch, sizes.key),
    }


LEVELS: tuple[Mechanism, ...] = (
    Mechanism(
        row="E1",
        name="single-level",
        column="levels",
        module=Attention,
        make=single,
        served=attended(single, score="general"),
    ),
    Mechanism(
        row="E2",
        name="attention-via-attention",
        column="levels",
        module=AttentionViaAttention,
        make=letters_forms.asking_words,
        make_inputs=via_inputs,
        call=calling("query", "words", "characters", "word_mask", "character_mask"),
        outputs=("context", "word_weights", "character_weights"),
        axes={
            "query": ("batch", None, None),
            "words": ("batch", "query", None),
            "characters": ("batch", "key", None),
            "word_mask": ("batch", "query"),
            "character_mask": ("batch", "key"),
        },
        served=letters_forms.via(),
        note="a decoder's state asks three times, as the paper's does at each character that it writes; here it says "
        "classes. A word's letters follow from its id, so that a word outside the vocabulary has none",
    ),
    Mechanism(
        row="E3",
        name="hierarchical",
        column="levels",
        module=Hierarchical,
        make=lambda s: Hierarchical(word=pool(s), sentence=pool(s)),
        make_inputs=document_inputs,
        call=calling("words", "word_mask"),
        outputs=("document", "word_weights", "sentence_weights"),
        axes={"words": ("batch", "query", "key", None), "word_mask": ("batch", "query", "key")},
        served=document_forms.hierarchical(pool, pool),
    ),
    Mechanism(
        row="E3",
        name="hierarchical, sentences read in order",
        column="levels",
        module=Hierarchical,
        make=lambda s: Hierarchical(word=pool(s), sentence=pool(s), encode=Neighbours(d_in=s.d, d_out=s.d)),
        make_inputs=document_inputs,
        call=calling("words", "word_mask"),
        outputs=("document", "word_weights", "sentence_weights"),
        axes={"words": ("batch", "query", "key", None), "word_mask": ("batch", "query", "key")},
        served=document_forms.hierarchical(pool, pool, read_in_order=True),
    ),
    Mechanism(
        row="E4",
        name="target-object hierarchy",
        column="levels",
        module=TargetObject,
        make=aspect_forms.from_target,
        make_inputs=span_inputs,
        call=calling("text", "span", "text_mask"),
        outputs=("context", "target_weights", "text_weights"),
        axes={"text": ("batch", "key", None), "span": ("batch", "key"), "text_mask": ("batch", "key")},
        served=aspect_forms.target_object(),
    ),
)
