"""What networks that read through latents promise besides."""

import pytest
import torch

from tests.kit import small


@pytest.mark.parametrize("name", ["set-transformer", "set-transformer-whole", "set-transformer-mean"])
def test_the_order_of_a_set_says_nothing_of_it(name: str) -> None:
    network, ids, order = small.make(name), small.text(9, 0)[None], torch.randperm(9)
    first, second = (
        network(token_ids=each, token_mask=torch.ones(1, 9, dtype=torch.bool)) for each in (ids, ids[:, order])
    )
    torch.testing.assert_close(second.outputs["logits"], first.outputs["logits"])
    for each, weights in first.maps.items():
        sides = [axis for axis in (2, 3) if weights.shape[axis] == 9]
        for axis in sides:
            weights = weights.index_select(axis, order)
        assert sides
        torch.testing.assert_close(second.maps[each], weights)
