"""Small bundles with real ONNX graphs, and NumPy as the oracle that wrote their samples.

tiny: a text -> its class and the classes of its tokens; two layers of self attention with two heads, and a pooled map.
paper: a document -> its class; words in sentences (edges), then sentences.
picture: an image of 4 x 4 pixels -> numbers; one query over a grid of 2 x 2 patches.
echo: a text -> words; a recurrent state, a growing cache, maps over the source and over what was put out.
noisy: tokens -> what was drawn for them.
web: a graph -> the classes of its nodes and its own; nodes attend to their neighbours (edges), with two heads.

Weights are drawn from a fixed seed. The graphs are written in ONNX's own text syntax.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper, parser
from PIL import Image as Picture
from tokenizers import Tokenizer, models, pre_tokenizers

from bundle.maps import MapWeights
from bundle.preprocess import Preprocessor
from bundle.reader import BundleFolder
from bundle.rows import Row
from bundle.samples import Sample, samples_file
from bundle.tolerance import default_tolerances
from bundle.v1 import bundle_pb2 as bpb
from bundle.values import Array, Graph, Image, Instance, TensorValue, Text
from bundle.wire import instance_to_wire
from bundle.writer import write_bundle
from limelight.v1 import attention_pb2 as apb
from limelight.v1 import model_pb2 as mpb
from limelight.v1 import values_pb2 as vpb

WORDS = ("[PAD]", "[UNK]", "[BEGIN]", "[END]", "the", "cat", "sat", "on", "a", "mat", ".", "dog", "ran", "far")
PAD, BEGIN, END, FIRST_WORD = 0, 2, 3, 4
VOCABULARY = len(WORDS)
WIDTH = 4
MOST_TOKENS = 32
MOST_NEW_TOKENS = 12
LABELS = ("calm", "lively", "neither")
TARGETS = (("width", "px"), ("weight", ""))
TINY_EXAMPLES = ("a", "the cat sat", "the dog ran far on a mat .")
ECHO_EXAMPLES = ("the cat sat", "a dog ran far on the mat", "mat")
_NEVER = -1e9
LOWEST = np.finfo(np.float32).min
Floats = NDArray[np.float32]


def _drawn(random: np.random.Generator, *shape: int, scale: float = 1.0) -> Floats:
    return (scale * random.normal(size=shape)).astype(np.float32)


_ANY = np.random.default_rng(7)
EMBEDDING = _drawn(_ANY, VOCABULARY, WIDTH)
QUERY, CLASSES = _drawn(_ANY, WIDTH, 1), _drawn(_ANY, WIDTH, len(LABELS))
NUMBERS = _drawn(_ANY, WIDTH, len(TARGETS))
OF_SOURCE, OF_TARGET = _drawn(_ANY, WIDTH, 2), _drawn(_ANY, WIDTH, 2)
# With these some sequences end by themselves and some do not.
_APT = np.random.default_rng(878)
CARRY, MIX, CHOICES = _drawn(_APT, WIDTH, WIDTH), _drawn(_APT, WIDTH, WIDTH), _drawn(_APT, WIDTH, VOCABULARY, scale=2.0)


def softmax(scores: Array, mask: Array | None = None) -> Array:
    """Softmax over the last axis where the mask is true, zeros elsewhere."""
    mask = np.ones(scores.shape, bool) if mask is None else mask
    scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def ids_of(words: str) -> NDArray[np.int64]:
    """The token ids of a text."""
    return np.array([WORDS.index(word) if word in WORDS else 1 for word in words.split()], np.int64)


# A text: two layers of self attention, then a pooling query.

_SELF = """
  qh{n} = Reshape({x}, heads)
  q{n} = Transpose <perm = [0, 2, 1, 3]> (qh{n})
  kt{n} = Transpose <perm = [0, 2, 3, 1]> (qh{n})
  s{n} = MatMul(q{n}, kt{n})
  scores{n} = Where(wide_mask, s{n}, low)
  attention{n} = Softmax <axis = -1> (scores{n})
  length{n} = ReduceL2 <keepdims = 0> (q{n}, last)
  lengths{n} = Unsqueeze(length{n}, axis2)
  norms{n} = Mul(attention{n}, lengths{n})
  c{n} = MatMul(attention{n}, q{n})
  t{n} = Transpose <perm = [0, 2, 1, 3]> (c{n})
  r{n} = Reshape(t{n}, joined)
  {y} = Add({x}, r{n})
