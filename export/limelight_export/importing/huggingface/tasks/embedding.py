"""A vector of a text, pooled and normalised as sentence-transformers' files state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures.architecture import DecoderArchitecture, EncoderArchitecture
from limelight_export.importing.huggingface.checkpoint import Checkpoint
from limelight_export.importing.huggingface.tasks import MODULES, states_pooling
from limelight_export.importing.huggingface.tasks.encoder import EncoderSource, encoder_model, load_encoder, text_input
from limelight_export.importing.huggingface.tasks.task import Source
from limelight_models.cards.card import TrainedModel
from limelight_models.cards.results import Vector

# The first of these that exists counts, as in sentence-transformers.
_LENGTH_FILES = tuple(
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
_TINY = 1e-9  # as in sentence-transformers


def _mean(features: Tensor, mask: Tensor) -> Tensor:
    real = mask.unsqueeze(-1).to(features.dtype)
    return (features * real).sum(1) / real.sum(1).clamp(min=_TINY)


def _mean_by_root(features: Tensor, mask: Tensor) -> Tensor:
    real = mask.unsqueeze(-1).to(features.dtype)
    return (features * real).sum(1) / real.sum(1).clamp(min=_TINY).sqrt()


def _first(features: Tensor, mask: Tensor) -> Tensor:
    return features[:, 0]


def _last(features: Tensor, mask: Tensor) -> Tensor:
    places = (mask.sum(1) - 1).clamp(min=0)[:, None, None].expand(-1, 1, features.shape[-1])
    return features.gather(1, places)[:, 0]


def _weighted_mean(features: Tensor, mask: Tensor) -> Tensor:
    places = torch.arange(1, features.shape[1] + 1, dtype=features.dtype)
    weights = (mask.to(features.dtype) * places).unsqueeze(-1)
    return (features * weights).sum(1) / weights.sum(1).clamp(min=_TINY)


def _largest(features: Tensor, mask: Tensor) -> Tensor:
    return features.masked_fill(~mask.unsqueeze(-1), torch.finfo(features.dtype).min).amax(1)


# Features [batch, token, feature] and mask BOOL [batch, token] -> [batch, feature].
_POOLING: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": _first,
    "max": _largest,
    "mean": _mean,
    "mean_sqrt_len": _mean_by_root,
    "weightedmean": _weighted_mean,
    "lasttoken": _last,
}
POOLING = tuple(_POOLING)
# Switches of 1_Pooling/config.json, in the order in which sentence-transformers joins their vectors.
_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_POOLING_FIELDS = {"word_embedding_dimension", "embedding_dimension", "include_prompt", "pooling_mode", *_SWITCHES}


_DENSE_FIELDS = {"in_features", "out_features", "bias", "activation_function"}
# PyTorch's activations by the names of their classes.
_ACTIVATIONS: Mapping[str, type[nn.Module]] = {
    "Identity": nn.Identity,
    "Tanh": nn.Tanh,
    "ReLU": nn.ReLU,
    "GELU": nn.GELU,
    "SiLU": nn.SiLU,
    "Sigmoid": nn.Sigmoid,
}


class Normalised(nn.Module):
    """Divides vectors by their norm."""

    def forward(self, vector: Tensor) -> Tensor:
        return nn.functional.normalize(vector, dim=-1)


class Pooled(nn.Module):
    """Pooling of a text's vector: the named poolings concatenated, then the modules behind them.

    Args:
        described: what the modules do, in words.
    """

    def __init__(self, poolings: Sequence[str], modules: Sequence[nn.Module] = (), described: str = "") -> None:
        super().__init__()
        self.poolings = tuple(poolings)
        self.behind = nn.Sequential(*modules)
        self.described = f"{' and '.join(poolings)} of the tokens' vectors{described}"

    def forward(self, output: Any, mask: Tensor) -> dict[str, Tensor]:
        """Pool the last layer's vectors of the tokens."""
        pooled = torch.cat([_POOLING[each](output.last_hidden_state, mask) for each in self.poolings], -1)
        return {"vector": self.behind(pooled)}

    def size(self, features: int) -> int:
        """Return the length of the vector. features: of each token. Raises CheckpointError where layers do not fit."""
        size = features * len(self.poolings)
        for each in self.behind:
            if isinstance(each, nn.Linear):
                if each.in_features != size:
                    raise CheckpointError(f"a Dense module takes {each.in_features} features; what it gets has {size}")
                size = each.out_features
        return size


