"""The calls of a run: call n of a seed is always the same, as long as the server has the same models."""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import grpc
from google.protobuf import message_factory
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from hostile.fuzz.golden import Golden, golden
from hostile.fuzz.mutation import Mutator, on_the_wire, parts_of
from hostile.fuzz.open_inference import INFERENCE, of_model, of_server
from limelight.v1 import attention_pb2, model_pb2, service_pb2, values_pb2
from limelight_service.open_inference import open_inference_pb2

SERVICE = "/limelight.v1.AttentionService/"
GOLDEN_EVERY = 20
MAX_MESSAGE = 60_000  # bytes of a message that a server takes at once, whatever its windows
_LARGEST = 4 * 2**20  # of a message that goes the slow way
_LARGE_SHARE = 0.02  # of the messages over what the fast way sends; the others are not sent
_DEMO_SHARE = 0.1
_DEMO = frozenset({"dates", "numbers", "digits", "slips"})
_ENDLESS = "/grpc.health.v1.Health/Watch"
_HARD_FRAMES = (
    b"",
    b"\x00",
    b"\x00\x00\x00\x00",
    b"\x01\x00\x00\x00\x02\x08\x01",
    b"\x00\xff\xff\xff\xff",
    b"\x02\0\0\0\0",
)


@dataclass(frozen=True)
class Planned:
    """A call to make. number: in the run. body: with gRPC's framing. times in seconds, None for none.

    framed_badly: the framing itself is what no gRPC library sends, so that gRPC answers, not the service. large: too
    large for the fast client.
    """

    number: int
    method: str
    body: bytes
    timeout: float | None = None
    cancelled_after: float | None = None
    framed_badly: bool = False
    golden: Golden | None = None

    @property
    def large(self) -> bool:
        return len(self.body) > MAX_MESSAGE


def framed(data: bytes) -> bytes:
    """Put gRPC's five bytes before a message."""
    return b"\x00" + len(data).to_bytes(4) + data