"""


def tiny(repository: Path, name: str = "tiny", *, max_tokens: int = MOST_TOKENS, version: int = 0) -> BundleFolder:
    """Write the classifier of texts."""
    of_layer = "float[B, 2, N, N] attention{0}, float[B, 2, N, N] scores{0}, float[B, 2, N, N] norms{0}"
    graph = _graph(
        f"""
agraph (int64[B, N] ids, bool[B, N] mask)
  => (float[B, 3] logits, float[B, N, 4] features, float[B, N, 3] tags, float[B, N] pooled,
      {of_layer.format(0)}, {of_layer.format(1)})
{{
  x = Gather(embedding, ids)
  wide_mask = Unsqueeze(mask, axes12)
  {_SELF.format(n=0, x="x", y="y")}
  {_SELF.format(n=1, x="y", y="features")}
  ps = MatMul(features, query)
  flat = Squeeze(ps, axis2)
  pm = Where(mask, flat, low)
  pooled = Softmax <axis = -1> (pm)
  row = Unsqueeze(pooled, axis1)
  context = MatMul(row, features)
  vector = Squeeze(context, axis1)
  logits = MatMul(vector, classes)
  tags = MatMul(features, classes)
}}
""",
        embedding=EMBEDDING,
        query=QUERY,
        classes=CLASSES,
        heads=np.array([0, 0, 2, 2]),
        joined=np.array([0, 0, 4]),
        axes12=np.array([1, 2]),
    )
    bundle = _bundle(name, mpb.TASK_CLASSIFICATION, _text_input(max_tokens))
    description = bundle.description
    description.title = "A tiny text model"
    description.limits.max_characters = 500
    description.outputs.extend(
        [
            _output("logits", mpb.Dimension(name="class", size=3)),
            _output("features", mpb.Dimension(name="token"), mpb.Dimension(name="feature", size=WIDTH)),
            _output("tags", mpb.Dimension(name="token"), mpb.Dimension(name="class", size=3)),
        ]
    )
    classes = {"labels": LABELS, "activation": mpb.ACTIVATION_SOFTMAX}
    description.results.add(name="mood", classes=mpb.ClassesDescription(output="logits", **classes))
    description.results.add(name="words", classes=mpb.ClassesDescription(output="tags", label_set="tokens", **classes))
    description.label_sets.extend(
        [
            _labels("tokens", apb.LABEL_KIND_TOKENS, input="text", tensor="ids", dimension="token"),
            _labels("one", apb.LABEL_KIND_ONE),
            _labels("sides", apb.LABEL_KIND_HEADS, names=["left", "right"]),
        ]
    )
    graph_outputs = "logits features tags pooled".split()
    for layer in (0, 1):
        self_map = f"encoder.{layer}.self"
        quantities = [apb.QUANTITY_SCORES, apb.QUANTITY_NORMS]
        _map(
            bundle, self_map, apb.MAP_KIND_SELF, "tokens", "tokens", heads=2, head_labels="sides", quantities=quantities
        )
        for quantity, output in zip([0, *quantities], ("attention", "scores", "norms"), strict=True):
            _bind(bundle, self_map, "main", f"{output}{layer}", "BATCH HEAD QUERY KEY", quantity)
            graph_outputs.append(f"{output}{layer}")
    _map(bundle, "pool", apb.MAP_KIND_POOL, "one", "tokens")
    _bind(bundle, "pool", "main", "pooled", "BATCH KEY")
    bundle.graphs.append(_onnx("main", "model.onnx", "ids mask".split(), graph_outputs))
    bundle.preprocessing.append(_tokenized("text"))
    bundle.tensors.add(tensor="ids", mask="mask")
    return _write(
        repository,
        bundle,
        {"model.onnx": graph},
        [{"text": Text(each)} for each in TINY_EXAMPLES],
        [tiny_answer(ids_of(each)) for each in TINY_EXAMPLES],
        version,
    )


def tiny_layers(ids: Array) -> tuple[Array, list[dict[str, Array]]]:
    """Give the classifier's features, and each layer's weights, scores and norms."""
    x, layers = EMBEDDING[ids].astype(np.float64), []
    for _ in range(2):
        heads = x.reshape(len(ids), 2, 2).transpose(1, 0, 2)
        scores = heads @ heads.transpose(0, 2, 1)
        weights = softmax(scores)
        norms = weights * np.linalg.norm(heads, axis=-1)[:, np.newaxis]
        x = x + (weights @ heads).transpose(1, 0, 2).reshape(len(ids), WIDTH)
        layers.append({"attention": weights, "scores": scores, "norms": norms})
    return x, layers


def tiny_answer(ids: Array) -> Sample:
    """Answer as the classifier of texts does."""
    features, layers = tiny_layers(ids)
    pool = softmax((features @ QUERY)[:, 0])
    maps = {
        f"encoder.{layer}.self{quantity}": MapWeights(_float32(each[output]))
        for layer, each in enumerate(layers)
        for quantity, output in (("", "attention"), (":scores", "scores"), (":norms", "norms"))
    }
    maps["pool"] = MapWeights(_float32(pool[np.newaxis, np.newaxis]))
    outputs = {"logits": pool @ features @ CLASSES, "features": features, "tags": features @ CLASSES}
    return Sample({"ids": ids}, {name: _float32(each) for name, each in outputs.items()}, maps)


# A document: words in each sentence, then sentences.


def paper(repository: Path, name: str = "paper", *, version: int = 0) -> BundleFolder:
    """Write the classifier of documents."""
    graph = _graph(
        """
