"""A small server that speaks the protocol with made-up models, so that the client is tested over a real socket.

`scribe` classifies text (two layers of two heads), `han` reads documents (edges), `vit` reads images (a grid), `vqa` is
asked about them, `nli` about two texts, `echo` puts out its input in capitals, `weather` has several results. What each
computes is simple enough to check by hand; every request is kept.
"""

import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import grpc
import numpy as np
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from PIL import Image, ImageOps

from limelight.tensors import to_array, to_tensor
from limelight.v1 import attention_pb2 as attention
from limelight.v1 import model_pb2 as model
from limelight.v1 import service_pb2 as service
from limelight.v1 import service_pb2_grpc, values_pb2


class Servicer(service_pb2_grpc.AttentionServiceServicer):
    def __init__(self):
        self.requests = []
        self.metadata = {}
        self.unavailable = 0
        self.cancelled = 0
        self.leaving = threading.Event()  # ends what sleeps

    def note(self, request, context):
        self.requests.append(request)
        self.metadata = dict(context.invocation_metadata())

    def ListModels(self, request, context):
        self.note(request, context)
        return service.ListModelsResponse(models=[BROKEN, *(GetModel(name).status for name in MODELS)])

    def GetModel(self, request, context):
        self.note(request, context)
        for status in (BROKEN, LOADING):
            if request.model.name == status.model.name:
                return service.GetModelResponse(status=status)
        self.check(request.model, context)
        return GetModel(request.model.name)

    def Predict(self, request, context):
        self.note(request, context)
        self.check(request.model, context)
        answers = [answer(request.model.name, instance, request.generation) for instance in request.instances]
        for each in answers:
            fewer_classes(each, request.max_classes)
        return service.PredictResponse(predictions=[each.prediction for each in answers])

    def Attend(self, request, context):
        self.note(request, context)
        self.check(request.model, context)
        answers = [answer(request.model.name, instance, request.generation) for instance in request.instances]
        for each in answers:
            fewer_classes(each, request.max_classes)
            select(each, request.attention, context)
        return service.AttendResponse(results=answers)

    def Generate(self, request, context):
        self.note(request, context)
        self.check(request.model, context)
        finished = []
        # Runs when the call is over: before its end was sent, if the caller left.
        context.add_callback(lambda: setattr(self, "cancelled", self.cancelled + (not finished)))
        if request.model.name != "echo":
            abort(context, grpc.StatusCode.FAILED_PRECONDITION, f"model {request.model.name!r} does not generate")
        whole = answer("echo", request.instance, request.generation)
        steps, source = whole.prediction.label_sets
        start = service.GenerationStart(label_sets=[source])
        if whole.prediction.HasField("seed"):
            start.seed = whole.prediction.seed
        yield service.GenerateResponse(start=start)
        sequences = whole.prediction.results[0].sequences.sequences
        best = sequences[0]
        weights = np.frombuffer(whole.maps[0].weights.data, "<f4").reshape(whole.maps[0].weights.shape)
        beam = request.generation.strategy == service.STRATEGY_BEAM
        for step, text in enumerate([] if beam else steps.texts):
            if "slow" in request.instance.inputs["text"].text:
                time.sleep(0.2)
            delta = text if step == 0 or steps.special[step] else f" {text}"
            event = service.GeneratedToken(
                index=step, id=best.token_ids[step], text=text, log_probability=-0.5, delta=delta
            )
            if request.HasField("attention"):
                row = event.maps.add()
                row.CopyFrom(whole.maps[0])
                row.weights.CopyFrom(to_tensor(weights[:, step : step + 1]))
            yield service.GenerateResponse(token=event)
        end = service.GenerationEnd(sequences=sequences, label_set=steps)
        if beam:
            end.maps.extend(whole.maps)
        finished.append(True)
        yield service.GenerateResponse(end=end)

    def check(self, asked, context):
        """What bad requests get."""
        if self.unavailable > 0:
            self.unavailable -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "starting")
        if asked.name == "full":
            retry = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=1, nanos=500_000_000))
            abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "256 instances wait already", retry)
        if asked.name == "crash":
            raise RuntimeError("a fault of the server")
        if asked.name == "sleepy":
            self.leaving.wait(30)
        if asked.name not in MODELS or asked.version > 1:
            known = ", ".join(MODELS)
            abort(context, grpc.StatusCode.NOT_FOUND, f"no model {asked.name!r}; there are {known}")