def build_embedding(source: EncoderSource) -> TrainedModel:
    """Build a model that maps a text to a vector. Raises CheckpointError where the checkpoint does not say how."""
    return _build(source, **without_pooler(source.checkpoint))


def build_decoder_embedding(source: Source[DecoderArchitecture]) -> TrainedModel:
    """Build the same of a causal language model, each of whose tokens sees those before it. Raises likewise."""
    decoder = source.architecture
    architecture = EncoderArchitecture(
        model_type=decoder.model_type,
        title=decoder.title,
        citation=decoder.citation,
        fields=decoder.fields,
        taxonomy=decoder.taxonomy,
        positions=decoder.positions,
        options=decoder.options,
    )
    return _build(replace(source, architecture=architecture), is_causal=True)  # type: ignore[arg-type]


def _build(source: EncoderSource, *, is_causal: bool = False, **options: Any) -> TrainedModel:
    pooled = _pooled(source)
    most = max_tokens(source.checkpoint)
    parts = load_encoder(source, "AutoModel", most=most, needs_special_tokens=not is_causal, **options)
    if is_causal:
        parts.model.config.use_cache = False  # type: ignore[union-attr]
    read = text_input(parts, "A text.")
    size = pooled.size(int(parts.config.hidden_size))
    return encoder_model(
        source,
        parts,
        pooled,
        model_input=read,
        tokens=read.tokens(words=True),
        results=[Vector(size=size, summary=f"The vector of the text: {pooled.described}.")],
        summary=f"Maps a text to a vector: {pooled.described}.",
    )


def _transformer(checkpoint: Checkpoint) -> tuple[str, Mapping[str, Any]]:
    """Read how sentence-transformers reads a text; its name and what it states."""
    found = next((file for file in _LENGTH_FILES if checkpoint.file(file) is not None), _LENGTH_FILES[0])
    return found, checkpoint.table(found)


def max_tokens(checkpoint: Checkpoint) -> int:
    """Return the length at which sentence-transformers truncates a text; 0 where it states none."""
    stated = _transformer(checkpoint)[1].get("max_seq_length")
    return stated if type(stated) is int and stated > 0 else 0


def _pooled(source: EncoderSource) -> Pooled:
    checkpoint, wanted = source.checkpoint, source.options.pooling
    if not states_pooling(checkpoint):
        if not wanted:
            raise CheckpointError(
                f"the checkpoint has no {MODULES}, which would state how the tokens' vectors become one; "
                f"state it: --pooling {'|'.join(POOLING)}"
            )
        if wanted not in _POOLING:
            raise CheckpointError(f"the pooling {wanted!r} is not known; it can be {', '.join(POOLING)}")
        return Pooled((wanted,))
    if wanted:
        raise CheckpointError(f"{MODULES} states the pooling; leave out --pooling")
    check_texts(checkpoint)
    poolings: tuple[str, ...] = ()
    behind: list[nn.Module] = []
    described: list[str] = []
    modules = checkpoint.json(MODULES)
    for each in modules if isinstance(modules, list) else ():
        stated = each if isinstance(each, dict) else {}
        kind, path = str(stated.get("type", "")).rpartition(".")[2], str(stated.get("path") or "")
        if kind == "Transformer" and not path:
            continue
        if kind == "Pooling" and not poolings:
            poolings = _poolings(checkpoint, f"{path}/config.json")
        elif kind == "Dense" and poolings:
            layer, activation = dense(checkpoint, path)
            behind += [layer, activation]
            described.append(f", {layer.out_features} {type(activation).__name__} features of it")
        elif kind == "Normalize" and poolings:
            behind.append(Normalised())
            described.append(", of length 1")
        else:
            raise CheckpointError(f"{MODULES} has the module {kind or each} at {path!r}, which is not supported")
    if not poolings:
        raise CheckpointError(f"{MODULES} has no module Pooling")
    return Pooled(poolings, behind, "".join(described))


