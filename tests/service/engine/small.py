"""Small bundles of four shapes of model, with NumPy as the oracle that wrote their samples.

classifier: token ids -> logits, logits of each token, a map of 2 heads [query, key] and a pooled map.
ragged: sentences of words -> logits, the words' map in edges, the sentences' map.
generator: token ids -> tokens; a recurrent state, a growing cache, a map over the source and one over what was put out.
noisy: like a classifier that only adds Gumbel noise to fixed logits.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

from bundle.maps import MapWeights
from bundle.preprocess import Preprocessor
from bundle.reader import BundleFolder
from bundle.rows import Row
from bundle.samples import Sample, samples_file
from bundle.tolerance import default_tolerances
from bundle.v1 import bundle_pb2
from bundle.values import Array, TensorValue
from bundle.wire import instance_to_wire
from bundle.writer import write_bundle
from limelight.v1 import attention_pb2, model_pb2, values_pb2

VOCABULARY, WIDTH, CLASSES = 12, 6, 3
BEGIN, END = 1, 2
LONGEST = 40
_HEADER = '<ir_version: 9, opset_import: ["" : 18]>'
_RANDOM = np.random.default_rng(7)


def _weights(*shape: int) -> Array:
    return _RANDOM.normal(size=shape).astype(np.float32)


EMBEDDING, QUERY, OUT = _weights(VOCABULARY, WIDTH), _weights(WIDTH, 1), _weights(WIDTH, CLASSES)
HEADS = _weights(2, WIDTH, WIDTH)
CARRY, MIX, SCORES = _weights(WIDTH, WIDTH), _weights(WIDTH, WIDTH), 3 * _weights(WIDTH, VOCABULARY)
LOWEST = np.float32(-1e30)


def softmax(scores: Array, mask: Array) -> Array:
    """Softmax over the last axis where the mask is true, zeros elsewhere."""
    scores = np.where(mask, scores, LOWEST)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True)) * mask
    return np.asarray(weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-30))


def graph(text: str, **initializers: Array) -> bytes:
    """Make a graph from ONNX's text form."""
    model = parser.parse_model(_HEADER + text)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in initializers.items())
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def classifier(repository: Path, *, version: int = 1, samples: bool = True, name: str = "classifier") -> BundleFolder:
    """Write the classifier."""
    model = graph(
        """
        g (int64[b, t] token_ids, bool[b, t] token_mask)
          => (float[b, c] logits, float[b, t, c] tags, float[b, h, t, u] self, float[b, t] pool) {
          e = Gather(embedding, token_ids)
          e4 = Unsqueeze(e, one)
          keys = Transpose<perm = [0, 1, 3, 2]>(e4)
          heads_q = MatMul(e4, heads)
          raw = MatMul(heads_q, keys)
          mask3 = Unsqueeze(token_mask, one)
          mask4 = Unsqueeze(mask3, one)
          raw_masked = Where(mask4, raw, lowest)
          self_all = Softmax<axis = -1>(raw_masked)
          mask4f = Cast<to = 1>(mask4)
          self = Mul(self_all, mask4f)
          mixed = MatMul(self, e4)
          context = ReduceSum<keepdims = 0>(mixed, one)
          scores = MatMul(context, query)
          flat = Squeeze(scores, two)
          flat_masked = Where(token_mask, flat, lowest)
          pool_all = Softmax<axis = -1>(flat_masked)
          maskf = Cast<to = 1>(token_mask)
          pool = Mul(pool_all, maskf)
          pool3 = Unsqueeze(pool, one)
          pooled = MatMul(pool3, context)
          vector = Squeeze(pooled, one)
          logits = MatMul(vector, out)
          tags = MatMul(context, out)
        }""",
        embedding=EMBEDDING,
        heads=HEADS,
        query=QUERY,
        out=OUT,
        lowest=LOWEST,
        one=np.array([1]),
        two=np.array([2]),
    )
    bundle = bundle_pb2.Bundle(graphs=[_graph("main", "token_ids token_mask", "logits tags self pool")])
    description = _description(bundle, name, model_pb2.TASK_CLASSIFICATION)
    description.outputs.add(name="logits", data_type=values_pb2.DATA_TYPE_FLOAT32).dimensions.add(
        name="class", size=CLASSES
    )
    tags = description.outputs.add(name="tags", data_type=values_pb2.DATA_TYPE_FLOAT32)
    tags.dimensions.add(name="token")
    tags.dimensions.add(name="class", size=CLASSES)
    _map(bundle, "encoder.0.self", "main", "self", "BATCH HEAD QUERY KEY", "tokens", "tokens", heads=2)
    _map(bundle, "pool", "main", "pool", "BATCH KEY", "one", "tokens")
    inputs = [np.array(ids) for ids in ([3], [4, 5, 6], [7, 8, 9, 10, 11, 3, 4])]
    found = [classified(ids) for ids in inputs] if samples else []
    return _write(
        repository, bundle, {"model.onnx": model}, [{"token_ids": ids} for ids in inputs][: len(found)], found, version
    )


