"""Small ONNX files, as other people's exporters write them."""

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

VOCABULARY, HEADS, SIZE = 20, 2, 8

HEADER = "reader (int64[batch, length] ids, bool[batch, length] mask)"
READER = f"""
<ir_version: 8, opset_import: ["" : 17]>
{HEADER} => (float[batch, 3] logits, float[batch, 2, length, length] attn)
{{
  words = Gather(table, ids)
  q0 = MatMul(words, wq)
  k0 = MatMul(words, wk)
  v0 = MatMul(words, wv)
  q1 = Reshape(q0, split)
  k1 = Reshape(k0, split)
  v1 = Reshape(v0, split)
  q = Transpose<perm=[0, 2, 1, 3]>(q1)
  k = Transpose<perm=[0, 2, 3, 1]>(k1)
  v = Transpose<perm=[0, 2, 1, 3]>(v1)
  scores = MatMul(q, k)
  allowed = Unsqueeze(mask, axes12)
  bias = Where(allowed, zero, low)
  masked = Add(scores, bias)
  attn = Softmax<axis=-1>(masked)
  c0 = MatMul(attn, v)
  c1 = Transpose<perm=[0, 2, 1, 3]>(c0)
  context = Reshape(c1, join)
  number = Cast<to=1>(mask)
  real = Unsqueeze(number, axis2)
  kept = Mul(context, real)
  total = ReduceSum<keepdims=0>(kept, axis1)
  count = ReduceSum<keepdims=0>(real, axis1)
  mean = Div(total, count)
  logits = MatMul(mean, wo)
}}
"""


# Reads its input backwards, so that padding comes first: rows cannot be padded.
ENCODER = """
<ir_version: 8, opset_import: ["" : 17]>
encoder (int64[batch, length] ids, bool[batch, length] mask) 
  => (float[batch, length, 8] memory, float[batch, 8] start, bool[batch, length] kept)
{
  kept = Identity(mask)
  words = Gather(table, ids)
  turned = Slice(words, last, first, axis1, minus1)
  sums = CumSum(turned, one)
  memory = Tanh(sums)
  begin = Slice(memory, zeros1, ones1, axis1)
  start = Squeeze(begin, axis1)
}
"""
STEP = """
<ir_version: 8, opset_import: ["" : 17]>
step (int64[batch, past] tokens, float[batch, length, 8] memory, bool[batch, length] padding, float[batch, 8] hidden)
  => (float[batch, 12] scores, float[batch, 8] next)
{
  newest = Slice(tokens, minus1, far, axis1)
  word1 = Gather(table, newest)
  word = Squeeze(word1, axis1)
  changed = MatMul(hidden, wq)
  both = Add(changed, word)
  next = Tanh(both)
  query = Unsqueeze(next, axis1)
  key = Transpose<perm=[0, 2, 1]>(memory)
  scores0 = MatMul(query, key)
  hidden_ones = Unsqueeze(padding, axis1)
  masked = Where(hidden_ones, low, scores0)
  look = Softmax<axis=-1>(masked)
  context1 = MatMul(look, memory)
  context = Squeeze(context1, axis1)
  joined = Add(context, next)
  scores = MatMul(joined, wtokens)
}
"""


# Takes pixels as some exporters do: channels last, in half precision; and gives probabilities in double precision.
TILES = """
<ir_version: 8, opset_import: ["" : 17]>
tiles (float16[batch, 4, 6, 3] pixels) => (double[batch, 2] chances, float16[batch, 4, 1, 6] look)
{
  fine = Cast<to=1>(pixels)
  weights0 = ReduceMean<axes=[3], keepdims=0>(fine)
  rows = Softmax<axis=-1>(weights0)
  rows1 = Unsqueeze(rows, axis2)
  look = Cast<to=10>(rows1)
  colours = ReduceMean<axes=[1, 2], keepdims=0>(fine)
  scores = MatMul(colours, wcolours)
  chances0 = Softmax<axis=-1>(scores)
  chances = Cast<to=11>(chances0)
}
"""
TILES_CARD = """
name = "tiles"

[inputs.picture]
kind = "image"
tensor = "pixels"
rows = 4
columns = 6
channels_last = true

[results.class]
kind = "classes"
labels = ["a", "b"]
output = "chances"
activation = "identity"

[maps.rows]
output = "look"
axes = ["batch", "query", "head", "key"]
query = "row"
key = "column"

[labels]
row = 4
column = ["1", "2", "3", "4", "5", "6"]

[[examples]]
picture = "picture.png"
"""