class Requests:
    """Makes calls for the models of one server.

    models: what GetModel says of each. golden_every: of so many calls one is good.
    """

    def __init__(
        self, models: Sequence[service_pb2.GetModelResponse], seed: int, *, golden_every: int = GOLDEN_EVERY
    ) -> None:
        self._models = list(models)
        self._golden_every = golden_every
        self._seed = seed
        self._seeds = {model.description.name: list(_valid(model)) for model in self._models}
        self._small = [name for name in self._seeds if name not in _DEMO] or list(self._seeds)
        self._large = [name for name in self._seeds if name in _DEMO] or list(self._seeds)
        self._common = list(_of_no_model())
        everything = [each for seeds in self._seeds.values() for _, each in seeds]
        self._parts = parts_of(everything + [each for _, each in self._common])
        self._known = sorted(
            {each for model in self._models for each in _names(model)} | {"", "limelight.v1.AttentionService"}
        )

    @classmethod
    def of(cls, channel: grpc.Channel, seed: int, *, golden_every: int = GOLDEN_EVERY) -> "Requests":
        """Ask a server what it has, once it has loaded all of it."""
        listing = _listing(channel)
        while any(each.state == service_pb2.MODEL_STATE_LOADING for each in listing.models):
            time.sleep(0.05)
            listing = _listing(channel)
        ready = [each.model for each in listing.models if each.state == service_pb2.MODEL_STATE_READY]
        get = channel.unary_unary(SERVICE + "GetModel")
        asked = [service_pb2.GetModelRequest(model=each).SerializeToString() for each in ready]
        models = [service_pb2.GetModelResponse.FromString(get(each)) for each in asked]
        return cls(models, seed, golden_every=golden_every)

    @cached_property
    def methods(self) -> dict[str, type[Message]]:
        """Every method, with the type of its request."""
        found: dict[str, type[Message]] = {}
        for file in (service_pb2, open_inference_pb2, health_pb2, reflection_pb2):
            for service in file.DESCRIPTOR.services_by_name.values():
                for method in service.methods:
                    kind = message_factory.GetMessageClass(method.input_type)
                    found[f"/{service.full_name}/{method.name}"] = kind
        return found

    def planned(self, number: int) -> Planned | None:
        """Make call `number`; None where it came out too large to be sent."""
        if number % self._golden_every == 0:
            made = golden(self._models, number, random.Random(self._seed * 1_000_003 + number))
            return Planned(number, made.method, framed(made.request.SerializeToString()), golden=made)
        chance = random.Random(self._seed * 1_000_003 + number)
        method, valid = self._seed_of(chance)
        changed = Mutator(chance, self._known, self._parts).message(valid)
        lot = chance.random()
        if lot < 0.02:  # a message of another type
            changed = chance.choice(chance.choice(list(self._parts.values())))
        data = changed.SerializeToString()
        if lot > 0.85:
            data = on_the_wire(data, chance)
        body, framed_badly = framed(data), False
        if chance.random() < 0.003:
            body, framed_badly = chance.choice((*_HARD_FRAMES, body[: max(1, len(body) // 2)], body * 2)), True
        if len(body) > MAX_MESSAGE and (len(body) > _LARGEST or chance.random() > _LARGE_SHARE):
            return None
        if framed_badly:  # gRPC's own server leaves a call without a message open until then
            return Planned(number, method, body, 0.5, framed_badly=True)
        timeout = chance.choice((0.0, 0.001, 0.005, 0.02, 0.1)) if chance.random() < 0.1 else 30.0
        cancelled = chance.uniform(0, 0.03) if chance.random() < 0.1 or method == _ENDLESS else None
        if chance.random() < 0.003:
            method = chance.choice((method + "X", "/limelight.v1.AttentionService/", "/", "//", "/a.b/c"))
        return Planned(number, method, body, timeout, cancelled, framed_badly)

    def _seed_of(self, chance: random.Random) -> tuple[str, Message]:
        lot = chance.random()
        if lot < 0.08:
            return chance.choice(self._common)
        names = self._large if lot < 0.08 + _DEMO_SHARE else self._small
        return chance.choice(self._seeds[chance.choice(names)])


def _listing(channel: grpc.Channel) -> service_pb2.ListModelsResponse:
    return service_pb2.ListModelsResponse.FromString(channel.unary_unary(SERVICE + "ListModels")(b""))


def _valid(model: service_pb2.GetModelResponse) -> Iterator[tuple[str, Message]]:
    """Valid requests to one model: all that a caller may ask, each once or twice."""
    description = model.description
    wanted = values_pb2.Model(name=description.name)
    for example in description.examples:
        instance = values_pb2.Instance()
        instance.CopyFrom(example)
        instance.seed = 7
        both = [example, instance]
        yield SERVICE + "Predict", service_pb2.PredictRequest(model=wanted, instances=[example])
        yield SERVICE + "Tokenize", service_pb2.TokenizeRequest(model=wanted, instances=both, truncate=True)
        if interventions := [change for each in description.maps for change in _changes(each)]:
            changed = values_pb2.Instance(inputs=example.inputs, interventions=interventions)
            yield SERVICE + "Predict", service_pb2.PredictRequest(model=wanted, instances=[changed])
        outputs = [each.name for each in description.outputs]
        yield (
            SERVICE + "Predict",
            service_pb2.PredictRequest(model=wanted, instances=both, outputs=outputs, max_classes=2),
        )
        for ways in ([], [service_pb2.WAY_ATTENTION, service_pb2.WAY_ROLLOUT, service_pb2.WAY_ERASE]):
            for units in ({}, {"size": 2}, {"kind": service_pb2.UNIT_KIND_SENTENCES}, {"groups": _GROUPS}):
                fields = {"instances": [example], "ways": ways, "units": units, "target": {"index": 0}}
                yield SERVICE + "Explain", service_pb2.ExplainRequest(model=wanted, **fields)
        for options in _attention(description):
            asked = {"model": wanted, "instances": [example], "attention": options}
            yield SERVICE + "Attend", service_pb2.AttendRequest(**asked)
            yield SERVICE + "AttendStream", service_pb2.AttendStreamRequest(**asked)
            if description.task == model_pb2.TASK_GENERATION:
                for generation in _generation():
                    yield (
                        SERVICE + "Generate",
                        service_pb2.GenerateRequest(
                            model=wanted, instance=instance, attention=options, generation=generation
                        ),
                    )
        if description.task != model_pb2.TASK_GENERATION:
            yield SERVICE + "Generate", service_pb2.GenerateRequest(model=wanted, instance=example)
    yield SERVICE + "GetModel", service_pb2.GetModelRequest(model=wanted)
    yield from of_model(description)


_GROUPS = (
    values_pb2.Group(name="some", indices=[0, -1]),
    values_pb2.Group(name="range", ranges=[values_pb2.IndexRange(start=0, end=2)]),
    values_pb2.Group(name="span", spans=[values_pb2.TextSpan(start=0, end=3)]),
)


def _changes(described: model_pb2.MapDescription) -> Iterator[values_pb2.Intervention]:
    if described.interventions:
        yield values_pb2.Intervention(map=described.name, uniform=values_pb2.UniformWeights(), heads=[0], queries=[0])
    if values_pb2.INTERVENTION_KIND_KEY_FACTOR in described.interventions:
        factor = values_pb2.KeyFactor(factor=0.5, keys=values_pb2.Group(indices=[0]))
        yield values_pb2.Intervention(map=described.name, key_factor=factor, heads=[0])


def _attention(description: model_pb2.ModelDescription) -> Iterator[attention_pb2.AttentionOptions]:
    pb = attention_pb2
    yield pb.AttentionOptions()
    yield pb.AttentionOptions(top_k=2, encoding=pb.ENCODING_UINT8)
    yield pb.AttentionOptions(rollout=True, reduce_heads=pb.HEAD_REDUCTION_MEAN)
    yield pb.AttentionOptions(pool=pb.Pool(size=2, reduction=pb.POOL_REDUCTION_MEAN), encoding=pb.ENCODING_FLOAT16)
    for each in list(description.maps)[:3]:
        selection = pb.MapSelection(names=[each.name], heads=[0, -1], queries=[0, -1], keys=[0, 1])
        yield pb.AttentionOptions(selections=[selection], quantity=pb.QUANTITY_WEIGHTS)
        grouping = pb.Grouping(label_set=each.key_labels, groups=_GROUPS, reduction=pb.GROUP_REDUCTION_MEAN)
        chosen = [pb.MapSelection(names=[each.name])]
        yield pb.AttentionOptions(selections=chosen, key_groups=[grouping])
        yield pb.AttentionOptions(selections=chosen, query_groups=[grouping], top_k=1)


def _generation() -> Iterator[service_pb2.GenerationOptions]:
    pb = service_pb2
    yield pb.GenerationOptions()
    yield pb.GenerationOptions(strategy=pb.STRATEGY_SAMPLE, temperature=0.7, top_k=3, top_p=0.9, max_new_tokens=6)
    yield pb.GenerationOptions(strategy=pb.STRATEGY_BEAM, beams=3, hypotheses=2, length_penalty=0.5, stop=["mat"])
    yield pb.GenerationOptions(max_new_tokens=3, top_logprobs=5)


def _of_no_model() -> Iterator[tuple[str, Message]]:
    yield from of_server()
    yield SERVICE + "ListModels", service_pb2.ListModelsRequest()
    yield "/grpc.health.v1.Health/List", health_pb2.HealthListRequest()
    for name in ("", "limelight.v1.AttentionService", INFERENCE):
        yield "/grpc.health.v1.Health/Check", health_pb2.HealthCheckRequest(service=name)
        yield _ENDLESS, health_pb2.HealthCheckRequest(service=name)
    reflection, ask = (
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest,
    )
    yield reflection, ask(list_services="")
    yield reflection, ask(file_containing_symbol="limelight.v1.AttentionService")
    yield reflection, ask(file_by_filename="limelight/v1/service.proto")
    extension = reflection_pb2.ExtensionRequest(containing_type="limelight.v1.Model", extension_number=1)
    yield reflection, ask(file_containing_extension=extension)
    yield reflection, ask(all_extension_numbers_of_type="limelight.v1.Model")


def _names(model: service_pb2.GetModelResponse) -> Iterator[str]:
    """Names that requests to a model may hold."""
    description = model.description
    yield description.name
    for each in description.inputs:
        yield each.name
        yield from (tensor.name for tensor in each.tensors)
    for group in (description.outputs, description.maps, description.label_sets):
        yield from (each.name for each in group)
