"""Small tensors: one thread is faster, and leaves the other cores alone."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def same_start() -> None:
    torch.manual_seed(0)