def classified(ids: Array) -> Sample:
    """Answer as the classifier does."""
    e = EMBEDDING[ids]
    weights = softmax(np.einsum("qd,hde,ke->hqk", e, HEADS, e), np.ones(len(ids), bool))
    context = (weights @ e).sum(0)
    pool = softmax((context @ QUERY)[:, 0], np.ones(len(ids), bool))
    maps = {"encoder.0.self": MapWeights(weights), "pool": MapWeights(pool[None, None])}
    return Sample({"token_ids": ids}, {"logits": pool @ context @ OUT, "tags": context @ OUT}, maps)


def ragged(repository: Path, *, version: int = 1) -> BundleFolder:
    """Write the model of words in sentences."""
    model = graph(
        """
        g (int64[b, s, w] word_ids, bool[b, s, w] word_mask)
          => (float[b, c] logits, float[b, s, w] word, float[b, s] sentence) {
          e = Gather(embedding, word_ids)
          raw4 = MatMul(e, query)
          raw = Squeeze(raw4, minus)
          raw_masked = Where(word_mask, raw, lowest)
          word_all = Softmax<axis = -1>(raw_masked)
          maskf = Cast<to = 1>(word_mask)
          word = Mul(word_all, maskf)
          word4 = Unsqueeze(word, minus)
          weighed = Mul(e, word4)
          sentences = ReduceSum<keepdims = 0>(weighed, two)
          there = ReduceMax<keepdims = 0>(maskf, two)
          there_mask = Cast<to = 9>(there)
          raw3 = MatMul(sentences, query)
          raw2 = Squeeze(raw3, minus)
          raw2_masked = Where(there_mask, raw2, lowest)
          sentence_all = Softmax<axis = -1>(raw2_masked)
          sentence = Mul(sentence_all, there)
          sentence3 = Unsqueeze(sentence, one)
          document3 = MatMul(sentence3, sentences)
          document = Squeeze(document3, one)
          logits = MatMul(document, out)
        }""",
        embedding=EMBEDDING,
        query=QUERY,
        out=OUT,
        lowest=LOWEST,
        one=np.array([1]),
        two=np.array([2]),
        minus=np.array([-1]),
    )
    bundle = bundle_pb2.Bundle(graphs=[_graph("main", "word_ids word_mask", "logits word sentence")])
    description = bundle.description
    description.name, description.task = "ragged", model_pb2.TASK_CLASSIFICATION
    tensor = description.inputs.add(name="document", kind=model_pb2.INPUT_KIND_TENSOR).tensors.add(
        name="word_ids", data_type=values_pb2.DATA_TYPE_INT64, mask="word_mask", minimum=1, maximum=VOCABULARY - 1
    )
    tensor.dimensions.add(name="sentence", maximum=LONGEST)
    tensor.dimensions.add(name="word", maximum=LONGEST)
    sets = description.label_sets
    sets.add(name="one", kind=attention_pb2.LABEL_KIND_ONE)
    sets.add(
        name="sentences",
        kind=attention_pb2.LABEL_KIND_SENTENCES,
        input="document",
        tensor="word_ids",
        dimension="sentence",
    )
    sets.add(
        name="words",
        kind=attention_pb2.LABEL_KIND_TOKENS,
        input="document",
        tensor="word_ids",
        dimension="word",
        parent="sentences",
    )
    description.outputs.add(name="logits", data_type=values_pb2.DATA_TYPE_FLOAT32).dimensions.add(
        name="class", size=CLASSES
    )
    edges = model_pb2.MAP_FORM_EDGES
    _map(bundle, "word", "main", "word", "BATCH QUERY KEY", "sentences", "words", form=edges)
    _map(bundle, "sentence", "main", "sentence", "BATCH KEY", "one", "sentences")
    inputs = [np.array([[3, 4, 5]]), np.array([[3, 4, 5, 6], [7, 0, 0, 0], [8, 9, 0, 0]])]
    return _write(
        repository,
        bundle,
        {"model.onnx": model},
        [{"word_ids": ids} for ids in inputs],
        list(map(read, inputs)),
        version,
    )


