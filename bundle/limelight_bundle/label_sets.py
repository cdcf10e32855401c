"""Label sets that a description alone gives: grids, frames, classes, single entries."""

import numpy as np

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.label_columns import LazyColumn
from limelight_bundle.rows import Labels


def fixed_labels(description: model_pb2.ModelDescription) -> dict[str, Labels]:
    """Return label sets that are equal for all instances: grids, frames, classes, hops, latents, a single entry.

    Preprocessing adds the region of a grid and the end of a recording, which differ between instances.
    """
    fixed: dict[str, Labels] = {}
    for each in description.label_sets:
        if each.HasField("grid"):
            fixed[each.name] = grid_labels(each)
        elif each.HasField("frames"):
            fixed[each.name] = frame_labels(each)
        elif each.kind == attention_pb2.LABEL_KIND_ONE:
            fixed[each.name] = Labels(each.name, each.kind, 1, tuple(each.names))
        elif each.names:
            fixed[each.name] = Labels(each.name, each.kind, len(each.names), tuple(each.names))
    return fixed


def grid_labels(description: model_pb2.LabelSetDescription, region: attention_pb2.Region | None = None) -> Labels:
    """Return the label set of a grid.

    Args:
        region: part of the image that the cells cover; None if no image was sent.
    """
    grid = attention_pb2.Grid()
    grid.CopyFrom(description.grid)
    if region is not None:
        grid.region.CopyFrom(region)
    inputs = (description.input,) if description.input else ()
    size = len(grid.leading) + grid.rows * grid.columns
    return Labels(description.name, description.kind, size, grid=grid, inputs=inputs)


def frame_labels(description: model_pb2.LabelSetDescription, seconds: float | None = None) -> Labels:
    """Return the label set of frames.

    Args:
        seconds: length of the recording, behind which frames are special; None if no recording was sent.
    """
    count, length = description.frames.count, description.frames.seconds
    starts = np.arange(count + 1) * length
    milliseconds = np.rint(starts * 1000).astype(np.int64).tolist()
    return Labels(
        description.name,
        description.kind,
        count,
        LazyColumn(count, lambda: [f"{start:.2f} s" for start in starts[:-1].tolist()]),
        milliseconds[:-1],
        milliseconds[1:],
        special=() if seconds is None else (starts[:-1] >= seconds).tolist(),
        inputs=(description.input,) if description.input else (),
    )
