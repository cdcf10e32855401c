"""Pictures as cells: what each tells of, and what it leaves to the others."""

from functools import partial

import pytest
import torch

from limelight_models.blocks.cells import Cells, contrast, over_the_picture


def test_contrast_is_that_of_the_negative() -> None:
    pixels = torch.rand(2, 1, 5, 6)
    torch.testing.assert_close(contrast(pixels), contrast(1 - pixels), atol=1e-4, rtol=1e-4)


def far_away(cells: Cells) -> float:
    """Change of the first cell with the opposite corner, of a picture of the same contrast."""
    ground = torch.linspace(0, 1, 48).expand(1, 1, 48, 48)
    changed = ground.clone()
    changed[..., 30:, 30:] = ground[..., 30:, 30:].flip(-2, -1)  # the same pixels elsewhere: mean and deviation stay
    with torch.no_grad():
        (before, *_), (after, *_) = cells(ground)[0], cells(changed)[0]
    return float((before - after).abs().max())


def test_a_cell_tells_of_nothing_that_it_does_not_see() -> None:
    torch.manual_seed(0)
    cells = partial(Cells, channels=(4, 6, 8), strides=(2, 3), rows=48, columns=48)
    assert far_away(cells()) == pytest.approx(0, abs=1e-5)
    assert far_away(cells(norm=over_the_picture)) > 1e-2