def read(ids: Array) -> Sample:
    """Answer as the model of words in sentences does."""
    mask = ids != 0
    e = EMBEDDING[ids]
    word = softmax((e @ QUERY)[..., 0], mask)
    sentences = (e * word[..., None]).sum(1)
    sentence = softmax((sentences @ QUERY)[:, 0], np.ones(len(ids), bool))
    queries = np.nonzero(mask)[0].astype(np.int32)
    maps = {
        "word": MapWeights(word[mask][None], queries, np.arange(len(queries), dtype=np.int32)),
        "sentence": MapWeights(sentence[None, None]),
    }
    return Sample({"word_ids": ids}, {"logits": sentence @ sentences @ OUT}, maps)


def noisy(repository: Path, *, version: int = 1) -> BundleFolder:
    """Write the model that only adds noise: a Gumbel draw a class, a uniform and a normal one a token."""
    model = graph(
        """
        g (int64[b, t] token_ids, float[b, c] gumbel, float[b, t] uniform, float[b, t] normal)
          => (float[b, c] logits, float[b, t] first, float[b, t] second) {
          logits = Identity(gumbel)
          ids = Cast<to = 1>(token_ids)
          zeros = Sub(ids, ids)
          first = Add(uniform, zeros)
          second = Add(normal, zeros)
        }"""
    )
    bundle = bundle_pb2.Bundle(graphs=[_graph("main", "token_ids gumbel uniform normal", "logits first second")])
    description = _description(bundle, "noisy", model_pb2.TASK_CLASSIFICATION)
    for name, axis, size in (("logits", "class", CLASSES), ("first", "token", 0), ("second", "token", 0)):
        description.outputs.add(name=name, data_type=values_pb2.DATA_TYPE_FLOAT32).dimensions.add(name=axis, size=size)
    for name, axis, size in (("gumbel", "class", CLASSES), ("uniform", "token", 0), ("normal", "token", 0)):
        noise = bundle.noise.add(distribution=f"DISTRIBUTION_{name.upper()}")  # type: ignore[arg-type]
        noise.tensor.name, noise.tensor.data_type = name, values_pb2.DATA_TYPE_FLOAT32
        noise.tensor.dimensions.add(name=axis, size=size)
    ids = np.array([3, 4, 5])
    neutral = {"logits": np.zeros(3), "first": np.full(3, 0.5), "second": np.zeros(3)}
    sample = Sample({"token_ids": ids}, {name: array.astype(np.float32) for name, array in neutral.items()}, {})
    return _write(repository, bundle, {"model.onnx": model}, [{"token_ids": ids}], [sample], version)


