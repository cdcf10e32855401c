"""Cross-covariance attention and local patches against timm's."""

import torch

from limelight_models.blocks.cross_covariance import CrossCovariance, LocalPatches
from tests.kit.timm import needs_timm, of_timm


@needs_timm
def test_channels_attend_and_patches_meet_as_in_timm() -> None:
    torch.manual_seed(0)
    cross, local = of_timm("models/xcit.py", "XCA", "LPI", use_fused_attn=lambda **_: False)
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
