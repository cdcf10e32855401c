"""Small untrained models of the zoo, made the same way every time, and batches for them."""

from typing import Any

import torch
from torch import Tensor

from models.cards.card import Card
from models.data import tokenizers
from models.network import Answer, Network
from models.training.recipe import Blueprint
from models.zoo.aspects.lcr_rot import LcrRotConfig
from models.zoo.aspects.rban import RbanConfig
from models.zoo.capsule.rnn_capsule import RnnCapsuleConfig
from models.zoo.captioning.show_attend_tell import ShowAttendTellConfig
from models.zoo.co_attention.hiecoatt import HieCoAttConfig
from models.zoo.co_attention.mcan import McanConfig
from models.zoo.co_attention.psac import PsacConfig
from models.zoo.disan.disan import DisanConfig
from models.zoo.generative.sagan import SaganConfig
from models.zoo.graph.gat import GatConfig
from models.zoo.hierarchical.han import HanConfig
from models.zoo.hierarchical.hatn import HatnConfig
from models.zoo.index import recipe
from models.zoo.meta_embeddings.dme import DmeConfig
from models.zoo.meta_embeddings.mme import FINER, PIECES, MmeConfig
from models.zoo.rnn_search.bahdanau import BahdanauConfig
from models.zoo.rnn_search.luong import LuongConfig
from models.zoo.segmentation.attention_unet import AttentionUnetConfig
from models.zoo.transformer.gpt import OUTPUT, PROMPT, GptConfig
from models.zoo.transformer.transformer import TransformerConfig
from models.zoo.vision.cct import CctConfig
from models.zoo.vision.vit import VitConfig

VOCABULARY = 20
HAN = HanConfig(vocabulary=VOCABULARY, classes=3, d_embedding=5, d_gru=4, d_attention=6)
BAHDANAU = BahdanauConfig(
    source_vocabulary=VOCABULARY,
    target_vocabulary=VOCABULARY,
    begin=2,
    end=3,
    d_embedding=5,
    d_encoder=4,
    d_decoder=6,
    d_attention=5,
    d_maxout=4,
    max_new_tokens=8,
)
LUONG = LuongConfig(
    source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, begin=2, end=3, d=6, layers=2, radius=2,
    max_new_tokens=8,
)  # fmt: skip
TRANSFORMER = TransformerConfig(
    source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, begin=2, end=3, d_model=8, layers=2, heads=2,
    d_hidden=12, max_new_tokens=8,
)  # fmt: skip
GPT = GptConfig(
    vocabulary=VOCABULARY, begin=2, end=3, d_model=8, layers=2, heads=2, d_hidden=12, max_prompt=9, max_new_tokens=8
)
GAT = GatConfig(features=5, classes=3, heads=4, d_head=2, output_heads=2)
CCT = CctConfig(classes=3, rows=4, columns=6, channels=(3,), d_model=8, layers=2, heads=2, d_hidden=12)
VIT = VitConfig(classes=3, rows=4, columns=6, patch=2, d_model=8, layers=2, heads=2, d_hidden=12)