def abort(context, code, message, *details):
    packed = []
    for detail in details:
        packed.append(any_pb2.Any())
        packed[-1].Pack(detail)
    status = status_pb2.Status(code=code.value[0], message=message, details=packed)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(code, message)


def fewer_classes(each, most):
    for result in each.prediction.results:
        if most and result.HasField("classification"):
            del result.classification.classes[most:]


def select(each, options, context):
    """Names, heads, their mean, top k and the number of sequences are all that these tests need of the options."""
    names = [name for selection in options.selections for name in selection.names] or ["*"]
    kept = [map_ for map_ in each.maps if any(fnmatchcase(map_.name, name) for name in names)]
    if not kept:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field="attention.selections[0].names[0]", description=f"no map matches {names[0]!r}"
        )
        bad = error_details_pb2.BadRequest(field_violations=[violation])
        abort(context, grpc.StatusCode.INVALID_ARGUMENT, f"no map matches {names[0]!r}", bad)
    for map_ in kept:
        weights = np.frombuffer(map_.weights.data, "<f4").reshape(map_.weights.shape)
        if options.top_k and map_.HasField("query_index"):
            sizes = {labels.name: labels.size for labels in each.prediction.label_sets}
            dense = np.zeros((len(weights), sizes[map_.query_labels], sizes[map_.key_labels]), np.float32)
            dense[:, to_array(map_.query_index), to_array(map_.key_index)] = weights
            weights = dense
        if heads := sorted({head % len(weights) for each in options.selections for head in each.heads}):
            weights, map_.heads[:] = weights[heads], heads
            map_.weights.CopyFrom(to_tensor(weights))
        if options.reduce_heads:
            map_.head_reduction = options.reduce_heads
            weights = weights.mean(axis=0, keepdims=True)
            map_.weights.CopyFrom(to_tensor(weights))
        if options.top_k:
            cut(map_, weights, options.top_k)
    del each.maps[:]
    each.maps.extend(kept)
    del each.other_sequences[max(1, options.sequences) - 1 :]


def cut(each, weights, most):
    """The `most` best keys of each head and query."""
    order = np.sort(np.argsort(-weights, axis=2, kind="stable")[:, :, :most], axis=2)
    here = np.take_along_axis(weights, order, axis=2)
    each.weights.CopyFrom(to_tensor(here))
    each.ClearField("query_index")
    each.key_index.CopyFrom(to_tensor(order.astype(np.int32)))
    rest = weights.sum(axis=2) - here.sum(axis=2)
    each.left_out.CopyFrom(to_tensor(rest.astype(np.float32)))


def answer(name, instance, generation):
    attended = MODELS[name](instance, generation)
    made_by = attended.prediction.provenance
    made_by.model.name, made_by.model.version = name, 1
    made_by.provider, made_by.batch_rows, made_by.compute_nanoseconds = "CPUExecutionProvider", 1, 1_500_000
    if generation.strategy == service.STRATEGY_SAMPLE:
        attended.prediction.seed = instance.seed if instance.HasField("seed") else FRESH_SEED
    return attended


# The seed that an unseeded sample draws from: larger than any 63-bit integer.
FRESH_SEED = 2**63 + 1


def normalised(scores):
    return (scores / scores.sum(axis=-1, keepdims=True)).astype(np.float32)


@dataclass
class Columns:
    """The columns of a label set of tokens."""

    texts: list = field(default_factory=list)
    starts: list = field(default_factory=list)
    ends: list = field(default_factory=list)
    ids: list = field(default_factory=list)
    special: list = field(default_factory=list)

    def add(self, text, start=0, end=0, special=False):
        self.texts.append(text)
        self.starts.append(start)
        self.ends.append(end)
        self.ids.append(len(text))
        self.special.append(special)

    def message(self, name, kind="LABEL_KIND_TOKENS", **fields):
        columns = {name: values for name, values in vars(self).items() if name != "special" or any(values)}
        return attention.LabelSet(name=name, kind=kind, size=len(self.texts), **columns, **fields)


