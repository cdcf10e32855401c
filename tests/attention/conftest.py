"""Every test draws the same numbers."""

import pytest
import torch


@pytest.fixture(autouse=True)
def same_start() -> None:
    torch.manual_seed(0)