def generator(repository: Path, *, version: int = 1, longest: int = 12) -> BundleFolder:
    """Write the model that generates."""
    encoder = graph(
        """
        g (int64[b, t] token_ids, bool[b, t] token_mask) => (float[b, t, d] memory, float[b, d] start) {
          e = Gather(embedding, token_ids)
          maskf = Cast<to = 1>(token_mask)
          mask3 = Unsqueeze(maskf, two)
          memory = Mul(e, mask3)
          total = ReduceSum<keepdims = 0>(memory, one)
          start = Tanh(total)
        }""",
        embedding=EMBEDDING,
        one=np.array([1]),
        two=np.array([2]),
    )
    step = graph(
        """
        g (int64[b] token, float[b, d] state, float[b, n, d] past, float[b, t, d] memory, bool[b, t] token_mask)
          => (float[b, v] scores, float[b, d] state_out, float[b, m, d] present, float[b, t] cross, float[b, m] own) {
          y = Gather(embedding, token)
          y3 = Unsqueeze(y, one)
          present = Concat<axis = 1>(past, y3)
          carried = MatMul(state, carry)
          mixed = MatMul(y, mix)
          sum = Add(carried, mixed)
          state_out = Tanh(sum)
          s3 = Unsqueeze(state_out, two)
          own3 = MatMul(present, s3)
          own2 = Squeeze(own3, two)
          own = Softmax<axis = -1>(own2)
          raw3 = MatMul(memory, s3)
          raw = Squeeze(raw3, two)
          raw_masked = Where(token_mask, raw, lowest)
          all = Softmax<axis = -1>(raw_masked)
          maskf = Cast<to = 1>(token_mask)
          cross = Mul(all, maskf)
          cross3 = Unsqueeze(cross, one)
          context3 = MatMul(cross3, memory)
          own_row = Unsqueeze(own, one)
          self3 = MatMul(own_row, present)
          both3 = Add(context3, self3)
          both = Squeeze(both3, one)
          all_state = Add(both, state_out)
          scores = MatMul(all_state, vocabulary)
        }""",
        embedding=EMBEDDING,
        carry=CARRY,
        mix=MIX,
        vocabulary=SCORES,
        lowest=LOWEST,
        one=np.array([1]),
        two=np.array([2]),
    )
    bundle = bundle_pb2.Bundle(
        graphs=[
            _graph("encoder", "token_ids token_mask", "memory start", "encoder.onnx"),
            _graph("step", "token state past memory token_mask", "scores state_out present cross own", "step.onnx"),
        ]
    )
    description = _description(bundle, "generator", model_pb2.TASK_GENERATION)
    target = description.inputs.add(name="target", kind=model_pb2.INPUT_KIND_TENSOR, optional=True).tensors.add(
        name="target_ids", data_type=values_pb2.DATA_TYPE_INT64, maximum=VOCABULARY - 1
    )
    target.dimensions.add(name="target_token", maximum=LONGEST)
    description.label_sets.add(name="steps", kind=attention_pb2.LABEL_KIND_OUTPUT_STEPS)
    description.result.sequence.label_set = "steps"
    description.result.sequence.max_new_tokens = longest
    generation = bundle.generation
    generation.encoder, generation.step = "encoder", "step"
    generation.token_input, generation.scores_output = "token", "scores"
    generation.begin_token, generation.end_token, generation.max_new_tokens = BEGIN, END, longest
    generation.tokenizer, generation.target_tensor = "tokenizer.json", "target_ids"
    generation.states.add(input="state", output="state_out", encoder_output="start")
    past = generation.states.add(input="past", output="present", growing_axis=1)
    past.zeros.data_type = values_pb2.DATA_TYPE_FLOAT32
    past.zeros.dimensions.add(name="past")
    past.zeros.dimensions.add(name="feature", size=WIDTH)
    _map(bundle, "cross", "step", "cross", "BATCH KEY", "steps", "tokens")
    _map(bundle, "own", "step", "own", "BATCH KEY", "steps", "steps")
    inputs = [np.array([3, 4, 5]), np.array([6, 7, 8, 9, 10, 11]), np.array([3])]
    files = {"encoder.onnx": encoder, "step.onnx": step, "tokenizer.json": _tokenizer()}
    samples = [generated(ids, longest) for ids in inputs]
    return _write(repository, bundle, files, [{"token_ids": ids} for ids in inputs], samples, version)


def step_scores(ids: Array, tokens: Sequence[int]) -> tuple[Array, list[Array], list[Array]]:
    """Run the generator in NumPy on the tokens put in: scores after the last, and both maps' rows of every step."""
    memory = EMBEDDING[ids]
    state, past = np.tanh(memory.sum(0)), np.zeros((0, WIDTH), np.float32)
    cross, own = [], []
    for token in tokens:
        past = np.concatenate([past, EMBEDDING[token][None]])
        state = np.tanh(state @ CARRY + EMBEDDING[token] @ MIX)
        own.append(softmax(past @ state, np.ones(len(past), bool)))
        cross.append(softmax(memory @ state, np.ones(len(ids), bool)))
        scores = (cross[-1] @ memory + own[-1] @ past + state) @ SCORES
    return scores, cross, own