def words_of(text, into=None, offset=0):
    """The words of a text; the id of each is its length."""
    columns, at = into or Columns(), 0
    for word in text.split():
        at = text.index(word, at)
        columns.add(word, offset + at, offset + at + len(word))
        at += len(word)
    return columns


def classes(**probabilities):
    ranked = sorted(enumerate(probabilities.items()), key=lambda each: -each[1][1])
    rows = [service.ClassProbability(label=label, index=index, probability=p) for index, (label, p) in ranked]
    return service.Result(name="class", classification=service.Classification(classes=rows))


def scribe(instance, _):
    """Each head attends to words by their length to the power of its number; `[CLS]` and `[SEP]` count as length 1."""
    columns = Columns()
    columns.add("[CLS]", special=True)
    words_of(instance.inputs["text"].text, columns)
    columns.add("[SEP]", special=True)
    lengths = np.array([1.0, *map(len, columns.texts[1:-1]), 1.0])
    size = len(lengths)
    maps = []
    for layer in range(2):
        weights = np.stack([normalised(np.tile(lengths ** (2 * layer + head), (size, 1))) for head in range(2)])
        maps.append(
            attention.AttentionMap(
                name=f"encoder.{layer}.self", stack="encoder", layer=layer, kind="MAP_KIND_SELF", normalised=True,
                quantity="QUANTITY_WEIGHTS", query_labels="tokens", key_labels="tokens", heads=[0, 1],
                weights=to_tensor(weights),
            )
        )  # fmt: skip
    labels = columns.message("tokens", inputs=["text"])
    prediction = service.Prediction(results=[classes(short=0.25, long=0.75)], label_sets=[labels])
    prediction.outputs["logits"].CopyFrom(to_tensor(np.array([0.0, np.log(3)], np.float32)))
    return service.Attended(prediction=prediction, maps=maps)


def han(instance, _):
    """Words weigh as their lengths in their sentence, sentences as their numbers of words."""
    value = instance.inputs["document"]
    kind = value.document.WhichOneof("content") if value.HasField("document") else "text"
    if kind == "sentences":
        sentences = [(text, 0) for text in value.document.sentences.texts]
    else:
        text, sentences, at = value.document.text or value.text, [], 0
        for piece in text.split(". "):
            sentences.append((piece, at))
            at += len(piece) + 2
    words, parents = Columns(), []
    for index, (text, start) in enumerate(sentences):
        words_of(text, words, start)
        parents += [index] * (len(words.texts) - len(parents))
    counts = np.bincount(parents)
    parents = np.array(parents, np.int32)
    lengths = np.array([len(word) for word in words.texts], float)
    sums = np.bincount(parents, lengths)
    word_map = attention.AttentionMap(
        name="word", stack="word", kind="MAP_KIND_POOL", normalised=True, heads=[0],
        query_labels="sentences", key_labels="words", weights=to_tensor(np.float32(lengths / sums[parents])[None]),
        query_index=to_tensor(parents), key_index=to_tensor(np.arange(len(parents), dtype=np.int32)),
    )  # fmt: skip
    sentence_map = attention.AttentionMap(
        name="sentence", stack="sentence", kind="MAP_KIND_POOL", normalised=True, heads=[0],
        query_labels="document", key_labels="sentences", weights=to_tensor(normalised(np.array([[counts]], float))),
    )  # fmt: skip
    starts = [start for _, start in sentences]
    sets = [
        words.message("words", parents=parents, parent="sentences", inputs=["document"]),
        attention.LabelSet(
            name="sentences", kind="LABEL_KIND_SENTENCES", size=len(sentences), inputs=["document"],
            starts=starts, ends=[start + len(text) for text, start in sentences],
        ),
        attention.LabelSet(name="document", kind="LABEL_KIND_ONE", size=1),
    ]  # fmt: skip
    prediction = service.Prediction(results=[classes(networking=0.9, files=0.1)], label_sets=sets)
    return service.Attended(prediction=prediction, maps=[word_map, sentence_map])