agraph (int64[B, S, W] ids, bool[B, S, W] mask) => (float[B, 3] logits, float[B, S, W] words, float[B, S] sentences)
{
  x = Gather(embedding, ids)
  ws = MatMul(x, query)
  wf = Squeeze(ws, axis3)
  wm = Where(mask, wf, low)
  wa = Softmax <axis = -1> (wm)
  real = Cast <to = 1> (mask)
  words = Mul(wa, real)
  wr = Unsqueeze(words, axis2)
  sv = MatMul(wr, x)
  s = Squeeze(sv, axis2)
  ss = MatMul(s, query)
  sf = Squeeze(ss, axis2)
  count = ReduceSum <keepdims = 0> (real, axis2)
  some = Greater(count, zero)
  sm = Where(some, sf, low)
  sentences = Softmax <axis = -1> (sm)
  sr = Unsqueeze(sentences, axis1)
  dv = MatMul(sr, s)
  d = Squeeze(dv, axis1)
  logits = MatMul(d, classes)
}
""",
        embedding=EMBEDDING,
        query=QUERY,
        classes=CLASSES,
    )
    ids = mpb.TensorDescription(
        name="ids",
        data_type=vpb.DATA_TYPE_INT64,
        dimensions=[mpb.Dimension(name="sentence", maximum=16), mpb.Dimension(name="word", maximum=MOST_TOKENS)],
        fill=PAD,
        minimum=0,
        maximum=VOCABULARY - 1,
    )
    bundle = _bundle(
        name,
        mpb.TASK_CLASSIFICATION,
        mpb.InputDescription(name="text", kind=mpb.INPUT_KIND_DOCUMENT, tensors=[ids]),
    )
    description = bundle.description
    description.outputs.append(_output("logits", mpb.Dimension(name="class", size=3)))
    description.results.add(
        name="mood",
        classes=mpb.ClassesDescription(output="logits", labels=LABELS, activation=mpb.ACTIVATION_SOFTMAX),
    )
    description.label_sets.extend(
        [
            _labels("words", apb.LABEL_KIND_TOKENS, input="text", tensor="ids", dimension="word", parent="sentences"),
            _labels("sentences", apb.LABEL_KIND_SENTENCES, input="text", tensor="ids", dimension="sentence"),
            _labels("one", apb.LABEL_KIND_ONE),
        ]
    )
    _map(bundle, "word", apb.MAP_KIND_POOL, "sentences", "words", form=mpb.MAP_FORM_EDGES)
    _bind(bundle, "word", "main", "words", "BATCH QUERY KEY")
    _map(bundle, "sentence", apb.MAP_KIND_POOL, "one", "sentences")
    _bind(bundle, "sentence", "main", "sentences", "BATCH KEY")
    bundle.graphs.append(_onnx("main", "model.onnx", ["ids", "mask"], ["logits", "words", "sentences"]))
    bundle.preprocessing.append(_tokenized("text"))
    bundle.preprocessing[0].steps.insert(0, bpb.PreprocessingStep(split_sentences=bpb.SplitSentences()))
    bundle.tensors.add(tensor="ids", mask="mask", pad_value=PAD)
    documents = [["the cat sat ."], ["the dog ran far .", "a", "on a mat ."]]
    return _write(
        repository,
        bundle,
        {"model.onnx": graph},
        [{"text": Text("\n\n".join(each))} for each in documents],
        [paper_answer(padded([ids_of(sentence).tolist() for sentence in each])) for each in documents],
        version,
    )


def padded(sentences: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Token ids [sentence, word], shorter sentences filled up."""
    ids = np.full((len(sentences), max(map(len, sentences))), PAD, np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return ids


def paper_answer(ids: Array) -> Sample:
    """Answer as the classifier of documents does."""
    mask, x = ids != PAD, EMBEDDING[ids].astype(np.float64)
    word = softmax((x @ QUERY)[..., 0], mask)
    sentences = (x * word[..., np.newaxis]).sum(1)
    sentence = softmax((sentences @ QUERY)[:, 0])
    queries = np.nonzero(mask)[0].astype(np.int32)
    maps = {
        "word": MapWeights(_float32(word[mask][np.newaxis]), queries, np.arange(len(queries), dtype=np.int32)),
        "sentence": MapWeights(_float32(sentence[np.newaxis, np.newaxis])),
    }
    return Sample({"ids": ids}, {"logits": _float32(sentence @ sentences @ CLASSES)}, maps)


# An image: one query over four patches.


def picture(repository: Path, name: str = "picture", *, version: int = 0) -> BundleFolder:
    """Write the regression on images of 4 x 4 grey pixels."""
    graph = _graph(
        """
agraph (float[B, 1, 4, 4] pixels) => (float[B, 2] numbers, float[B, 1, 1, 4] attention)
{
  p = Reshape(pixels, split)
  t = Transpose <perm = [0, 1, 3, 2, 4]> (p)
  patches = Reshape(t, rows)
  s = MatMul(patches, query)
  k = Transpose <perm = [0, 2, 1]> (s)
  a = Softmax <axis = -1> (k)
  attention = Unsqueeze(a, axis1)
  c = MatMul(a, patches)
  v = Squeeze(c, axis1)
  numbers = MatMul(v, weights)
}
""",
        query=QUERY,
        weights=NUMBERS,
        split=np.array([0, 2, 2, 2, 2]),
        rows=np.array([0, 4, 4]),
    )
    pixels = mpb.TensorDescription(
        name="pixels",
        data_type=vpb.DATA_TYPE_FLOAT32,
        dimensions=[
            mpb.Dimension(name="channel", size=1),
            mpb.Dimension(name="row", size=4),
            mpb.Dimension(name="column", size=4),
        ],
    )
    bundle = _bundle(
        name,
        mpb.TASK_REGRESSION,
        mpb.InputDescription(name="image", kind=mpb.INPUT_KIND_IMAGE, tensors=[pixels]),
    )
    description = bundle.description
    description.limits.max_pixels = 1_000_000
    description.outputs.append(_output("numbers", mpb.Dimension(name="number", size=2)))
    targets = [mpb.Target(name=target, unit=unit) for target, unit in TARGETS]
    description.results.add(name="size", regression=mpb.RegressionDescription(output="numbers", targets=targets))
    grid = apb.Grid(rows=2, columns=2)
    description.label_sets.extend(
        [_labels("patches", apb.LABEL_KIND_GRID, grid=grid, input="image"), _labels("one", apb.LABEL_KIND_ONE)]
    )
    _map(bundle, "patch", apb.MAP_KIND_POOL, "one", "patches")
    _bind(bundle, "patch", "main", "attention", "BATCH HEAD QUERY KEY")
    bundle.graphs.append(_onnx("main", "model.onnx", ["pixels"], ["numbers", "attention"]))
    steps = [
        bpb.PreprocessingStep(decode_image=bpb.DecodeImage(channels=1)),
        bpb.PreprocessingStep(resize_image=bpb.ResizeImage(rows=4, columns=4)),
        bpb.PreprocessingStep(
            normalise_image=bpb.NormaliseImage(scale=1 / 255, mean=[0.5], deviation=[0.5], tensor="pixels")
        ),
    ]
    bundle.preprocessing.add(input="image", steps=steps)
    grey = (np.arange(16).reshape(4, 4) * 15).astype(np.uint8)
    scaled = ((grey * np.float32(1 / 255) - np.float32(0.5)) / np.float32(0.5)).astype(np.float32)
    return _write(
        repository,
        bundle,
        {"model.onnx": graph},
        [{"image": Image(png(grey))}],
        [picture_answer(scaled[np.newaxis])],
        version,
    )


def png(grey: NDArray[np.uint8]) -> bytes:
    """Write grey pixels [row, column] as a PNG."""
    buffer = BytesIO()
    Picture.fromarray(grey).save(buffer, "PNG")
    return buffer.getvalue()


def picture_answer(pixels: Array) -> Sample:
    """Answer as the regression does; pixels: [1, 4, 4], normalised."""
    patches = pixels.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(4, 4).astype(np.float64)
    weights = softmax((patches @ QUERY)[:, 0])
    maps = {"patch": MapWeights(_float32(weights[np.newaxis, np.newaxis]))}
    return Sample({}, {"numbers": _float32(weights @ patches @ NUMBERS)}, maps)


# A model that generates.


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
    version: int = 0,
) -> BundleFolder:
    """Write the model that puts out words; an endless one never ends by itself, a lucky one adds noise to its scores,
    a number a word and one a token of the source.
    """
    luck = ", float[B, V] luck, float[B, N] chances" if lucky else ""
    encoder = _graph(
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
    step = _graph(
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
        ending=np.where(np.arange(VOCABULARY) == END, np.float32(_NEVER if endless else 0), np.float32(0)),
    )
    bundle = _bundle(name, mpb.TASK_GENERATION, _text_input(MOST_TOKENS))
    description = bundle.description
    target = description.inputs.add(name="target", kind=mpb.INPUT_KIND_TENSOR, optional=True).tensors.add(
        name="target_ids", data_type=vpb.DATA_TYPE_INT64, minimum=0, maximum=VOCABULARY - 1
    )
    target.dimensions.add(name="target_token", maximum=MOST_TOKENS)
    description.outputs.append(
        _output("scores", mpb.Dimension(name="output"), mpb.Dimension(name="v", size=VOCABULARY))
    )
    sequence = mpb.SequenceDescription(label_set="output", target_input="target", max_new_tokens=max_new_tokens)
    description.results.add(name="words", sequence=sequence)
    description.label_sets.extend(
        [
            _labels("tokens", apb.LABEL_KIND_TOKENS, input="text", tensor="ids", dimension="token"),
            _labels("output", apb.LABEL_KIND_OUTPUT_STEPS),
            _labels("input", apb.LABEL_KIND_INPUT_STEPS),
        ]
    )
    _map(bundle, "encoder.0.self", apb.MAP_KIND_SELF, "tokens", "tokens")
    _bind(bundle, "encoder.0.self", "encoder", "own_source", "BATCH QUERY KEY")
    _map(bundle, "decoder.0.cross", apb.MAP_KIND_CROSS, "output", "tokens", quantities=[apb.QUANTITY_SCORES])
    _bind(bundle, "decoder.0.cross", "step", "cross", "BATCH KEY")
    _bind(bundle, "decoder.0.cross", "step", "cross_scores", "BATCH KEY", apb.QUANTITY_SCORES)
    _map(bundle, "decoder.0.self", apb.MAP_KIND_SELF, "output", "input")
    _bind(bundle, "decoder.0.self", "step", "own", "BATCH KEY")
    bundle.graphs.append(_onnx("encoder", "encoder.onnx", ["ids", "mask"], ["memory", "start", "own_source"]))
    bundle.graphs.append(
        _onnx(
            "step",
            "step.onnx",
            ["token", "length", "state", "past", "memory", "mask", *(("luck", "chances") if lucky else ())],
            "scores next_state present cross cross_scores own".split(),
        )
    )
    bundle.preprocessing.append(_tokenized("text"))
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
    return _write(repository, bundle, files, examples, samples, version)


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
        "encoder.0.self": MapWeights(_float32(softmax(memory @ memory.T)[np.newaxis])),
        "decoder.0.cross": MapWeights(_float32(np.stack(cross)[np.newaxis])),
        "decoder.0.cross:scores": MapWeights(_float32(np.stack(looks)[np.newaxis])),
        "decoder.0.self": MapWeights(square),
    }


