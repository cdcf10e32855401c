"""Cross-covariance attention and local patches against timm's, of which two classes are read, not the package."""

import ast
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from limelight_models.blocks.cross_covariance import CrossCovariance, LocalPatches

TIMM = find_spec("timm")


def of_timm(*names: str) -> list[type[nn.Module]]:
    """Classes of timm's file alone: the package wants torchvision, of which there may be no fitting one."""
    assert TIMM is not None and TIMM.submodule_search_locations
    file = Path(TIMM.submodule_search_locations[0]) / "models/xcit.py"
    tree = ast.parse(file.read_text())
    wanted = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in names]
    types = ast.parse("from typing import *\nimport torch\nfrom torch import nn\n").body
    found: dict[str, Any] = {"use_fused_attn": lambda **_: False}
    exec(compile(ast.Module([*types, *wanted], []), str(file), "exec"), found)
    return [found[name] for name in names]


@pytest.mark.skipif(TIMM is None, reason="timm is not installed")
def test_channels_attend_and_patches_meet_as_in_timm() -> None:
    torch.manual_seed(0)
    cross, local = of_timm("XCA", "LPI")
    ours, theirs = CrossCovariance(d_model=12, heads=3).double(), cross(12, num_heads=3, qkv_bias=True).double()
    near, other = LocalPatches(d_model=12, grid=(4, 5)).double().eval(), local(12).double().eval()
    with torch.no_grad():
        for parameter in (*ours.parameters(), *near.parameters(), near.norm.running_mean, near.norm.running_var):
            parameter.copy_(torch.rand_like(parameter) + 0.1)
        maps = ours.query_map, ours.key_map, ours.value_map
        theirs.qkv.weight.copy_(torch.cat([each.weight for each in maps]))
        theirs.qkv.bias.copy_(torch.cat([each.bias for each in maps]))
        theirs.temperature.copy_(ours.attention.score.sharpness)
    theirs.proj.load_state_dict(ours.merge.state_dict())
    for name, own in (("conv1", near.inner), ("bn", near.norm), ("conv2", near.outer)):
        other.get_submodule(name).load_state_dict(own.state_dict())
    patches = torch.randn(2, 20, 12, dtype=torch.float64)
    torch.testing.assert_close(ours(patches)[0], theirs(patches), atol=1e-12, rtol=0)
    torch.testing.assert_close(near(patches), other(patches, 4, 5), atol=1e-12, rtol=0)
