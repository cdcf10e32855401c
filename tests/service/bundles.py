"""Small bundles with real ONNX graphs, for tests that serve them: a text, a document, an image, and a generating model.

Weights are drawn from a fixed seed. The graphs are written in ONNX's own text syntax.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser
from tokenizers import Tokenizer, models, pre_tokenizers

from bundle.samples import samples_file
from bundle.v1 import bundle_pb2 as bpb
from bundle.writer import write_bundle
from limelight.v1 import attention_pb2 as apb
from limelight.v1 import model_pb2 as mpb
from limelight.v1 import values_pb2 as vpb

WORDS = ("[PAD]", "[UNK]", "[BEGIN]", "[END]", "the", "cat", "sat", "on", "a", "mat", ".", "dog", "ran", "far")
WIDTH = 4
MOST_TOKENS = 32
LABELS = ("calm", "lively", "neither")
_SELF = """
  qh = Reshape({x}, heads)
  q{n} = Transpose <perm = [0, 2, 1, 3]> (qh)
  kt{n} = Transpose <perm = [0, 2, 3, 1]> (qh)
  s{n} = MatMul(q{n}, kt{n})
  m{n} = Where(wide_mask, s{n}, low)
  attention{n} = Softmax <axis = -1> (m{n})
  c{n} = MatMul(attention{n}, q{n})
  t{n} = Transpose <perm = [0, 2, 1, 3]> (c{n})
  r{n} = Reshape(t{n}, joined)
  {y} = Add({x}, r{n})
"""


def write_text(repository: Path, name: str = "tiny", *, max_tokens: int = MOST_TOKENS) -> None:
    """A classifier of texts: two layers of self attention with two heads, then a pooling query."""
    body = f"""