def log_probabilities(ids: Array, tokens: Sequence[int]) -> Array:
    """Give the generator's log-probabilities of the next token after those put out so far."""
    scores = step_scores(ids, [BEGIN, *tokens])[0].astype(np.float64)
    return np.asarray(scores - scores.max() - np.log(np.exp(scores - scores.max()).sum()))


def generated(ids: Array, longest: int) -> Sample:
    """Generate greedily as the generator does."""
    tokens: list[int] = []
    while len(tokens) <= longest:
        token = int(log_probabilities(ids, tokens).argmax())
        if token == END:
            tokens.append(token)
            break
        if len(tokens) == longest:
            break
        tokens.append(token)
    maps = generated_maps(ids, tokens)
    return Sample({"token_ids": ids}, {}, maps, tuple(tokens))


def generated_maps(ids: Array, tokens: Sequence[int]) -> dict[str, MapWeights]:
    """Give both maps of the generator for a sequence put out."""
    _, cross, own = step_scores(ids, [BEGIN, *tokens][:-1])
    square = np.zeros((1, len(own), len(own)), np.float32)
    for step, row in enumerate(own):
        square[0, step, : len(row)] = row
    return {"cross": MapWeights(np.stack(cross)[None].astype(np.float32)), "own": MapWeights(square)}


def row(folder: BundleFolder, **tensors: Sequence[int] | Array) -> Row:
    """Prepare a row from tensors of INT64."""
    values = {name: TensorValue(np.asarray(value, np.int64)) for name, value in tensors.items()}
    return Preprocessor(folder).row(values, field="instances[0]")


def _graph(name: str, inputs: str, outputs: str, file: str = "model.onnx") -> bundle_pb2.OnnxGraph:
    return bundle_pb2.OnnxGraph(name=name, file=file, inputs=inputs.split(), outputs=outputs.split())


def _description(bundle: bundle_pb2.Bundle, name: str, task: model_pb2.Task) -> model_pb2.ModelDescription:
    description = bundle.description
    description.name, description.task = name, task
    mask = "" if name == "noisy" else "token_mask"
    tensor = description.inputs.add(name="tokens", kind=model_pb2.INPUT_KIND_TENSOR).tensors.add(
        name="token_ids", data_type=values_pb2.DATA_TYPE_INT64, mask=mask, minimum=1, maximum=VOCABULARY - 1
    )
    tensor.dimensions.add(name="token", maximum=LONGEST)
    description.label_sets.add(name="one", kind=attention_pb2.LABEL_KIND_ONE)
    description.label_sets.add(
        name="tokens",
        kind=attention_pb2.LABEL_KIND_TOKENS,
        input="tokens",
        tensor="token_ids",
        dimension="token",
    )
    return description


def _map(
    bundle: bundle_pb2.Bundle,
    name: str,
    graph: str,
    output: str,
    axes: str,
    queries: str,
    keys: str,
    *,
    heads: int = 1,
    form: model_pb2.MapForm = model_pb2.MAP_FORM_DENSE,
) -> None:
    bundle.description.maps.add(
        name=name, normalised=True, heads=heads, query_labels=queries, key_labels=keys, form=form
    )
    bundle.maps.add(
        map=name, graph=graph, output=output, axes=[bundle_pb2.Axis.Value(f"AXIS_{axis}") for axis in axes.split()]
    )


def _tokenizer() -> bytes:
    import json

    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    words = ["<pad>", "<s>", "</s>", *"abcdefghi"]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="<pad>"))
    tokenizer.add_special_tokens(words[:3])
    return json.dumps(json.loads(tokenizer.to_str())).encode()


def _write(
    repository: Path,
    bundle: bundle_pb2.Bundle,
    files: dict[str, bytes],
    examples: list[dict[str, Array]],
    samples: list[Sample],
    version: int,
) -> BundleFolder:
    for example in examples:
        bundle.description.examples.append(
            instance_to_wire({name: TensorValue(array) for name, array in example.items()})
        )
    bundle.tolerances.extend(default_tolerances([each.name for each in bundle.description.maps]))
    return write_bundle(repository, bundle, {**files, "samples.npz": samples_file(samples)}, version=version)
