"""A text -> words; a recurrent state, a growing cache, maps over the source and over what was put out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from limelight.v1 import attention_pb2 as apb
from limelight.v1 import model_pb2 as mpb
from limelight.v1 import values_pb2 as vpb
from limelight_bundle.maps import MapWeights
from limelight_bundle.reader import BundleFolder
from limelight_bundle.samples import Sample
from limelight_bundle.v1 import bundle_pb2 as bpb
from limelight_bundle.values import Array, TensorValue, Text
from tests.kit.bundles import parts
from tests.kit.bundles.parts import (
    BEGIN,
    CARRY,
    CHOICES,
    EMBEDDING,
    END,
    MIX,
    MOST_NEW_TOKENS,
    MOST_TOKENS,
    NEVER,
    VOCABULARY,
    WIDTH,
    ids_of,
    softmax,
)

ECHO_EXAMPLES = ("the cat sat", "a dog ran far on the mat", "mat")


_LUCKY = """
  ended = Add(likeness, ending)
  real_chances = Where(mask, chances, zero)
  chance = ReduceSum <keepdims = 1> (real_chances, axis1)
  luckier = Add(ended, luck)
  scores = Add(luckier, chance)
"""


def echo(
    repository: Path,
    name: str = "echo",
    *,
    max_new_tokens: int = MOST_NEW_TOKENS,
    endless: bool = False,
    lucky: bool = False,
    written_target: bool = False,
    version: int = 0,
) -> BundleFolder:
    """Write the model that puts out words; an endless one never ends by itself, a lucky one adds noise to its scores,
    a number a word and one a token of the source. A target is sent as ids, or as a text.
    """
    luck = ", float[B, V] luck, float[B, N] chances" if lucky else ""
    encoder = parts.graph(
        """
agraph (int64[B, N] ids, bool[B, N] mask)
  => (float[B, N, D] memory, float[B, D] start, float[B, N, N] own_source)
{
  x = Gather(embedding, ids)
  real = Cast <to = 1> (mask)
  real3 = Unsqueeze(real, axis2)
  memory = Mul(x, real3)
  total = ReduceSum <keepdims = 0> (memory, axis1)
  start = Tanh(total)
  keys = Transpose <perm = [0, 2, 1]> (memory)
  s = MatMul(memory, keys)
  wide_mask = Unsqueeze(mask, axis1)
  m = Where(wide_mask, s, low)
  own_source = Softmax <axis = -1> (m)
}
""",
        embedding=EMBEDDING,
    )
    step = parts.graph(
        """