DME = DmeConfig(vocabulary=VOCABULARY, classes=3, d_embedding=5, d=4, d_hidden=3)
DISAN = DisanConfig(vocabulary=VOCABULARY, classes=3, d=4, d_compare=6)
RNN_CAPSULE = RnnCapsuleConfig(vocabulary=VOCABULARY, classes=3, d_embedding=5, d_hidden=4)
TEXT = ["It rains all day. We stay at home!", "The cat sat."]
_WORDS = ["cats", "cat", "sat", "mats", "sats"] * 2
# Tokenizers, and those of models that are built with what they say.
_TARGET = tokenizers.characters(["cats"], lower=False, output=True)
_FILES = {
    "tokenizer.json": tokenizers.words(TEXT, vocabulary=VOCABULARY),
    "source.json": tokenizers.characters(["rains", "a"], lower=True, output=False),
    "target.json": _TARGET,
}
_OWN_FILES = {
    "gpt": {PROMPT: tokenizers.characters(["rains", "a"], lower=True, output=False), OUTPUT: _TARGET},
    "mme": {
        PIECES: tokenizers.within_words(_WORDS, vocabulary=VOCABULARY),
        FINER: tokenizers.within_words(_WORDS, vocabulary=9),
    },
}
MME = MmeConfig(vocabulary=VOCABULARY, classes=3, subwords=9, letters=9, d_embedding=5, d=6, heads=2, d_hidden=8)
SHOW_ATTEND_TELL = ShowAttendTellConfig(
    vocabulary=VOCABULARY, begin=2, end=3, rows=4, columns=6, channels=(3, 4), strides=(2,), d_embedding=5, d_state=6,
    d_attention=4, max_new_tokens=8,
)  # fmt: skip
ATTENTION_UNET = AttentionUnetConfig(classes=3, rows=4, columns=8, channels=(3, 4), d_gate=3)
SAGAN = SaganConfig(vocabulary=VOCABULARY, rows=4, columns=8, d_noise=3, channels=(4, 5, 3))
ASKED = {"vocabulary": VOCABULARY, "classes": 3, "channels": (2, 3, 4), "d": 4}
HIECOATT = HieCoAttConfig(rows=12, columns=18, d_attention=5, d_answer=6, around=1, **ASKED)
MCAN = McanConfig(rows=12, columns=18, heads=2, d_hidden=6, d_fused=5, **ASKED)
PSAC = PsacConfig(rows=12, columns=36, heads=2, d_hidden=6, **ASKED)
LCR_ROT = LcrRotConfig(vocabulary=VOCABULARY, classes=3, hops=2, d_embedding=5, d_hidden=3)
RBAN = RbanConfig(vocabulary=VOCABULARY, classes=3, d_embedding=5, d_hidden=3, d_attention=4)
HATN = HatnConfig(vocabulary=VOCABULARY, classes=3, d_embedding=5, d=4, max_sentences=9, max_words=12)
CONFIGS = {
    "han": HAN, "bahdanau": BAHDANAU, "gpt": GPT, "transformer": TRANSFORMER, "gat": GAT, "vit": VIT, "cct": CCT,
    "rnn-capsule": RNN_CAPSULE, "disan": DISAN, "dme": DME, "luong": LUONG, "mme": MME,
    "show-attend-tell": SHOW_ATTEND_TELL, "attention-unet": ATTENTION_UNET, "sagan": SAGAN,
    "hiecoatt": HIECOATT, "mcan": MCAN, "psac": PSAC, "lcr-rot-hop": LCR_ROT, "rban": RBAN, "hatn": HATN,
}  # fmt: skip
# What the tensors are called that a generating model reads.
PREFIX = {"bahdanau": "source", "gpt": "prompt", "transformer": "source", "luong": "source"}


def base(name: str) -> str:
    """The model that a name is a variant of: that comes behind a dash."""
    return next(each for each in CONFIGS if name == each or name.startswith(f"{each}-"))


def blueprint(name: str) -> Blueprint[Any]:
    """What data would decide."""
    return Blueprint(CONFIGS[base(name)], ("a", "b", "c"), _FILES | _OWN_FILES.get(base(name), {}))


def build(name: str) -> Network:
    """A model as its recipe builds it."""
    return recipe(name).build(blueprint(name))


def card(name: str) -> Card:
    """What a model says of itself."""
    return recipe(name).card(build(name), blueprint(name))


def make(name: str) -> Network:
    """A model in evaluation mode, its weights drawn from seed 0 (and larger than usual, so that differences show)."""
    torch.manual_seed(0)
    made = build(name)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(2)
    # In float64: what is asserted is arithmetic, not the rounding of one CPU's kernels.
    return made.double().eval().requires_grad_(False)


def document(lengths: list[int], seed: int) -> Tensor:
    """Token ids [sentence, word] of a document alone: sentences of these lengths, padded with 0 to the longest."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, VOCABULARY, (len(lengths), max(lengths)), generator=generator)
    return ids * (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])


def text(length: int, seed: int) -> Tensor:
    """Token ids [token]."""
    return torch.randint(1, VOCABULARY, (length,), generator=torch.Generator().manual_seed(seed))


def stack(arrays: list[Tensor], extra: int = 0) -> Tensor:
    """Pad with 0 to one size, `extra` larger than needed on every axis, and stack."""
    sizes = [max(sizes) + extra for sizes in zip(*(array.shape for array in arrays), strict=True)]
    stacked = torch.zeros(len(arrays), *sizes, dtype=arrays[0].dtype)
    for place, array in zip(stacked, arrays, strict=True):
        place[tuple(slice(size) for size in array.shape)] = array
    return stacked


def same(alone: Answer, batched: Answer, row: int) -> None:
    """Assert that a row of a batch says what the instance says alone, and nothing about its padding."""
    for group, others in ((alone.outputs, batched.outputs), (alone.maps, batched.maps)):
        for name, wanted in group.items():
            found = others[name][row]
            inside = tuple(slice(size) for size in wanted.shape[1:])
            assert torch.allclose(found[inside], wanted[0], atol=1e-12, rtol=1e-9), name
            if others is batched.maps:
                outside = found.clone()
                outside[inside] = 0
                assert not outside.any(), f"{name} has weight on padding"