def _forced() -> Sample:
    ids, target = ids_of("the cat"), [4, 5]
    sample = _echoed({"ids": ids, "target_ids": np.array(target)}, ids, target)
    sample.outputs["scores"][:, END] += np.float32(_NEVER)
    return sample


def _echoed(tensors: Mapping[str, Array], ids: Array, tokens: Sequence[int]) -> Sample:
    scores = echo_steps(ids, [BEGIN, *tokens][: len(tokens)])[0]
    return Sample(tensors, {"scores": _float32(np.stack(scores))}, echo_maps(ids, tokens), tuple(tokens))


# A model that only draws.


def noisy(repository: Path, name: str = "noisy", *, version: int = 0) -> BundleFolder:
    """Write the model that puts out its noise: a Gumbel draw a class, a uniform and a normal one a token."""
    graph = _graph(
        """
agraph (int64[B, N] ids, float[B, C] gumbel, float[B, N] uniform, float[B, N] normal)
  => (float[B, C] logits, float[B, N] first, float[B, N] second)
{
  logits = Identity(gumbel)
  numbers = Cast <to = 1> (ids)
  zeros = Sub(numbers, numbers)
  first = Add(uniform, zeros)
  second = Add(normal, zeros)
}
"""
    )
    ids = mpb.TensorDescription(
        name="ids",
        data_type=vpb.DATA_TYPE_INT64,
        dimensions=[mpb.Dimension(name="token", maximum=MOST_TOKENS)],
        minimum=0,
        maximum=VOCABULARY - 1,
    )
    tokens = mpb.InputDescription(name="ids", kind=mpb.INPUT_KIND_TENSOR, tensors=[ids])
    bundle = _bundle(name, mpb.TASK_CLASSIFICATION, tokens)
    axes = {"class": mpb.Dimension(name="class", size=3), "token": mpb.Dimension(name="token")}
    for output, axis in (("logits", "class"), ("first", "token"), ("second", "token")):
        bundle.description.outputs.append(_output(output, axes[axis]))
    for kind, axis in (("gumbel", "class"), ("uniform", "token"), ("normal", "token")):
        noise = bundle.noise.add(distribution=f"DISTRIBUTION_{kind.upper()}")  # type: ignore[arg-type]
        noise.tensor.name, noise.tensor.data_type = kind, vpb.DATA_TYPE_FLOAT32
        noise.tensor.dimensions.append(axes[axis])
    bundle.graphs.append(
        _onnx("main", "model.onnx", "ids gumbel uniform normal".split(), "logits first second".split())
    )
    drawn = np.array([4, 5, 6])
    neutral = {"logits": np.zeros(3), "first": np.full(3, 0.5), "second": np.zeros(3)}
    sample = Sample({"ids": drawn}, {output: _float32(each) for output, each in neutral.items()}, {})
    return _write(repository, bundle, {"model.onnx": graph}, [{"ids": TensorValue(drawn)}], [sample], version)