# Takes ids of a text, or of a pair of texts, with the segments that BERT reads.
SEGMENTS = READER.replace(
    HEADER, "segments (int64[batch, length] ids, int64[batch, length] mask, int64[batch, length] kinds)"
)
SEGMENTS_CARD = """
name = "segments"

[inputs.pair]
kind = "text"
pair = true
tokenizer = "tokenizer.json"
max_tokens = 30
tensor = "ids"
mask = "mask"
segments = "kinds"

[results.class]
kind = "classes"
labels = "labels.txt"
output = "logits"

[maps.self]
output = "attn"
query = "tokens"
key = "tokens"

[[examples]]
pair = ["the cat sat", "a dog"]
"""


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    """The constants that the graphs read."""
    random = np.random.default_rng(seed)
    return {
        "table": random.standard_normal((VOCABULARY, SIZE)).astype(np.float32),
        **{name: random.standard_normal((SIZE, SIZE)).astype(np.float32) for name in ("wq", "wk", "wv")},
        "wo": random.standard_normal((SIZE, 3)).astype(np.float32),
        "split": np.array([0, 0, HEADS, SIZE // HEADS]),
        "join": np.array([0, 0, SIZE]),
        "axes12": np.array([1, 2]),
        "axis1": np.array([1]),
        "axis2": np.array([2]),
        "zero": np.array(0, np.float32),
        "low": np.array(-1e9, np.float32),
        "wtokens": random.standard_normal((SIZE, 12)).astype(np.float32),
        "wcolours": random.standard_normal((3, 2)).astype(np.float32),
        "first": np.array([-(2**31)]),
        "last": np.array([-1]),
        "far": np.array([2**31]),
        "minus1": np.array([-1]),
        "zeros1": np.array([0]),
        "ones1": np.array([1]),
        "one": np.array(1),
    }


def model(text: str = READER, **changes: str) -> onnx.ModelProto:
    """Parse a graph, some lines of which are changed: the start of a line, and the line in its place."""
    lines = text.splitlines()
    for begin, line in changes.items():
        places = [place for place, each in enumerate(lines) if each.strip().startswith(begin.replace("__", " "))]
        assert len(places) == 1, (begin, places)
        lines[places[0]] = line
    made: onnx.ModelProto = onnx.parser.parse_model("\n".join(lines))
    read = {name for node in made.graph.node for name in node.input}
    made.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in weights().items() if name in read
    )
    return made


def write(path: Path, made: onnx.ModelProto) -> Path:
    """Write a file, and return its path."""
    path.write_bytes(made.SerializeToString())
    return path


CARD = """
name = "reader"
title = "Reader"
summary = "Reads ids."

[inputs.ids]
kind = "tensor"
axes = ["length"]
largest = { length = 40 }
minimum = 1
maximum = 19
mask = "mask"

[results.class]
kind = "classes"
labels = ["a", "b", "c"]
output = "logits"

[maps."encoder.0.self"]
output = "attn"
query = "length"
key = "length"
"""

PAIR_CARD = """
name = "pair"

[inputs.ids]
kind = "tensor"
axes = ["length"]
largest = { length = 30 }
minimum = 1
maximum = 19
mask = { name = "mask", padding = true }

[generation]
step = "step.onnx"
token = "tokens"
scores = "scores"
begin = 1
end = 2
max_new_tokens = 6
tokenizer = "output.json"
states = { hidden = ["start", "next"] }
constants = { memory = "memory", padding = "mask" }

[maps."decoder.cross"]
output = "look"
query = "output"
key = "length"
"""
