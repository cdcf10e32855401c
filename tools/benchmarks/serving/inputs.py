"""The requests: rows of token ids, in the protocol of each server."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.encoder_sizes import LONGEST, NAME, PLAIN, TINY, VOCABULARY, EncoderConfig
from benchmarks.peers import kserve
from limelight.v1 import attention_pb2, service_pb2, values_pb2

PREDICT = "/limelight.v1.AttentionService/Predict"
ATTEND = "/limelight.v1.AttentionService/Attend"
LENGTHS = ("32", "128", "mixed")
TINY_LENGTH = "40"  # tokens that the tiny model computes about 50 µs for
MAPS = tuple(f"encoder.{layer}.self" for layer in range(EncoderConfig.layers))
_HEADS = EncoderConfig.heads
Ids = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True)
class CallKind:
    """A kind of call: its name in tables, the model, and the options of Attend."""

    name: str
    model: str = NAME
    options: attention_pb2.AttentionOptions | None = None
    bytes_a_pair: float = 0.0  # of the answer's maps, at least, for each query and key

    @property
    def method(self) -> str:
        return PREDICT if self.options is None else ATTEND

    def serialise(self, row: Ids) -> bytes:
        """Write the request for one row."""
        tensor = values_pb2.Tensor(data_type=values_pb2.DATA_TYPE_INT64, shape=row.shape, data=row.tobytes())
        instance = values_pb2.Instance(inputs={"token_ids": values_pb2.Value(tensor=tensor)})
        model = values_pb2.Model(name=self.model)
        if self.options is None:
            return service_pb2.PredictRequest(model=model, instances=[instance]).SerializeToString()
        request = service_pb2.AttendRequest(model=model, instances=[instance], attention=self.options)
        return request.SerializeToString()

    def least_bytes(self, rows: Sequence[Ids]) -> float:
        """Bytes that an answer has at least, on the average."""
        return 8 + self.bytes_a_pair * sum(len(row) ** 2 for row in rows) / len(rows)


def _options(**fields: Any) -> attention_pb2.AttentionOptions:
    return attention_pb2.AttentionOptions(**fields)


_ONE_ROW = attention_pb2.MapSelection(layers=[-1], queries=[0])
_ALL = len(MAPS) * _HEADS
PREDICT_IT = CallKind("Predict")
PREDICT_PLAIN = CallKind("Predict, graph without maps", model=PLAIN)
PREDICT_TINY = CallKind("Predict, tiny", model=TINY)
ALL_MAPS = CallKind("Attend, all maps", options=_options(), bytes_a_pair=4 * _ALL)
FLOAT16 = CallKind(
    "Attend, all maps, float16", options=_options(encoding=attention_pb2.ENCODING_FLOAT16), bytes_a_pair=2 * _ALL
)
ONE_ROW = CallKind("Attend, one row", options=_options(selections=[_ONE_ROW]))
TOP_K = CallKind("Attend, top-k 8", options=_options(top_k=8))
HEAD_MEAN = CallKind(
    "Attend, head mean",
    options=_options(reduce_heads=attention_pb2.HEAD_REDUCTION_MEAN),
    bytes_a_pair=4 * len(MAPS),
)
ATTENDED = (ALL_MAPS, FLOAT16, ONE_ROW, TOP_K, HEAD_MEAN)


def rows_of(lengths: str, count: int = 256) -> list[Ids]:
    """Token ids of fixed or mixed length; mixed is log-normal with median 28 (sentences as people send them)."""
    random = np.random.default_rng(7)
    if lengths == "mixed":
        sizes = np.clip(random.lognormal(np.log(28), 0.8, count), 4, LONGEST).astype(int)
    else:
        sizes = np.full(count, int(lengths))
    return [random.integers(1, VOCABULARY, size, dtype=np.int64) for size in sizes]


def infer_requests(rows: Sequence[Ids], *, maps: bool) -> list[bytes]:
    """Ask the peers for the same: logits, and every map whole where maps are wanted."""
    outputs = ["logits", *(MAPS if maps else ())]
    return [
        kserve.infer(NAME, {"token_ids": row[None], "token_mask": np.ones((1, len(row)), bool)}, outputs)
        for row in rows
    ]


@dataclass(frozen=True)
class Workload:
    """Calls of one kind with rows of some length, the same for all servers."""

    kind: CallKind
    lengths: str
    rows: list[Ids] = field(repr=False)

    @property
    def maps(self) -> bool:
        return self.kind.options is not None


def workload_of(kind: CallKind, lengths: str) -> Workload:
    """Make the rows of a workload."""
    return Workload(kind, lengths, rows_of(lengths))