def dense(checkpoint: Checkpoint, path: str) -> tuple[nn.Linear, nn.Module]:
    """Load a layer behind the pooling. Raises CheckpointError where it is none, or has another activation."""
    from safetensors.torch import load_file

    config = checkpoint.table(f"{path}/config.json")
    for name, value in config.items():
        if name not in _DENSE_FIELDS and value not in (False, None, "sentence_embedding"):  # what it reads and writes
            raise CheckpointError(f"{path}/config.json states {name} {value!r}, which is not supported")
    name = str(config.get("activation_function") or "Tanh").rpartition(".")[2]
    if name not in _ACTIVATIONS:
        raise CheckpointError(f"{path}/config.json states the activation {name}; it can be {', '.join(_ACTIVATIONS)}")
    file = checkpoint.file(f"{path}/model.safetensors")
    if file is None:
        raise CheckpointError(
            f"{path} has no model.safetensors; pickled weights are converted by "
            f"limelight import convert-weights {checkpoint.folder} --out NEW_FOLDER"
        )
    tensors = load_file(file)
    weight, bias = tensors.get("linear.weight"), tensors.get("linear.bias")
    if weight is None or weight.dim() != 2 or (bias is None) == bool(config.get("bias", True)):
        raise CheckpointError(f"{path}/model.safetensors has not the weights of a Dense module")
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.load_state_dict({name.removeprefix("linear."): each.float() for name, each in tensors.items()})
    return layer, _ACTIVATIONS[name]()


def check_texts(checkpoint: Checkpoint) -> None:
    """Check that sentence-transformers gives the text to the tokenizer as it is."""
    file, stated = _transformer(checkpoint)
    if stated.get("do_lower_case"):
        raise CheckpointError(f"{file} states do_lower_case, which the tokenizer does not do")
    config = checkpoint.table("config_sentence_transformers.json")
    name, prompts = config.get("default_prompt_name"), config.get("prompts")
    if isinstance(name, str) and isinstance(prompts, dict) and prompts.get(name):
        raise CheckpointError(
            f"config_sentence_transformers.json puts the prompt {name!r} before every text; "
            "a served model would not, so remove default_prompt_name and send texts with their prompt"
        )


def _poolings(checkpoint: Checkpoint, file: str) -> tuple[str, ...]:
    config = checkpoint.table(file)
    for name, value in config.items():
        if name not in _POOLING_FIELDS and value not in (False, None):
            raise CheckpointError(f"{file} states {name} {value!r}, which is not supported")
    stated = config.get("pooling_mode")
    names = [stated] if isinstance(stated, str) else list(stated or ())
    found = tuple(names) or tuple(name for switch, name in _SWITCHES.items() if config.get(switch))
    if not found or any(name not in _POOLING for name in found):
        raise CheckpointError(
            f"{file} states the pooling {', '.join(found) or 'of nothing'}; it can be {', '.join(POOLING)}"
        )
    return found


def without_pooler(checkpoint: Checkpoint) -> dict[str, bool]:
    """Leave out the layer behind the first token, which pooling does not read and many checkpoints do not have."""
    has_none = {"distilbert", "deberta", "deberta-v2", "electra", "modernbert", "roformer", "squeezebert", "eurobert"}
    return {} if checkpoint.model_type in has_none else {"add_pooling_layer": False}