agraph (int64[B] token, int64[B] length, float[B, D] state, float[B, P, D] past, float[B, N, D] memory,
        bool[B, N] mask[luck])
  => (float[B, V] scores, float[B, D] next_state, float[B, 1, D] present, float[B, N] cross, float[B, N] cross_scores,
      float[B, P] own)
{
  y = Gather(embedding, token)
  present = Unsqueeze(y, axis1)
  shape = Shape <start = 1, end = 2> (past)
  most = Squeeze(shape)
  places = Range(count_from, most, count_by)
  lengths = Unsqueeze(length, axis1)
  new = Equal(places, lengths)
  new3 = Unsqueeze(new, axis2)
  all = Where(new3, present, past)
  carried = MatMul(state, carry)
  mixed = MatMul(y, mix)
  sum = Add(carried, mixed)
  next_state = Tanh(sum)
  column = Unsqueeze(next_state, axis2)
  own3 = MatMul(all, column)
  own2 = Squeeze(own3, axis2)
  there = LessOrEqual(places, lengths)
  own1 = Where(there, own2, low)
  own = Softmax <axis = -1> (own1)
  raw3 = MatMul(memory, column)
  raw = Squeeze(raw3, axis2)
  cross_scores = Where(mask, raw, low)
  cross = Softmax <axis = -1> (cross_scores)
  cross_row = Unsqueeze(cross, axis1)
  context3 = MatMul(cross_row, memory)
  own_row = Unsqueeze(own, axis1)
  self3 = MatMul(own_row, all)
  both3 = Add(context3, self3)
  both = Squeeze(both3, axis1)
  all_state = Add(both, next_state)
  likeness = MatMul(all_state, choices)
  [scored]
}
""".replace("[luck]", luck).replace("[scored]", _LUCKY if lucky else "scores = Add(likeness, ending)"),
        embedding=EMBEDDING,
        carry=CARRY,
        mix=MIX,
        choices=CHOICES,
        ending=np.where(np.arange(VOCABULARY) == END, np.float32(NEVER if endless else 0), np.float32(0)),
    )
    bundle = parts.new_bundle(name, mpb.TASK_GENERATION, parts.text_input(MOST_TOKENS))
    description = bundle.description
    target = description.inputs.add(name="target", kind=mpb.INPUT_KIND_TENSOR, optional=True)
    target.tensors.append(parts.ids_tensor("target_ids", "target_token", MOST_TOKENS))
    if written_target:
        target.kind = mpb.INPUT_KIND_TEXT
        bundle.preprocessing.append(parts.tokenized("target", "target_ids"))
    description.outputs.append(
        parts.output("scores", mpb.Dimension(name="output"), mpb.Dimension(name="v", size=VOCABULARY))
    )
    sequence = mpb.SequenceDescription(label_set="output", target_input="target", max_new_tokens=max_new_tokens)
    description.results.add(name="words", sequence=sequence)
    description.label_sets.extend(
        [
            parts.labels("tokens", apb.LABEL_KIND_TOKENS, input="text", tensor="ids", dimension="token"),
            parts.labels("output", apb.LABEL_KIND_OUTPUT_STEPS),
            parts.labels("input", apb.LABEL_KIND_INPUT_STEPS),
        ]
    )
    parts.add_map(bundle, "encoder.0.self", apb.MAP_KIND_SELF, "tokens", "tokens")
    parts.bind(bundle, "encoder.0.self", "encoder", "own_source", "BATCH QUERY KEY")
    parts.add_map(bundle, "decoder.0.cross", apb.MAP_KIND_CROSS, "output", "tokens", quantities=[apb.QUANTITY_SCORES])
    parts.bind(bundle, "decoder.0.cross", "step", "cross", "BATCH KEY")
    parts.bind(bundle, "decoder.0.cross", "step", "cross_scores", "BATCH KEY", apb.QUANTITY_SCORES)
    parts.add_map(bundle, "decoder.0.self", apb.MAP_KIND_SELF, "output", "input")
    parts.bind(bundle, "decoder.0.self", "step", "own", "BATCH KEY")
    bundle.graphs.append(
        parts.onnx_graph("encoder", "encoder.onnx", ["ids", "mask"], ["memory", "start", "own_source"])
    )
    bundle.graphs.append(
        parts.onnx_graph(
            "step",
            "step.onnx",
            ["token", "length", "state", "past", "memory", "mask", *(("luck", "chances") if lucky else ())],
            "scores next_state present cross cross_scores own".split(),
        )
    )
    bundle.preprocessing.append(parts.tokenized("text"))
    bundle.tensors.add(tensor="ids", mask="mask")
    generation = bundle.generation
    generation.encoder, generation.step = "encoder", "step"
    generation.token_input, generation.scores_output = "token", "scores"
    generation.lengths_input = "length"
    generation.begin_token, generation.end_token, generation.max_new_tokens = BEGIN, END, max_new_tokens
    generation.tokenizer, generation.target_tensor = "tokenizer.json", "target_ids"
    generation.states.add(input="state", output="next_state", encoder_output="start")
    past = generation.states.add(input="past", output="present", growing_axis=1)
    past.zeros.data_type = vpb.DATA_TYPE_FLOAT32
    past.zeros.dimensions.add(name="past")
    past.zeros.dimensions.add(name="feature", size=WIDTH)
    for drawn, size in (("luck", VOCABULARY), ("chances", 0)) if lucky else ():
        noise = bundle.noise.add(distribution=bpb.DISTRIBUTION_GUMBEL)
        noise.tensor.name, noise.tensor.data_type = drawn, vpb.DATA_TYPE_FLOAT32
        noise.tensor.dimensions.add(name="" if size else "token", size=size)
    examples: list[dict[str, Text | TensorValue]] = [{"text": Text(each)} for each in ECHO_EXAMPLES]
    samples = [echo_answer(ids_of(each)) for each in ECHO_EXAMPLES]
    if endless:  # it would put out as many tokens as it may: a target is short
        examples, samples = [{"text": Text("the cat"), "target_ids": TensorValue(np.array([4, 5]))}], [_forced()]
    files = {"encoder.onnx": encoder, "step.onnx": step}
    return parts.write(repository, bundle, files, examples, samples, version)


def echo_steps(ids: Array, tokens: Sequence[int]) -> tuple[list[Array], list[Array], list[Array], list[Array]]:
    """Run the generating model on the tokens put in: scores of tokens, both maps' rows, and those of the cross map
    before alignment, of every step.
    """
    memory = EMBEDDING[ids].astype(np.float64)
    state, past = np.tanh(memory.sum(0)), np.zeros((0, WIDTH))
    scores, cross, own, looks = [], [], [], []
    for token in tokens:
        past = np.concatenate([past, EMBEDDING[token][np.newaxis]])
        state = np.tanh(state @ CARRY + EMBEDDING[token] @ MIX)
        own.append(softmax(past @ state))
        looks.append(memory @ state)
        cross.append(softmax(looks[-1]))
        scores.append((cross[-1] @ memory + own[-1] @ past + state) @ CHOICES)
    return scores, cross, own, looks


def log_probabilities(ids: Array, tokens: Sequence[int]) -> Array:
    """Give the generating model's log-probabilities of the next token after those put out so far."""
    scores = echo_steps(ids, [BEGIN, *tokens])[0][-1]
    return np.asarray(scores - scores.max() - np.log(np.exp(scores - scores.max()).sum()))


