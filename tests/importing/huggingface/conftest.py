"""Fixtures of test modules about one architecture.

Such a module has the name of its checkpoint (`NAME`), a function `write` that writes it, and the class of transformers
that it is loaded by (`LIBRARY`).
"""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module's checkpoint."""
    torch.set_num_threads(1)
    written: Path = request.module.write(tmp_path_factory.mktemp("checkpoint") / request.module.NAME)
    return written


@pytest.fixture(scope="module")
def library(request: pytest.FixtureRequest, folder: Path) -> Any:
    """The model of the checkpoint by transformers alone."""
    return getattr(transformers, request.module.LIBRARY).from_pretrained(folder, attn_implementation="eager").eval()
