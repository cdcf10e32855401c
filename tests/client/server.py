"""A small server that speaks the protocol with made-up models, so that the client is tested over a real socket.

`scribe` classifies text (two layers of two heads), `han` reads documents (edges), `vit` reads images (a grid), `echo`
puts out its input in capitals. What each computes is simple enough to check by hand; every request is kept.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase

import grpc
import numpy as np
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from limelight.tensors import to_tensor
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

    def ListModels(self, request, context):
        self.requests.append(request)
        models = [GetModel(name).status for name in MODELS]
        broken = service.ModelStatus(model=values_pb2.Model(name="broken", version=1), state="MODEL_STATE_FAILED")
        broken.reason = "model.onnx is not the file that bundle.json names"
        return service.ListModelsResponse(models=[broken, *models])

    def GetModel(self, request, context):
        self.requests.append(request)
        self.check(request.model, context)
        return GetModel(request.model.name)

    def Predict(self, request, context):
        self.requests.append(request)
        self.metadata = dict(context.invocation_metadata())
        self.check(request.model, context)
        answers = [answer(request.model.name, instance, request.generation) for instance in request.instances]
        return service.PredictResponse(predictions=[each.prediction for each in answers])

    def Attend(self, request, context):
        self.requests.append(request)
        self.check(request.model, context)
        answers = [answer(request.model.name, instance, request.generation) for instance in request.instances]
        for each in answers:
            select(each, request.attention, context)
        return service.AttendResponse(results=answers)

    def Generate(self, request, context):
        self.requests.append(request)
        self.check(request.model, context)
        finished = []
        # Runs when the call is over: before its end was sent, if the caller left.
        context.add_callback(lambda: setattr(self, "cancelled", self.cancelled + (not finished)))
        if request.model.name != "echo":
            abort(context, grpc.StatusCode.FAILED_PRECONDITION, f"model {request.model.name!r} does not generate")
        whole = answer("echo", request.instance, request.generation)
        steps, source = whole.label_sets
        yield service.GenerateResponse(start=service.GenerationStart(label_sets=[source]))
        best = whole.prediction.sequences.sequences[0]
        weights = np.frombuffer(whole.maps[0].weights.data, "<f4").reshape(whole.maps[0].weights.shape)
        beam = request.generation.strategy == service.STRATEGY_BEAM
        for step, token in enumerate([] if beam else steps.tokens):
            if "slow" in request.instance.inputs["text"].text:
                time.sleep(0.2)
            delta = token.text if step == 0 or token.special else f" {token.text}"
            event = service.GeneratedToken(
                index=step, id=best.token_ids[step], text=token.text, log_probability=-0.5, delta=delta
            )
            if request.HasField("attention"):
                row = event.maps.add()
                row.CopyFrom(whole.maps[0])
                row.weights.CopyFrom(to_tensor(weights[:, step : step + 1]))
            yield service.GenerateResponse(token=event)
        end = service.GenerationEnd(sequences=whole.prediction.sequences.sequences, label_set=steps)
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
            time.sleep(1)
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


def select(each, options, context):
    """Names and the mean over heads are all that these tests need of a selection."""
    names = [name for selection in options.selections for name in selection.names] or ["*"]
    kept = [map_ for map_ in each.maps if any(fnmatchcase(map_.name, name) for name in names)]
    if not kept:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field="attention.selections[0].names[0]", description=f"no map matches {names[0]!r}"
        )
        bad = error_details_pb2.BadRequest(field_violations=[violation])
        abort(context, grpc.StatusCode.INVALID_ARGUMENT, f"no map matches {names[0]!r}", bad)
    for map_ in kept:
        if options.reduce_heads:
            weights = np.frombuffer(map_.weights.data, "<f4").reshape(map_.weights.shape)
            map_.weights.CopyFrom(to_tensor(weights.mean(axis=0, keepdims=True)))
            del map_.heads[:]
    del each.maps[:]
    each.maps.extend(kept)


def answer(name, instance, generation):
    attended = MODELS[name](instance, generation)
    made_by = attended.prediction.provenance
    made_by.model.name, made_by.model.version = name, 1
    made_by.provider, made_by.batch_rows, made_by.compute_nanoseconds = "CPUExecutionProvider", 1, 1_500_000
    return attended


def normalised(scores):
    return (scores / scores.sum(axis=-1, keepdims=True)).astype(np.float32)


def word_tokens(text):
    at, tokens = 0, []
    for word in text.split():
        at = text.index(word, at)
        tokens.append(attention.Token(text=word, start=at, end=at + len(word)))
        at += len(word)
    return tokens


def classes(**probabilities):
    ranked = sorted(enumerate(probabilities.items()), key=lambda each: -each[1][1])
    rows = [service.ClassProbability(label=label, index=index, probability=p) for index, (label, p) in ranked]
    return service.Classification(classes=rows)


def scribe(instance, _):
    """Each head attends to words by their length to the power of its number; `[CLS]` and `[SEP]` count as length 1."""
    text = instance.inputs["text"].text
    tokens = [
        attention.Token(text="[CLS]", special=True),
        *word_tokens(text),
        attention.Token(text="[SEP]", special=True),
    ]
    lengths = np.array([1.0 if token.special else len(token.text) for token in tokens])
    size = len(tokens)
    maps = []
    for layer in range(2):
        weights = np.stack([normalised(np.tile(lengths ** (2 * layer + head), (size, 1))) for head in range(2)])
        maps.append(
            attention.AttentionMap(
                name=f"encoder.{layer}.self", stack="encoder", layer=layer, kind="MAP_KIND_SELF", normalised=True,
                query_labels="tokens", key_labels="tokens", heads=[0, 1], weights=to_tensor(weights),
            )
        )  # fmt: skip
    labels = attention.LabelSet(name="tokens", kind="LABEL_KIND_TOKENS", size=size, tokens=tokens)
    prediction = service.Prediction(classification=classes(short=0.25, long=0.75))
    prediction.outputs["logits"].CopyFrom(to_tensor(np.array([0.0, np.log(3)], np.float32)))
    return service.Attended(prediction=prediction, label_sets=[labels], maps=maps)


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
    words, labels, counts = [], [], []
    for index, (text, start) in enumerate(sentences):
        labels.append(attention.Token(start=start, end=start + len(text)))
        pieces = word_tokens(text)
        counts.append(len(pieces))
        for word in pieces:
            words.append(attention.Token(text=word.text, start=start + word.start, end=start + word.end, parent=index))
    parents = np.array([word.parent for word in words], np.int32)
    lengths = np.array([len(word.text) for word in words], float)
    sums = np.bincount(parents, lengths)
    word_map = attention.AttentionMap(
        name="word", stack="word", kind="MAP_KIND_POOL", normalised=True, heads=[0],
        query_labels="sentences", key_labels="words", weights=to_tensor(np.float32(lengths / sums[parents])[None]),
        query_index=to_tensor(parents), key_index=to_tensor(np.arange(len(words), dtype=np.int32)),
    )  # fmt: skip
    sentence_map = attention.AttentionMap(
        name="sentence", stack="sentence", kind="MAP_KIND_POOL", normalised=True, heads=[0],
        query_labels="document", key_labels="sentences", weights=to_tensor(normalised(np.array([[counts]], float))),
    )  # fmt: skip
    sets = [
        attention.LabelSet(
            name="words", kind="LABEL_KIND_TOKENS", size=len(words), tokens=words, parent="sentences"
        ),
        attention.LabelSet(name="sentences", kind="LABEL_KIND_SENTENCES", size=len(labels), tokens=labels),
        attention.LabelSet(name="document", kind="LABEL_KIND_ONE", size=1),
    ]  # fmt: skip
    prediction = service.Prediction(classification=classes(networking=0.9, files=0.1))
    return service.Attended(prediction=prediction, label_sets=sets, maps=[word_map, sentence_map])


def vit(_, __):
    """A class token before 4 x 4 patches. It attends to entry i with a weight of (i + 1) / 153, the patches evenly."""
    weights = normalised(np.vstack([np.arange(1.0, 18.0), np.ones((16, 17))]))
    maps = [
        attention.AttentionMap(
            name=f"encoder.{layer}.self", stack="encoder", layer=layer, kind="MAP_KIND_SELF", normalised=True,
            heads=[0, 1], query_labels="patches", key_labels="patches", weights=to_tensor(np.stack([weights] * 2)),
        )
        for layer in range(2)
    ]  # fmt: skip
    grid = attention.Grid(rows=4, columns=4, leading=["[class]"])
    labels = attention.LabelSet(name="patches", kind="LABEL_KIND_GRID", size=17, grid=grid)
    digits = {str(digit): 0.91 if digit == 7 else 0.01 for digit in range(10)}
    return service.Attended(
        prediction=service.Prediction(classification=classes(**digits)), label_sets=[labels], maps=maps
    )


def echo(instance, generation):
    """Puts out its input in capitals, or `target`; each step looks at the word it repeats with 0.6, the rest evenly."""
    source = word_tokens(instance.inputs["text"].text)
    said = instance.inputs["target"].text.split() if "target" in instance.inputs else [t.text.upper() for t in source]
    if generation.max_new_tokens:
        said = said[: generation.max_new_tokens]
    text, steps, at = " ".join(said), [], 0
    for word in said:
        steps.append(attention.Token(text=word, start=at, end=at + len(word)))
        at += len(word) + 1
    steps.append(attention.Token(text="</s>", start=len(text), end=len(text), special=True))
    weights = np.full((1, len(steps), len(source)), 0.4 / max(1, len(source) - 1), np.float32)
    for step in range(len(steps)):
        weights[0, step, min(step, len(source) - 1)] = 0.6
    cross = attention.AttentionMap(
        name="decoder.cross", stack="decoder", kind="MAP_KIND_CROSS", normalised=True, heads=[0],
        query_labels="output", key_labels="source", weights=to_tensor(weights),
    )  # fmt: skip
    sets = [
        attention.LabelSet(name="output", kind="LABEL_KIND_OUTPUT_STEPS", size=len(steps), tokens=steps),
        attention.LabelSet(name="source", kind="LABEL_KIND_TOKENS", size=len(source), tokens=source),
    ]
    sequence = service.Sequence(
        text=text, token_ids=range(len(steps)), log_probabilities=[-0.5] * len(steps), finish_reason="FINISH_REASON_END"
    )
    other = service.Sequence(
        text=text.lower(), token_ids=[9], log_probabilities=[-2.0], finish_reason="FINISH_REASON_END"
    )
    sequences = [sequence, other][: max(1, generation.hypotheses)]
    prediction = service.Prediction(sequences=service.Sequences(sequences=sequences))
    return service.Attended(prediction=prediction, label_sets=sets, maps=[cross])


MODELS = {"echo": echo, "han": han, "scribe": scribe, "vit": vit}


def GetModel(name):
    title, task, inputs, stack = {
        "echo": ("Echo", "GENERATION", [("text", "TEXT", False), ("target", "TEXT", True)], ("decoder.cross",)),
        "han": (
            "Hierarchical attention network",
            "CLASSIFICATION",
            [("document", "DOCUMENT", False)],
            ("word", "sentence"),
        ),
        "scribe": ("Scribe", "CLASSIFICATION", [("text", "TEXT", False)], ("encoder.0.self", "encoder.1.self")),
        "vit": (
            "Vision Transformer",
            "CLASSIFICATION",
            [("image", "IMAGE", False)],
            ("encoder.0.self", "encoder.1.self"),
        ),
    }[name]
    description = model.ModelDescription(
        name=name, version=1, title=title, task=f"TASK_{task}", summary=f"{title}, made up for tests.",
        inputs=[model.InputDescription(name=n, kind=f"INPUT_KIND_{k}", optional=o) for n, k, o in inputs],
        maps=[
            model.MapDescription(name=n, heads=1 + n.startswith("encoder"), query_labels="q", key_labels="k")
            for n in stack
        ],
        metrics=[
            model.Metric(name="accuracy", value=0.875, split="held-out", baseline=0.5, baseline_name="majority class")
        ],
    )  # fmt: skip
    if name == "echo":
        description.result.sequence.target_input = "target"
        description.result.sequence.max_new_tokens = 32
    if name == "scribe":
        description.result.classes.labels.extend(["short", "long"])
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

    def __init__(self, port=0):
        self.servicer = Servicer()
        options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)]
        self.server = grpc.server(ThreadPoolExecutor(8), options=options)
        service_pb2_grpc.add_AttentionServiceServicer_to_server(self.servicer, self.server)
        self.port = self.server.add_insecure_port(f"127.0.0.1:{port}")
        self.target = f"127.0.0.1:{self.port}"
        self.server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(None).wait()