def echo_answer(ids: Array, longest: int = MOST_NEW_TOKENS) -> Sample:
    """Generate greedily as the generating model does."""
    tokens: list[int] = []
    while len(tokens) <= longest:
        token = int(log_probabilities(ids, tokens).argmax())
        if token == END:
            tokens.append(token)
            break
        if len(tokens) == longest:
            break
        tokens.append(token)
    return _echoed({"ids": ids}, ids, tokens)


def echo_maps(ids: Array, tokens: Sequence[int]) -> dict[str, MapWeights]:
    """Give the maps of the generating model for a sequence put out."""
    _, cross, own, looks = echo_steps(ids, [BEGIN, *tokens][: len(tokens)])
    square = np.zeros((1, len(own), len(own)), np.float32)
    for step, row in enumerate(own):
        square[0, step, : len(row)] = row
    memory = EMBEDDING[ids].astype(np.float64)
    return {
        "encoder.0.self": MapWeights(parts.float32(softmax(memory @ memory.T)[np.newaxis])),
        "decoder.0.cross": MapWeights(parts.float32(np.stack(cross)[np.newaxis])),
        "decoder.0.cross:scores": MapWeights(parts.float32(np.stack(looks)[np.newaxis])),
        "decoder.0.self": MapWeights(square),
    }


def _forced() -> Sample:
    ids, target = ids_of("the cat"), [4, 5]
    sample = _echoed({"ids": ids, "target_ids": np.array(target)}, ids, target)
    sample.outputs["scores"][:, END] += np.float32(NEVER)
    return sample


def _echoed(tensors: Mapping[str, Array], ids: Array, tokens: Sequence[int]) -> Sample:
    scores = echo_steps(ids, [BEGIN, *tokens][: len(tokens)])[0]
    return Sample(tensors, {"scores": parts.float32(np.stack(scores))}, echo_maps(ids, tokens), tuple(tokens))