def vit(instance, _):
    """A class token before 4 x 4 patches. It attends to entry i with a weight of (i + 1) / 153, the patches evenly.

    The patches cover the largest square in the middle of the image, turned as its orientation says.
    """
    weights = normalised(np.vstack([np.arange(1.0, 18.0), np.ones((16, 17))]))
    maps = [
        attention.AttentionMap(
            name=f"encoder.{layer}.self", stack="encoder", layer=layer, kind="MAP_KIND_SELF", normalised=True,
            heads=[0, 1], query_labels="patches", key_labels="patches", weights=to_tensor(np.stack([weights] * 2)),
        )
        for layer in range(2)
    ]  # fmt: skip
    wide, high = ImageOps.exif_transpose(Image.open(io.BytesIO(instance.inputs["image"].image))).size
    side = min(wide, high)
    left, top = (wide - side) / 2, (high - side) / 2
    region = attention.Region(left=left, top=top, right=left + side, bottom=top + side)
    grid = attention.Grid(rows=4, columns=4, leading=["[class]"], region=region)
    labels = attention.LabelSet(name="patches", kind="LABEL_KIND_GRID", size=17, grid=grid, inputs=["image"])
    digits = {str(digit): 0.91 if digit == 7 else 0.01 for digit in range(10)}
    prediction = service.Prediction(results=[classes(**digits)], label_sets=[labels])
    return service.Attended(prediction=prediction, maps=maps)


def echo(instance, generation):
    """Puts out its input in capitals, or `target`; each step looks at the word it repeats with 0.6, the rest evenly.

    The second hypothesis is the first word in small letters.
    """
    source = words_of(instance.inputs["text"].text)
    said = instance.inputs["target"].text.split() if "target" in instance.inputs else [t.upper() for t in source.texts]
    if generation.max_new_tokens:
        said = said[: generation.max_new_tokens]
    best, steps, cross = said_by_echo(said, len(source.texts))
    sequences, others = [best], []
    if generation.hypotheses > 1:
        small, other_steps, other_cross = said_by_echo([said[0].lower()], len(source.texts))
        sequences.append(small)
        others.append(service.SequenceAttention(sequence=1, label_sets=[other_steps], maps=[other_cross]))
    prediction = service.Prediction(label_sets=[steps, source.message("source", inputs=["text"])])
    prediction.results.add(name="text").sequences.sequences.extend(sequences)
    return service.Attended(prediction=prediction, maps=[cross], other_sequences=others)


def said_by_echo(said, source):
    """A sequence, its output steps and its attention over so many words of the source."""
    text = " ".join(said)
    columns = words_of(text)
    columns.add("</s>", len(text), len(text), special=True)
    weights = np.full((1, len(columns.texts), source), 0.4 / max(1, source - 1), np.float32)
    for step in range(len(columns.texts)):
        weights[0, step, min(step, source - 1)] = 0.6
    cross = attention.AttentionMap(
        name="decoder.cross", stack="decoder", kind="MAP_KIND_CROSS", normalised=True, heads=[0],
        query_labels="output", key_labels="source", weights=to_tensor(weights),
    )  # fmt: skip
    sequence = service.Sequence(
        text=text,
        token_ids=range(len(columns.texts)),
        log_probabilities=[-0.5] * len(columns.texts),
        finish_reason="FINISH_REASON_END",
    )
    return sequence, columns.message("output", "LABEL_KIND_OUTPUT_STEPS"), cross


def weather(instance, _):
    """Several results: two numbers, a class for each word, the best span and a vector; no maps."""
    columns = words_of(instance.inputs["text"].text)
    prediction, words = service.Prediction(label_sets=[columns.message("tokens", inputs=["text"])]), columns.texts
    numbers = prediction.results.add(name="forecast").regression.numbers
    numbers.add(name="temperature", value=21.5, unit="°C")
    numbers.add(name="index", value=3.0)
    tags = prediction.results.add(name="words").tagging
    tags.label_set, tags.classes_per_entry = "tokens", 2
    for word in words:
        tags.labels.extend(["LONG", "SHORT"] if len(word) > 3 else ["SHORT", "LONG"])
        tags.indices.extend([1, 0] if len(word) > 3 else [0, 1])
        tags.probabilities.extend([0.75, 0.25])
    prediction.results.add(name="place").spans.spans.add(text=words[0], start=0, end=len(words[0]), probability=0.5)
    prediction.results.add(name="vector").embedding.vector.CopyFrom(to_tensor(np.array([1.0, 2.0], np.float32)))
    return service.Attended(prediction=prediction)