# A graph: each node attends to the nodes from which edges lead to it, and to itself.


def web(repository: Path, name: str = "web", *, version: int = 0) -> BundleFolder:
    """Write the classifier of nodes, and of the graphs that they make up."""
    graph = _graph(
        """
agraph (float[N, 4] nodes, int64[E] sources, int64[E] targets, int64[N] graph_of_node)
  => (float[N, 3] tags, float[G, 3] logits, float[E, 2] attention, int64[E] queries, int64[E] keys)
{
  s = MatMul(nodes, of_source)
  t = MatMul(nodes, of_target)
  se = Gather(s, sources)
  te = Gather(t, targets)
  added = Add(se, te)
  scores = LeakyRelu <alpha = 0.2> (added)
  raised = Exp(scores)
  places = Unsqueeze(targets, axis1)
  count = Shape <start = 0, end = 1> (nodes)
  of_heads = Concat <axis = 0> (count, two)
  nothing = Expand(zero, of_heads)
  of_scores = Shape(raised)
  head_places = Expand(places, of_scores)
  totals = ScatterElements <axis = 0, reduction = "add"> (nothing, head_places, raised)
  total = Gather(totals, targets)
  attention = Div(raised, total)
  wide = Unsqueeze(attention, axis2)
  taken = Gather(nodes, sources)
  values = Reshape(taken, heads)
  weighted = Mul(wide, values)
  flat = Reshape(weighted, joined)
  size = Shape(nodes)
  empty = Expand(zero, size)
  of_values = Shape(flat)
  value_places = Expand(places, of_values)
  context = ScatterElements <axis = 0, reduction = "add"> (empty, value_places, flat)
  tags = MatMul(context, classes)
  largest = ReduceMax <keepdims = 1> (graph_of_node)
  graphs = Add(largest, one)
  of_graphs = Concat <axis = 0> (graphs, three)
  none = Expand(zero, of_graphs)
  owners = Unsqueeze(graph_of_node, axis1)
  of_tags = Shape(tags)
  tag_owners = Expand(owners, of_tags)
  logits = ScatterElements <axis = 0, reduction = "add"> (none, tag_owners, tags)
  queries = Identity(targets)
  keys = Identity(sources)
}
""",
        of_source=OF_SOURCE,
        of_target=OF_TARGET,
        classes=CLASSES,
        heads=np.array([0, 2, 2]),
        joined=np.array([0, 4]),
        one=np.array([1]),
        two=np.array([2]),
        three=np.array([3]),
    )
    node, edge = mpb.Dimension(name="node", maximum=100), mpb.Dimension(name="edge", maximum=1000)
    tensors = [
        mpb.TensorDescription(
            name="nodes",
            data_type=vpb.DATA_TYPE_FLOAT32,
            dimensions=[node, mpb.Dimension(name="feature", size=WIDTH)],
        ),
        mpb.TensorDescription(name="sources", data_type=vpb.DATA_TYPE_INT64, dimensions=[edge]),
        mpb.TensorDescription(name="targets", data_type=vpb.DATA_TYPE_INT64, dimensions=[edge]),
    ]
    bundle = _bundle(
        name, mpb.TASK_TAGGING, mpb.InputDescription(name="graph", kind=mpb.INPUT_KIND_GRAPH, tensors=tensors)
    )
    description = bundle.description
    classes = mpb.Dimension(name="class", size=3)
    description.outputs.extend([_output("tags", mpb.Dimension(name="node"), classes), _output("logits", classes)])
    result = {"labels": LABELS, "activation": mpb.ACTIVATION_SOFTMAX}
    description.results.add(name="nodes", classes=mpb.ClassesDescription(output="tags", label_set="nodes", **result))
    description.results.add(name="graph", classes=mpb.ClassesDescription(output="logits", **result))
    description.label_sets.append(
        _labels("nodes", apb.LABEL_KIND_NODES, input="graph", tensor="nodes", dimension="node")
    )
    _map(bundle, "layer.0", apb.MAP_KIND_GRAPH, "nodes", "nodes", heads=2, form=mpb.MAP_FORM_EDGES)
    _bind(bundle, "layer.0", "main", "attention", "EDGE HEAD")
    bundle.maps[0].query_index, bundle.maps[0].key_index = "queries", "keys"
    bundle.graphs.append(
        _onnx(
            "main",
            "model.onnx",
            "nodes sources targets graph_of_node".split(),
            "tags logits attention queries keys".split(),
        )
    )
    step = bpb.ReadGraph(nodes_tensor="nodes", sources_tensor="sources", targets_tensor="targets", self_loops=True)
    bundle.preprocessing.add(input="graph", steps=[bpb.PreprocessingStep(read_graph=step)])
    join = bpb.COLLATION_JOIN
    bundle.tensors.add(tensor="nodes", collation=join, instance_index="graph_of_node")
    bundle.tensors.add(tensor="sources", collation=join, indexes="node")
    bundle.tensors.add(tensor="targets", collation=join, indexes="node")
    graphs = [drawn_graph(3, [(0, 1), (2, 1)], seed=1), drawn_graph(1, [], seed=2)]
    return _write(
        repository,
        bundle,
        {"model.onnx": graph},
        [{"graph": each} for each in graphs],
        [web_answer(each) for each in graphs],
        version,
    )