agraph (int64[B, N] ids, bool[B, N] mask)
  => (float[B, 3] logits, float[B, N, 4] features, float[B, 2, N, N] attention0, float[B, 2, N, N] attention1,
      float[B, N] pooled)
{{
  x = Gather(embedding, ids)
  wide_mask = Unsqueeze(mask, axes12)
  {_self_layer(0, "x", "y")}
  {_self_layer(1, "y", "features")}
  ps = MatMul(features, query)
  flat = Squeeze(ps, axis2)
  pm = Where(mask, flat, low)
  pooled = Softmax <axis = -1> (pm)
  row = Unsqueeze(pooled, axis1)
  context = MatMul(row, features)
  vector = Squeeze(context, axis1)
  logits = MatMul(vector, classes)
}}
"""
    graph = _graph(body, embedding=(len(WORDS), WIDTH), query=(WIDTH, 1), classes=(WIDTH, 3))
    outputs = ["logits", "features", "attention0", "attention1", "pooled"]
    self_axes = [bpb.AXIS_BATCH, bpb.AXIS_HEAD, bpb.AXIS_QUERY, bpb.AXIS_KEY]
    description = mpb.ModelDescription(
        name=name,
        title="A tiny text model",
        task=mpb.TASK_CLASSIFICATION,
        inputs=[_text_input(max_tokens)],
        outputs=[
            _output("logits", mpb.Dimension(name="class", size=3)),
            _output("features", mpb.Dimension(name="token"), mpb.Dimension(name="feature", size=WIDTH)),
        ],
        result=mpb.ResultDescription(
            classes=mpb.ClassesDescription(output="logits", labels=LABELS, activation=mpb.ACTIVATION_SOFTMAX)
        ),
        maps=[
            _map("encoder.0.self", apb.MAP_KIND_SELF, "tokens", "tokens", stack="encoder", layer=0, heads=2),
            _map("encoder.1.self", apb.MAP_KIND_SELF, "tokens", "tokens", stack="encoder", layer=1, heads=2),
            _map("pool", apb.MAP_KIND_POOL, "one", "tokens"),
        ],
        label_sets=[
            _labels("tokens", apb.LABEL_KIND_TOKENS, input="text", tensor="ids", dimension="token"),
            _labels("one", apb.LABEL_KIND_ONE),
        ],
        limits=mpb.Limits(max_characters=500),
    )
    bundle = bpb.Bundle(
        description=description,
        graphs=[bpb.OnnxGraph(name="main", file="model.onnx", inputs=["ids", "mask"], outputs=outputs)],
        preprocessing=[_tokenized("text")],
        maps=[
            bpb.MapBinding(map="encoder.0.self", graph="main", output="attention0", axes=self_axes),
            bpb.MapBinding(map="encoder.1.self", graph="main", output="attention1", axes=self_axes),
            bpb.MapBinding(map="pool", graph="main", output="pooled", axes=[bpb.AXIS_BATCH, bpb.AXIS_KEY]),
        ],
    )
    _write(repository, bundle, {"model.onnx": graph})


def write_document(repository: Path, name: str = "paper") -> None:
    """A classifier of documents: words in each sentence (edges), then sentences."""
    body = """
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
"""
    graph = _graph(body, embedding=(len(WORDS), WIDTH), query=(WIDTH, 1), classes=(WIDTH, 3))
    ids = mpb.TensorDescription(
        name="ids",
        data_type=vpb.DATA_TYPE_INT64,
        dimensions=[mpb.Dimension(name="sentence", maximum=16), mpb.Dimension(name="word", maximum=MOST_TOKENS)],
        mask="mask",
        maximum=len(WORDS) - 1,
    )
    steps = _tokenized("text")
    steps.steps.insert(0, bpb.PreprocessingStep(split_sentences=bpb.SplitSentences()))
    description = mpb.ModelDescription(
        name=name,
        task=mpb.TASK_CLASSIFICATION,
        inputs=[mpb.InputDescription(name="text", kind=mpb.INPUT_KIND_DOCUMENT, tensors=[ids])],
        outputs=[_output("logits", mpb.Dimension(name="class", size=3))],
        result=mpb.ResultDescription(
            classes=mpb.ClassesDescription(output="logits", labels=LABELS, activation=mpb.ACTIVATION_SOFTMAX)
        ),
        maps=[
            _map("word", apb.MAP_KIND_POOL, "sentences", "words", form=mpb.MAP_FORM_EDGES),
            _map("sentence", apb.MAP_KIND_POOL, "one", "sentences"),
        ],
        label_sets=[
            _labels("words", apb.LABEL_KIND_TOKENS, input="text", tensor="ids", dimension="word", parent="sentences"),
            _labels("sentences", apb.LABEL_KIND_SENTENCES, input="text", tensor="ids", dimension="sentence"),
            _labels("one", apb.LABEL_KIND_ONE),
        ],
    )
    bundle = bpb.Bundle(
        description=description,
        graphs=[
            bpb.OnnxGraph(
                name="main", file="model.onnx", inputs=["ids", "mask"], outputs=["logits", "words", "sentences"]
            )
        ],
        preprocessing=[steps],
        maps=[
            bpb.MapBinding(
                map="word", graph="main", output="words", axes=[bpb.AXIS_BATCH, bpb.AXIS_QUERY, bpb.AXIS_KEY]
            ),
            bpb.MapBinding(map="sentence", graph="main", output="sentences", axes=[bpb.AXIS_BATCH, bpb.AXIS_KEY]),
        ],
    )
    _write(repository, bundle, {"model.onnx": graph})


def write_image(repository: Path, name: str = "picture") -> None:
    """A regression on images of 4 x 4 grey pixels: one query over a grid of 2 x 2 patches."""
    body = """
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
  numbers = MatMul(v, classes)
}
"""
    graph = _graph(
        body,
        query=(WIDTH, 1),
        classes=(WIDTH, 2),
        constants={"split": np.array([0, 2, 2, 2, 2]), "rows": np.array([0, 4, 4])},
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
    decode = bpb.DecodeImage(channels=1, rows=4, columns=4)
    normalise = bpb.NormaliseImage(scale=1 / 255, mean=[0.5], deviation=[0.5], tensor="pixels")
    description = mpb.ModelDescription(
        name=name,
        task=mpb.TASK_REGRESSION,
        inputs=[mpb.InputDescription(name="image", kind=mpb.INPUT_KIND_IMAGE, tensors=[pixels])],
        outputs=[_output("numbers", mpb.Dimension(name="number", size=2))],
        maps=[_map("patch", apb.MAP_KIND_POOL, "one", "patches")],
        label_sets=[
            _labels("patches", apb.LABEL_KIND_GRID, grid=apb.Grid(rows=2, columns=2)),
            _labels("one", apb.LABEL_KIND_ONE),
        ],
        limits=mpb.Limits(max_pixels=1_000_000),
    )
    bundle = bpb.Bundle(
        description=description,
        graphs=[bpb.OnnxGraph(name="main", file="model.onnx", inputs=["pixels"], outputs=["numbers", "attention"])],
        preprocessing=[
            bpb.Preprocessing(
                input="image",
                steps=[
                    bpb.PreprocessingStep(decode_image=decode),
                    bpb.PreprocessingStep(normalise_image=normalise),
                ],
            )
        ],
        maps=[
            bpb.MapBinding(
                map="patch",
                graph="main",
                output="attention",
                axes=[bpb.AXIS_BATCH, bpb.AXIS_HEAD, bpb.AXIS_QUERY, bpb.AXIS_KEY],
            )
        ],
    )
    _write(repository, bundle, {"model.onnx": graph})


def write_generator(repository: Path, name: str = "echo", *, max_new_tokens: int = 12, urge: float = 0.5) -> None:
    """A model that puts out words: each is the one most like what the last word attends to.

    urge: how much more the end token's score gets with every step; below zero it never ends by itself.
    """
    encoder = """
