"""Masks from predicates, against what they say in words."""

import torch

from limelight_models.attention import masks


def rows(mask: masks.Mask, query: int = 4, key: int = 4) -> list[str]:
    built = mask.build(query=query, key=key).reshape(-1, query, key)
    return ["".join("x" if allowed else "." for allowed in row) for row in built[-1]]


def test_predicates_over_positions() -> None:
    assert rows(masks.causal) == ["x...", "xx..", "xxx.", "xxxx"]
    assert rows(masks.forward) == ["....", "x...", "xx..", "xxx."]
    assert rows(masks.backward) == [".xxx", "..xx", "...x", "...."]
    assert rows(masks.diagonal_disabled) == [".xxx", "x.xx", "xx.x", "xxx."]
    assert rows(masks.window(1)) == ["xx..", "xxx.", ".xxx", "..xx"]
    assert rows(masks.block(2)) == ["xx..", "xx..", "..xx", "..xx"]


def test_masks_combine() -> None:
    assert rows(masks.causal & masks.window(1)) == ["x...", "xx..", ".xx.", "..xx"]
    assert rows(masks.block(2) | masks.forward) == ["xx..", "xx..", "xxxx", "xxxx"]
    assert rows(~masks.causal) == rows(masks.backward)


def test_masks_of_instances() -> None:
    lengths = torch.tensor([4, 2])
    assert masks.padding(lengths).build(query=3, key=4).shape == (2, 1, 1, 4)
    both = masks.causal & masks.padding(lengths)
    assert rows(both) == ["x...", "xx..", "xx..", "xx.."]
    valid = masks.valid(torch.tensor([[True, True, False, True]]))
    assert rows(masks.everything & valid) == ["xx.x"] * 4


def test_graph() -> None:
    adjacency = torch.tensor([[[0, 1, 0], [0, 0, 1], [0, 0, 0]]])
    assert rows(masks.graph(adjacency), 3, 3) == [".x.", "..x", "..."]
    assert rows(masks.graph(adjacency, self_loops=True), 3, 3) == ["xx.", ".xx", "..x"]
