"""Loading of weights: safetensors only, no code of a checkpoint, no network, and nothing initialised at random."""

import contextlib
import logging
from collections.abc import Collection, Iterator
from typing import Any

from torch import nn

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.checkpoint import Checkpoint

# Weights of older files that hold no parameters: ranges of positions, masks, and tables of fixed positions.
_BUFFERS = tuple(
    "position_ids token_type_ids masked_bias .attn.bias .attention.bias inv_freq embed_positions.weights".split()
)


def load_config(checkpoint: Checkpoint, *, without: Collection[str] = ()) -> Any:
    """Load the configuration as transformers reads it. Raises CheckpointError where it cannot.

    Args:
        without: fields that are left out, which then have transformers' default.
    """
    from transformers import AutoConfig

    try:
        with quiet():
            if without:
                fields = {name: value for name, value in checkpoint.config.items() if name not in without}
                return AutoConfig.for_model(**fields)
            return AutoConfig.from_pretrained(checkpoint.folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # transformers raises many types
        raise CheckpointError(f"transformers cannot read config.json: {first_line(error)}") from error


def load_model(checkpoint: Checkpoint, auto_class: str, **options: Any) -> nn.Module:
    """Load a model in evaluation mode, in 32 bits.

    Args:
        auto_class: name of the class of transformers that chooses the model's class.
        options: arguments of the model's constructor, or its `config`.
    Raises:
        CheckpointError: transformers cannot load the weights, some are missing, or layers are left over.
    """
    import torch
    import transformers

    maker = getattr(transformers, auto_class)
    try:
        with quiet():
            model, report = maker.from_pretrained(
                checkpoint.folder,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=torch.float32,
                attn_implementation="eager",
                output_loading_info=True,
                **options,
            )
    except Exception as error:  # transformers raises many types
        raise CheckpointError(f"transformers cannot load the weights: {first_line(error)}") from error
    if missing := sorted(report["missing_keys"]):
        raise CheckpointError(
            f"the checkpoint has no weights for {_listed(missing)} of {type(model).__name__}; "
            "was it trained for this task? --task names another"
        )
    if left := _layers_left_over(model, report["unexpected_keys"]):
        raise CheckpointError(
            f"{type(model).__name__} does not use the weights {_listed(left)}; is config.json theirs?"
        )
    loaded: nn.Module = model.eval().requires_grad_(False)
    return loaded


def _layers_left_over(model: nn.Module, unexpected: Any) -> list[str]:
    """List weights of the model itself that it does not use; those of other heads may be left over."""
    prefix = f"{model.base_model_prefix}."
    base = getattr(model, str(model.base_model_prefix), model)
    parts = {name for name, _ in base.named_children()} - {"pooler"}
    return sorted(
        key for key in unexpected if key.removeprefix(prefix).partition(".")[0] in parts and not key.endswith(_BUFFERS)
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers while it loads: what matters of its report is checked."""
    from transformers.utils import logging as library_logging

    reports: Any = library_logging  # its functions have no types
    logger = logging.getLogger("transformers")
    level, bars = logger.level, reports.is_progress_bar_enabled()
    logger.setLevel(logging.ERROR)
    reports.disable_progress_bar()
    try:
        yield
    finally:
        logger.setLevel(level)
        if bars:
            reports.enable_progress_bar()