def nli(instance, _):
    """Two texts follow from each other; no maps."""
    return service.Attended(prediction=service.Prediction(results=[classes(follows=0.75, contradicts=0.25)]))


MODELS = {"echo": echo, "han": han, "nli": nli, "scribe": scribe, "vit": vit, "vqa": vit, "weather": weather}


BROKEN = service.ModelStatus(
    model=values_pb2.Model(name="broken", version=1),
    state="MODEL_STATE_FAILED",
    reason="model.onnx is not the file that bundle.json names",
)
LOADING = service.ModelStatus(model=values_pb2.Model(name="coming", version=1), state="MODEL_STATE_LOADING")


def GetModel(name):
    title, task, inputs, stack = {
        "echo": ("Echo", "GENERATION", [("text", "TEXT", False), ("target", "TEXT", True)], ("decoder.cross",)),
        "han": (
            "Hierarchical attention network",
            "CLASSIFICATION",
            [("document", "DOCUMENT", False)],
            ("word", "sentence"),
        ),
        "nli": ("Inference", "CLASSIFICATION", [("pair", "PAIR", False)], ()),
        "scribe": ("Scribe", "CLASSIFICATION", [("text", "TEXT", False)], ("encoder.0.self", "encoder.1.self")),
        "vit": (
            "Vision Transformer",
            "CLASSIFICATION",
            [("image", "IMAGE", False)],
            ("encoder.0.self", "encoder.1.self"),
        ),
        "vqa": (
            "Questions about images",
            "CLASSIFICATION",
            [("image", "IMAGE", False), ("question", "TEXT", False)],
            ("encoder.0.self", "encoder.1.self"),
        ),
        "weather": ("Weather", "REGRESSION", [("text", "TEXT", False)], ()),
    }[name]
    description = model.ModelDescription(
        name=name, version=1, title=title, task=f"TASK_{task}", summary=f"{title}, made up for tests.",
        inputs=[model.InputDescription(name=n, kind=f"INPUT_KIND_{k}", optional=o) for n, k, o in inputs],
        maps=[
            model.MapDescription(
                name=n, heads=1 + n.startswith("encoder"), query_labels="q", key_labels="k",
                quantities=["QUANTITY_SCORES", "QUANTITY_NORMS"], interventions=["INTERVENTION_KIND_HEAD_SCALES"],
            )
            for n in stack
        ],
        metrics=[
            model.Metric(
                name="accuracy", value=0.875, split="held-out", baseline=0.5, baseline_name="majority class",
                float32_value=0.9,
            )
        ],
        precision="PRECISION_INT8",
    )  # fmt: skip
    if name == "echo":
        made = description.results.add(name="text").sequence
        made.label_set, made.target_input, made.max_new_tokens = "output", "target", 32
    if name == "weather":
        description.results.add(name="forecast").regression.targets.add(name="temperature", unit="°C")
    if name == "vqa":
        example, image = description.examples.add(), io.BytesIO()
        Image.new("RGB", (8, 8), (0, 0, 255)).save(image, "PNG")
        example.inputs["question"].text, example.inputs["image"].image = "is it\nblue?", image.getvalue()
    if name == "scribe":
        description.results.add(name="class").classes.labels.extend(["short", "long"])
        description.examples.add().inputs["text"].text = "an example of the model"
        description.taxonomy.scoring.append("scaled multiplicative")
        description.citation.authors.append("Nobody")
        description.citation.year = 2021
    status = service.ModelStatus(
        model=values_pb2.Model(name=name, version=1),
        state="MODEL_STATE_READY",
        is_default=True,
        title=title,
        task=f"TASK_{task}",
    )
    return service.GetModelResponse(status=status, description=description, bundle_digest="0" * 64)


class Server:
    """The servicer on a port of its own. A `with` block stops it."""

    def __init__(self, port=0, host="127.0.0.1"):
        self.servicer = Servicer()
        options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)]
        self.server = grpc.server(ThreadPoolExecutor(8), options=options)
        service_pb2_grpc.add_AttentionServiceServicer_to_server(self.servicer, self.server)
        self.port = self.server.add_insecure_port(f"{host}:{port}")
        self.target = f"{host}:{self.port}"
        self.server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.servicer.leaving.set()
        self.server.stop(None).wait()