agraph (int64[B, N] ids, bool[B, N] mask) => (float[B, N, 4] memory)
{
  memory = Gather(embedding, ids)
}
"""
    step = """
agraph (int64[B] token, float[B, 1] age, float[B, N, 4] memory, bool[B, N] mask)
  => (float[B, 14] scores, float[B, 1] next_age, float[B, N] attention)
{
  x = Gather(embedding, token)
  column = Unsqueeze(x, axis2)
  s = MatMul(memory, column)
  f = Squeeze(s, axis2)
  m = Where(mask, f, low)
  attention = Softmax <axis = -1> (m)
  row = Unsqueeze(attention, axis1)
  c = MatMul(row, memory)
  v = Squeeze(c, axis1)
  likeness = MatMul(v, choices)
  next_age = Add(age, one)
  urge = MatMul(next_age, ending)
  scores = Add(likeness, urge)
}
"""
    ending = np.zeros((1, len(WORDS)), np.float32)
    ending[0, WORDS.index("[END]")] = urge
    files = {
        "encoder.onnx": _graph(encoder, embedding=(len(WORDS), WIDTH)),
        "step.onnx": _graph(
            step,
            embedding=(len(WORDS), WIDTH),
            choices=(WIDTH, len(WORDS)),
            constants={"ending": ending, "one": np.ones((1, 1), np.float32)},
        ),
    }
    description = mpb.ModelDescription(
        name=name,
        task=mpb.TASK_GENERATION,
        inputs=[_text_input(MOST_TOKENS)],
        outputs=[_output("scores", mpb.Dimension(name="output"), mpb.Dimension(name="token", size=len(WORDS)))],
        result=mpb.ResultDescription(
            sequence=mpb.SequenceDescription(label_set="output", max_new_tokens=max_new_tokens)
        ),
        maps=[
            _map("decoder.0.cross", apb.MAP_KIND_CROSS, "output", "tokens", stack="decoder", layer=0),
        ],
        label_sets=[
            _labels("tokens", apb.LABEL_KIND_TOKENS, input="text", tensor="ids", dimension="token"),
            _labels("output", apb.LABEL_KIND_OUTPUT_STEPS),
        ],
    )
    zeros = mpb.TensorDescription(
        name="age", data_type=vpb.DATA_TYPE_FLOAT32, dimensions=[mpb.Dimension(name="age", size=1)]
    )
    bundle = bpb.Bundle(
        description=description,
        graphs=[
            bpb.OnnxGraph(name="encoder", file="encoder.onnx", inputs=["ids", "mask"], outputs=["memory"]),
            bpb.OnnxGraph(
                name="step",
                file="step.onnx",
                inputs=["token", "age", "memory", "mask"],
                outputs=["scores", "next_age", "attention"],
            ),
        ],
        preprocessing=[_tokenized("text")],
        maps=[
            bpb.MapBinding(map="decoder.0.cross", graph="step", output="attention", axes=[bpb.AXIS_BATCH, bpb.AXIS_KEY])
        ],
        generation=bpb.Generation(
            encoder="encoder",
            step="step",
            token_input="token",
            scores_output="scores",
            states=[bpb.State(input="age", output="next_age", zeros=zeros)],
            begin_token=WORDS.index("[BEGIN]"),
            end_token=WORDS.index("[END]"),
            tokenizer="tokenizer.json",
            max_new_tokens=max_new_tokens,
        ),
    )
    _write(repository, bundle, files)


def _self_layer(number: int, before: str, after: str) -> str:
    return _SELF.format(n=number, x=before, y=after).replace("qh", f"qh{number}")


def _graph(body: str, constants: dict[str, np.ndarray] | None = None, **drawn: tuple[int, ...]) -> bytes:  # type: ignore[type-arg]
    random = np.random.default_rng(7)
    arrays = {name: random.normal(size=shape).astype(np.float32) for name, shape in drawn.items()}
    arrays |= {f"axis{axis}": np.array([axis]) for axis in (1, 2, 3)}
    arrays |= {
        "axes12": np.array([1, 2]),
        "heads": np.array([0, 0, 2, 2]),
        "joined": np.array([0, 0, 4]),
        "low": np.array(np.finfo(np.float32).min),
        "zero": np.array(0, np.float32),
    }
    arrays |= constants or {}
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]>\n{body}')
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in arrays.items() if name in used
    )
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _write(repository: Path, bundle: bpb.Bundle, files: dict[str, bytes]) -> None:
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    tokenizer.add_special_tokens(["[PAD]", "[BEGIN]", "[END]"])
    if not bundle.description.name.startswith("picture"):
        files["tokenizer.json"] = tokenizer.to_str().encode()
    repository.mkdir(parents=True, exist_ok=True)
    write_bundle(repository, bundle, files | {"samples.npz": samples_file([])})


def _text_input(max_tokens: int) -> mpb.InputDescription:
    ids = mpb.TensorDescription(
        name="ids",
        data_type=vpb.DATA_TYPE_INT64,
        dimensions=[mpb.Dimension(name="token", maximum=max_tokens)],
        mask="mask",
        maximum=len(WORDS) - 1,
    )
    return mpb.InputDescription(name="text", kind=mpb.INPUT_KIND_TEXT, tensors=[ids])


def _tokenized(name: str) -> bpb.Preprocessing:
    step = bpb.Tokenize(tokenizer="tokenizer.json", tensor="ids")
    return bpb.Preprocessing(input=name, steps=[bpb.PreprocessingStep(tokenize=step)])


def _output(name: str, *dimensions: mpb.Dimension) -> mpb.OutputDescription:
    return mpb.OutputDescription(name=name, data_type=vpb.DATA_TYPE_FLOAT32, dimensions=dimensions)


def _map(name: str, kind: apb.MapKind, queries: str, keys: str, **fields: object) -> mpb.MapDescription:
    values = {"heads": 1, "form": mpb.MAP_FORM_DENSE, "normalised": True} | fields
    return mpb.MapDescription(name=name, kind=kind, query_labels=queries, key_labels=keys, **values)  # type: ignore[arg-type]


def _labels(name: str, kind: apb.LabelKind, **fields: object) -> mpb.LabelSetDescription:
    return mpb.LabelSetDescription(name=name, kind=kind, **fields)  # type: ignore[arg-type]