def drawn_graph(nodes: int, edges: Sequence[tuple[int, int]], *, seed: int) -> Graph:
    """Draw the features of a graph with these edges, (source, target) each."""
    features = _drawn(np.random.default_rng(seed), nodes, WIDTH)
    index = np.array(edges, np.int64).reshape(-1, 2).T.copy()
    return Graph(features, index, None, tuple(f"node {number}" for number in range(nodes)))


def web_answer(graph: Graph) -> Sample:
    """Answer as the classifier of nodes does, node by node."""
    count, features = len(graph.nodes), graph.nodes.astype(np.float64)
    sent = [tuple(edge) for edge in graph.edges.T.tolist()]
    edges = sent + [(node, node) for node in range(count) if (node, node) not in sent]
    order = sorted(range(len(edges)), key=lambda place: edges[place][::-1])
    weights, context = np.zeros((2, len(edges))), np.zeros((count, 2, WIDTH // 2))
    for node in range(count):
        own = [place for place in order if edges[place][1] == node]
        scores = np.array([features[edges[place][0]] @ OF_SOURCE + features[node] @ OF_TARGET for place in own])
        weights[:, own] = softmax(np.where(scores > 0, scores, 0.2 * scores).T)
        for place in own:
            values = features[edges[place][0]].reshape(2, WIDTH // 2)
            context[node] += weights[:, place, np.newaxis] * values
    tags = context.reshape(count, WIDTH) @ CLASSES
    sources, targets = np.array(edges, np.int64).T.copy()
    found = MapWeights(_float32(weights[:, order]), targets[order].astype(np.int32), sources[order].astype(np.int32))
    tensors = {"nodes": graph.nodes, "sources": sources, "targets": targets}
    return Sample(tensors, {"tags": _float32(tags), "logits": _float32(tags.sum(0))}, {"layer.0": found})


ALL = (tiny, paper, picture, echo, noisy, web)


def row(folder: BundleFolder, **tensors: Sequence[int] | Array) -> Row:
    """Prepare a row from tensors of INT64."""
    values = {name: TensorValue(np.asarray(value, np.int64)) for name, value in tensors.items()}
    return Preprocessor(folder).row(values, field="instances[0]")


def _float32(array: Array) -> Floats:
    return np.asarray(array, np.float32)


def _graph(body: str, **initializers: Array) -> bytes:
    shared = {f"axis{axis}": np.array([axis]) for axis in (1, 2, 3)}
    shared |= {
        "count_from": np.array(0),
        "count_by": np.array(1),
        "last": np.array([-1]),
        "low": np.array(LOWEST),
        "zero": np.array(0, np.float32),
    }
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]>\n{body}')
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in (shared | initializers).items() if name in used
    )
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _onnx(name: str, file: str, inputs: Sequence[str], outputs: Sequence[str]) -> bpb.OnnxGraph:
    return bpb.OnnxGraph(name=name, file=file, inputs=inputs, outputs=outputs)


def _bundle(name: str, task: mpb.Task, taken: mpb.InputDescription) -> bpb.Bundle:
    return bpb.Bundle(description=mpb.ModelDescription(name=name, task=task, inputs=[taken]))


def _write(
    repository: Path,
    bundle: bpb.Bundle,
    files: dict[str, bytes],
    examples: Sequence[Instance],
    samples: Sequence[Sample],
    version: int,
) -> BundleFolder:
    if any(step.HasField("tokenize") for each in bundle.preprocessing for step in each.steps):
        tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
        tokenizer.add_special_tokens(["[PAD]", "[BEGIN]", "[END]"])
        files["tokenizer.json"] = tokenizer.to_str().encode()
    bundle.description.examples.extend(map(instance_to_wire, examples))
    bundle.tolerances.extend(default_tolerances([each.name for each in bundle.description.maps]))
    return write_bundle(repository, bundle, files | {"samples.npz": samples_file(samples)}, version=version)


def _text_input(max_tokens: int) -> mpb.InputDescription:
    ids = mpb.TensorDescription(
        name="ids",
        data_type=vpb.DATA_TYPE_INT64,
        dimensions=[mpb.Dimension(name="token", maximum=max_tokens)],
        minimum=0,
        maximum=VOCABULARY - 1,
    )
    return mpb.InputDescription(name="text", kind=mpb.INPUT_KIND_TEXT, tensors=[ids])


def _tokenized(name: str) -> bpb.Preprocessing:
    step = bpb.Tokenize(tokenizer="tokenizer.json", tensor="ids")
    return bpb.Preprocessing(input=name, steps=[bpb.PreprocessingStep(tokenize=step)])


def _output(name: str, *dimensions: mpb.Dimension) -> mpb.OutputDescription:
    return mpb.OutputDescription(name=name, data_type=vpb.DATA_TYPE_FLOAT32, dimensions=dimensions)


def _map(bundle: bpb.Bundle, name: str, kind: apb.MapKind, queries: str, keys: str, **fields: object) -> None:
    """Describe a map; `encoder.0.self` is of layer 0 of the stack `encoder`."""
    stack, _, rest = name.partition(".")
    layer = rest.split(".")[0]
    values = {"heads": 1, "form": mpb.MAP_FORM_DENSE, "normalised": True} | fields
    if layer.isdigit():
        values |= {"stack": stack, "layer": int(layer)}
    bundle.description.maps.add(name=name, kind=kind, query_labels=queries, key_labels=keys, **values)  # type: ignore[arg-type]


def _bind(bundle: bpb.Bundle, name: str, graph: str, output: str, axes: str, quantity: int = 0) -> None:
    bundle.maps.add(
        map=name,
        quantity=quantity,  # type: ignore[arg-type]
        graph=graph,
        output=output,
        axes=[bpb.Axis.Value(f"AXIS_{axis}") for axis in axes.split()],
    )


def _labels(name: str, kind: apb.LabelKind, **fields: object) -> mpb.LabelSetDescription:
    return mpb.LabelSetDescription(name=name, kind=kind, **fields)  # type: ignore[arg-type]
