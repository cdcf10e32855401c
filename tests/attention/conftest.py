"""What is drawn is the same in every test."""

import pytest
import torch


@pytest.fixture(autouse=True)
def same_start() -> None:
    torch.manual_seed(0)
