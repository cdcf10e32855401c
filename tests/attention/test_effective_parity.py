"""Attention without a matrix beside other people's code of the same papers."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from limelight_models.attention import Attention, Context
from limelight_models.attention.effective.pixels import Window
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.zoo.long.bigbird import SparseGraph
from limelight_models.zoo.long.deepseek_sparse import Indexed
from limelight_models.zoo.long.differential import DifferentialHeads
from limelight_models.zoo.long.gated_attention import GatedHeads
from limelight_models.zoo.long.gated_deltanet import GatedDelta
from limelight_models.zoo.long.mamba import Mixer
from limelight_models.zoo.long.nystromformer import NystromAttention
from limelight_models.zoo.long.reformer import HashedAttention
from limelight_models.zoo.long.rotary import GroupedHeads, LinearBias
from limelight_models.zoo.long.sinks import Sinks
from limelight_models.zoo.long.yoso import Sampling, UnitHeads
from limelight_models.zoo.transformer.latent_attention import LatentAttention, LatentHeads, TurnedAttention
from tests.kit.timm import needs_timm, of_timm


def test_nystromformer_is_that_of_transformers() -> None:
    """Of lengths that its landmarks divide; the inverse begins from each matrix's own norm, not from the batch's."""
    library = pytest.importorskip("transformers.models.nystromformer.modeling_nystromformer")
    from transformers import NystromformerConfig

    config = NystromformerConfig(
        hidden_size=16,
        num_attention_heads=2,
        num_landmarks=4,
        segment_means_seq_len=12,
        conv_kernel_size=5,
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(0)
    theirs = library.NystromformerSelfAttention(config).eval()
    theirs.init_option = "exact"
    features = 3 * torch.randn(3, 12, 16)
    wanted = theirs(features)[0]
    query, key, value = (
        each(features).unflatten(-1, (2, 8)).transpose(1, 2) for each in (theirs.query, theirs.key, theirs.value)
    )
    ours = NystromAttention(heads=2, landmarks=4, kernel=5)
    ours.skip = torch.nn.Parameter(theirs.conv.weight[:, 0, :, 0])
    found, weights = ours(query, key, value)
    torch.testing.assert_close(found.transpose(1, 2).flatten(2), wanted, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close((weights @ value).transpose(1, 2).flatten(2), wanted, atol=1e-5, rtol=1e-4)


def test_bigbird_is_that_of_transformers() -> None:
    """Of the same random blocks, where padding fills the last block: theirs is global as well."""
    library = pytest.importorskip("transformers.models.big_bird.modeling_big_bird")
    from transformers import BigBirdConfig

    block, blocks, heads, d = 4, 9, 2, 8
    torch.manual_seed(0)
    ours = SparseGraph(heads=heads, tokens=block * blocks, block=block, window=1, global_=1, random=2)
    some = ours.some(torch.arange(blocks).unsqueeze(-1), torch.tensor(blocks - 1).reshape(1, 1, 1, 1))
    config = BigBirdConfig(hidden_size=heads * d, num_attention_heads=heads, block_size=block, num_random_blocks=2)
    theirs = library.BigBirdBlockSparseAttention(config).eval()
    theirs._bigbird_block_rand_mask_with_head = lambda **_: some[0, :, 1:-1].numpy()
    mask = (torch.arange(block * blocks) < block * (blocks - 1)).float()[None]
    to_blocked, band, from_mask, to_mask = library.BigBirdModel.create_masks_for_block_sparse_attn(mask, block)
    features = 3 * torch.randn(1, block * blocks, heads * d)
    wanted, their_weights = theirs(features, band, from_mask, to_mask, to_blocked, to_blocked)
    query, key, value = (
        each(features).unflatten(-1, (heads, d)).transpose(1, 2) for each in (theirs.query, theirs.key, theirs.value)
    )
    found, weights = ours(query, key, value, mask.bool()[None, None])
    there = slice(0, block * (blocks - 1))
    torch.testing.assert_close(found.transpose(1, 2).flatten(2)[:, there], wanted[:, there], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(weights[:, :, there], their_weights[:, :, there], atol=1e-5, rtol=1e-4)


def test_the_gated_delta_rule_is_that_of_transformers() -> None:
    theirs = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 150, 8) for _ in range(3))
    key, gates = normalize(key, dim=-1), torch.randn(2, 3, 150, 2)
    ours = GatedDelta(heads=3, decays=1).requires_grad_(False)
    _, _, strength, decay = ours.tokens(query, torch.cat([key, gates], -1))

    def turned(tensor: Tensor) -> Tensor:
        return tensor.transpose(1, 2)

    given = [turned(each) for each in (query, key, value, decay.squeeze(-1), strength.squeeze(-1))]
    found, weights = ours(query, torch.cat([key, gates], -1), value)
    for rule in (theirs.torch_recurrent_gated_delta_rule, theirs.torch_chunk_gated_delta_rule):
        wanted, _ = rule(*given, initial_state=None, output_final_state=False)
        torch.testing.assert_close(found, turned(wanted) * 8**0.5, atol=1e-5, rtol=1e-4)  # it scales queries itself
    torch.testing.assert_close(weights @ value, found, atol=1e-5, rtol=1e-4)


def test_mamba_2_is_that_of_transformers() -> None:
    theirs = pytest.importorskip("transformers.models.mamba2.modeling_mamba2")
    torch.manual_seed(0)
    sizes = {"hidden_size": 12, "num_heads": 3, "head_dim": 8, "state_size": 5, "n_groups": 1, "num_hidden_layers": 1}
    block = theirs.Mamba2Mixer(theirs.Mamba2Config(**sizes, expand=2, conv_kernel=4, chunk_size=16), 0).eval()
    block.D.data = torch.randn(3)
    ours = Mixer(d_model=12, heads=3, d_head=8, d_state=5, selective=True)
    maps = (ours.z_map, ours.x_map[0], ours.b_map[0], ours.c_map[0], ours.step_map)
    for each, weight in zip(maps, block.in_proj.weight.split([24, 24, 5, 5, 3]), strict=True):
        each.weight.data = weight
    convolved = (each.split([24, 5, 5]) for each in (block.conv1d.weight, block.conv1d.bias))
    for each, weight, bias in zip((ours.x_map, ours.b_map, ours.c_map), *convolved, strict=True):
        each[1].convolution.weight.data, each[1].convolution.bias.data = weight, bias
    ours.attention.steps.log_a.data, ours.attention.steps.bias.data = (
        each.reshape(3, 1, 1) for each in (block.A_log, block.dt_bias)
    )
    ours.skip.data, ours.norm.weight.data, ours.merge.weight.data = block.D, block.norm.weight, block.out_proj.weight
    u = torch.randn(2, 150, 12)
    with torch.no_grad():
        torch.testing.assert_close(ours(u)[0], block(u), atol=1e-5, rtol=1e-4)


def looking_back(count: int) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """A causal mask as we have it and as transformers does, and rotations that turn nothing."""
    allowed = torch.ones(1, 1, count, count, dtype=torch.bool).tril()
    unmoved = torch.ones(1, count, 4), torch.zeros(1, count, 4)
    return allowed, torch.zeros(1, 1, count, count).masked_fill(~allowed, -torch.inf), unmoved


def test_differential_attention_is_that_of_transformers() -> None:
    """There the heads of the first softmaxes stand before those of the second, and values are cut likewise."""
    theirs = pytest.importorskip("transformers.models.diffllama.modeling_diffllama")
    torch.manual_seed(0)
    config = theirs.DiffLlamaConfig(hidden_size=24, num_attention_heads=6, num_key_value_heads=6, head_dim=4)
    config._attn_implementation = "eager"
    block = theirs.DiffLlamaAttention(config, 2)
    ours = DifferentialHeads(d_model=24, heads=3, begins=block.lambda_init)
    for name in ("query", "key", "value"):
        weight = getattr(block, f"{name[0]}_proj").weight.unflatten(0, (2, 3, 4)).transpose(0, 1).flatten(0, 2)
        getattr(ours, f"{name}_map").weight.data = weight
    ours.merge.weight.data = block.o_proj.weight
    ours.attention.factor.query.data = torch.stack([block.lambda_q1, block.lambda_q2])
    ours.attention.factor.key.data = torch.stack([block.lambda_k1, block.lambda_k2])
    ours.norm.eps = config.rms_norm_eps
    features, (allowed, added, unmoved) = torch.randn(2, 11, 24), looking_back(11)
    with torch.no_grad():
        found, weights = ours(features, features, mask=allowed)
        wanted, maps = block(features, unmoved, added)
        factor = ours.attention.factor()
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(weights, maps[:, :3] - factor * maps[:, 3:], atol=1e-6, rtol=1e-4)


def test_gated_attention_is_that_of_transformers() -> None:
    """Its queries and gates stand side by side in each head; its norms of queries and keys are left out."""
    theirs = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    torch.manual_seed(0)
    config = theirs.Qwen3NextConfig(hidden_size=12, num_attention_heads=3, num_key_value_heads=3, head_dim=4)
    config._attn_implementation = "eager"
    block = theirs.Qwen3NextAttention(config, 0)
    block.q_norm, block.k_norm = nn.Identity(), nn.Identity()
    ours = GatedHeads(attention=Attention(score=ScaledDot()), d_model=12, heads=3)
    asked, gate = block.q_proj.weight.unflatten(0, (3, 2, 4)).unbind(1)
    ours.query_map.weight.data, ours.output_map.weight.data = asked.flatten(0, 1), gate.flatten(0, 1)
    for each, other in ((ours.key_map, "k"), (ours.value_map, "v"), (ours.merge, "o")):
        each.weight.data = getattr(block, f"{other}_proj").weight
    for each in (ours.query_map, ours.key_map, ours.value_map, ours.merge):
        each.bias.data.zero_()
    features, (allowed, added, unmoved) = torch.randn(2, 11, 12), looking_back(11)
    with torch.no_grad():
        for found, wanted in zip(ours(features, features, mask=allowed), block(features, unmoved, added), strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-4)


def test_sinks_are_those_of_transformers() -> None:
    theirs = pytest.importorskip("transformers.models.gpt_oss.modeling_gpt_oss")
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 11, 4) for _ in range(3))
    ours = Attention(score=ScaledDot(), align=Sinks(heads=3, window=0)).requires_grad_(False)
    assert isinstance(ours.align, Sinks) and ours.align.sink is not None
    ours.align.sink.normal_()
    around = nn.Module()
    around.sinks, around.num_key_value_groups = ours.align.sink.flatten(), 1
    allowed, added, _ = looking_back(11)
    wanted, maps = theirs.eager_attention_forward(around.eval(), query, key, value, added, 4**-0.5)
    found, weights = ours(query, key, value, allowed)
    torch.testing.assert_close(weights, maps, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(found, wanted.transpose(1, 2), atol=1e-6, rtol=1e-4)


def test_rotary_positions_and_grouped_queries_are_those_of_transformers() -> None:
    theirs = pytest.importorskip("transformers.models.llama.modeling_llama")
    torch.manual_seed(0)
    config = theirs.LlamaConfig(hidden_size=24, num_attention_heads=4, num_key_value_heads=2)
    config._attn_implementation = "eager"
    block = theirs.LlamaAttention(config, 0)
    ours = GroupedHeads(score=ScaledDot(), d_model=24, heads=4, groups=2, rotary=True)
    maps = (ours.query_map, ours.key_map, ours.value_map, ours.merge)
    for each, letter in zip(maps, "qkvo", strict=True):
        each.weight.data = getattr(block, f"{letter}_proj").weight
    features, (allowed, added, _) = torch.randn(2, 31, 24), looking_back(31)
    places = theirs.LlamaRotaryEmbedding(config)(features, torch.arange(31)[None])
    with torch.no_grad():
        for found, wanted in zip(ours(features, features, mask=allowed), block(features, places, added), strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


def test_slopes_of_distances_are_those_of_transformers() -> None:
    """There keys alone are counted, which softmax does not tell from distances."""
    theirs = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    slopes = theirs.build_alibi_tensor(torch.ones(1, 5), 8, torch.float32).reshape(8, 5)
    ours = LinearBias(heads=8)(torch.zeros(1, 8, 5, 2), torch.zeros(1, 8, 5, 2), Context())
    torch.testing.assert_close(ours[0, :, 0], slopes)


def test_keys_chosen_by_an_index_are_those_of_transformers() -> None:
    """With as many heads of the index, and angles of 0: the row has no rotary positions.

    Of queries for which one score at most is 0: among equal ones theirs takes any, and ours the nearest.
    """
    library = pytest.importorskip("transformers.models.deepseek_v32.modeling_deepseek_v32")
    from transformers import DeepseekV32Config

    heads, count, d_index, most = 4, 24, 4, 5
    config = DeepseekV32Config(
        hidden_size=16,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        q_lora_rank=12,
        kv_lora_rank=8,
        qk_nope_head_dim=6,
        qk_rope_head_dim=2,
        v_head_dim=7,
        index_n_heads=heads,
        index_head_dim=d_index,
        index_topk=most,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    theirs = library.DeepseekV32Attention(config, 0).eval().requires_grad_(False)
    x, (_, mask, _) = torch.randn(3, count, 16), looking_back(count)
    turns = torch.ones(3, count, 2), torch.zeros(3, count, 2)
    wanted, their_weights = theirs(x, turns, mask.expand(3, 1, -1, -1))
    asks = theirs.q_a_layernorm(theirs.q_a_proj(x))
    short, turned = theirs.kv_a_proj_with_mqa(x).unsqueeze(1).split([8, 2], -1)
    key, value = theirs.expand_kv(theirs.kv_a_layernorm(short), turned)
    index = theirs.indexer
    query, asked, weight = (
        each.unflatten(-1, (heads, -1)).transpose(1, 2)
        for each in (theirs.q_b_proj(asks), index.wq_b(asks), index.weights_proj(x))
    )
    kept = index.k_norm(index.wk(x)).unsqueeze(1).expand(-1, heads, -1, -1)
    ours = Indexed(d_index=d_index, most=most).eval()
    asked = torch.cat([asked, weight], -1)
    found, weights = ours(torch.cat([query, asked], -1), torch.cat([key, kept], -1), value)
    assert ((weights > 0).sum(-1) == torch.arange(1, count + 1).clamp(max=most)).all()
    told = (ours.index(asked, kept[:, :1]) == 0).tril().sum(-1)[:, 0] <= 1
    assert told[:, most:].sum() > 20  # that choose
    for ours_, theirs_ in (
        (weights.transpose(1, 2), their_weights.transpose(1, 2)),
        (theirs.o_proj(found.transpose(1, 2).flatten(2)), wanted),
    ):
        torch.testing.assert_close(ours_[told], theirs_[told], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", [TurnedAttention, LatentAttention])
def test_latent_attention_is_that_of_transformers(kind: type[TurnedAttention]) -> None:
    """All at once, and token by token: from caches of what heads make, and of short vectors."""
    library = pytest.importorskip("transformers.models.deepseek_v3.modeling_deepseek_v3")
    from transformers import DeepseekV3Config

    config = DeepseekV3Config(
        hidden_size=16,
        num_attention_heads=2,
        num_key_value_heads=2,
        q_lora_rank=None,
        kv_lora_rank=8,
        qk_nope_head_dim=6,
        qk_rope_head_dim=4,
        v_head_dim=6,
        rope_interleave=False,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    theirs, count = library.DeepseekV3Attention(config, 0).eval().requires_grad_(False), 9
    ours = kind(LatentHeads(d_model=16, heads=2, d_head=6, d_latent=8, d_turned=4)).requires_grad_(False)
    heads = ours.attention
    shortened, turned = theirs.kv_a_proj_with_mqa.weight.split([8, 4])
    keys, values = theirs.kv_b_proj.weight.unflatten(0, (2, -1)).split([6, 6], 1)
    for own, weight in (
        (heads.query_map, theirs.q_proj.weight),
        (heads.down[0], shortened),
        (heads.turned_map, turned),
        (heads.key_map, keys.flatten(0, 1)),
        (heads.value_map, values.flatten(0, 1)),
        (heads.merge, theirs.o_proj.weight),
    ):
        own.weight = nn.Parameter(weight, requires_grad=False)
    heads.merge.bias = None
    x, (_, mask, _) = torch.randn(3, count, 16), looking_back(count)
    turns = library.DeepseekV3RotaryEmbedding(config)(x, torch.arange(count)[None])
    wanted, their_weights = theirs(x, turns, mask)
    output, weights, kept = ours(x)
    torch.testing.assert_close(output, wanted, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(weights, their_weights, atol=1e-6, rtol=1e-5)
    sizes = {name: tuple(each.shape[1::2]) for name, each in vars(kept).items()}
    assert sizes == ({"latents": (1, 12)} if kind is LatentAttention else {"keys": (2, 10), "values": (2, 6)})
    for token in range(count):
        before = type(kept)(
            *(torch.where(torch.arange(count)[:, None] < token, each, 7.0) for each in vars(kept).values())
        )
        output, weights, _ = ours.step(x[:, token : token + 1], before, torch.full((3,), token))
        torch.testing.assert_close(output[:, 0], wanted[:, token], atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(weights[:, :, 0], their_weights[:, :, token], atol=1e-6, rtol=1e-5)


def test_yoso_is_that_of_transformers_where_weights_are_expected() -> None:
    """And so are its gradients, which are not those of its weights. There nothing is merged yet."""
    theirs = pytest.importorskip("transformers.models.yoso.modeling_yoso")
    torch.manual_seed(0)
    config = theirs.YosoConfig(hidden_size=24, num_attention_heads=3, hash_code_len=5, use_expectation=True)
    config.conv_window = None
    block = theirs.YosoSelfAttention(config).train()
    ours = UnitHeads(attention=Sampling(d=8, bits=5, hashes=1, expected=True), d_model=24, heads=3).train()
    ours.register_module("merge", nn.Identity())
    ours.query_map, ours.key_map, ours.value_map = block.query, block.key, block.value
    features, mask = torch.randn(2, 11, 24, requires_grad=True), torch.arange(11) < torch.tensor([[11], [7]])
    wanted = block(features, (~mask).float() * -10_000)[0] * mask.unsqueeze(-1)  # its queries are masked, too
    found = ours(features, features, mask=mask[:, None, None])[0] * mask.unsqueeze(-1)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    pulled = torch.randn_like(found)
    gradients = (torch.autograd.grad((each * pulled).sum(), features)[0] for each in (found, wanted))
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-3)


def test_reformer_is_that_of_transformers_within_buckets() -> None:
    """Of one round: theirs counts what several find as often. It looks into other buckets of a chunk, if it is let."""
    theirs = pytest.importorskip("transformers.models.reformer.modeling_reformer")
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "attention_head_size": 8, "num_buckets": 6, "num_hashes": 1}
    config = theirs.ReformerConfig(**sizes, lsh_attn_chunk_length=5, hash_seed=1, is_decoder=False)
    torch.manual_seed(0)
    block = theirs.LSHSelfAttention(config).eval()
    features = 3 * torch.randn(3, 40, 16)
    query, value = (each(features).unflatten(-1, (2, 8)).transpose(1, 2) for each in (block.query_key, block.value))
    ours = HashedAttention(heads=2, d=8, chunk=5, buckets=6, rounds=1)
    torch.manual_seed(1)
    ours.get_buffer("rotations").copy_(torch.randn(2, 8, 1, 3).transpose(1, 2))
    bucket = block._hash_vectors(query, 1, None).unsqueeze(2).expand(-1, -1, 8, -1)

    def within(asked: Tensor, read: Tensor, *_: object) -> Tensor:
        return bucket.gather(-1, asked).unsqueeze(-1) == bucket.gather(-1, read).unsqueeze(-2)

    block._compute_attn_mask = within
    found, weights = ours(query, query, value)
    with torch.no_grad():
        wanted = block(features).hidden_states
    torch.testing.assert_close(found.transpose(1, 2).flatten(2), wanted, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(weights @ value, found, atol=1e-5, rtol=1e-4)


@needs_timm
def test_a_window_around_each_pixel_is_that_of_timm() -> None:
    """A halo around blocks of one pixel. What it pads the picture with it attends to, so that borders differ; places
    have all features for rows and all for columns, of which ours have half each.
    """
    known = {
        "make_divisible": lambda size, **_: int(size),
        "trunc_normal_": nn.init.trunc_normal_,
        "_assert": torch._assert,
    }
    _, _, halo = of_timm("layers/halo_attn.py", "rel_logits_1d", "PosEmbedRel", "HaloAttn", **known)
    torch.manual_seed(0)
    theirs = halo(16, num_heads=2, block_size=1, halo_size=1)
    for half, rel in enumerate((theirs.pos_embed.height_rel, theirs.pos_embed.width_rel)):
        rel.data.normal_()[:, slice(4, 8) if half == 0 else slice(4)] = 0
    ours = MultiHead(attention=Window(columns=5, reach=1, heads=2, d=8), d_model=16, heads=2, bias=False)
    # Each head's keys and values are side by side, and scores of contents alone are divided by √d.
    kept, values = theirs.kv.weight[:, :, 0, 0].unflatten(0, (2, 2, 8)).unbind(1)
    ours.query_map.weight.data = theirs.q.weight[:, :, 0, 0] * theirs.scale
    ours.key_map.weight.data, ours.value_map.weight.data = kept.flatten(0, 1), values.flatten(0, 1)
    ours.merge = nn.Identity()
    placed = (theirs.pos_embed.height_rel[2:, :4], theirs.pos_embed.width_rel[2:, 4:])
    for offsets, rel in zip(ours.attention.offsets, placed, strict=True):
        offsets.data = (rel / theirs.scale).expand(2, -1, -1)
    pixels = torch.randn(3, 16, 6, 5)
    features = pixels.flatten(2).transpose(1, 2)
    with torch.no_grad():
        found = ours(features, features)[0].transpose(1, 2).unflatten(2, (6, 5))
        torch.testing.assert_close(found[:, :, 1:-1, 1:-1], theirs(pixels)[:, :, 1:-1, 1:-1], atol=1e-5, rtol=1e-4)
