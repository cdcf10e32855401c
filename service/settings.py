"""The server's settings: what can be set, what it means, and which values it takes."""

import math
from dataclasses import dataclass, field, fields
from typing import Any

import tomli_w

from service.machine import available_cores, available_memory

_MEBIBYTE = 2**20
_LARGEST_MESSAGE = 2**31 - 1


@dataclass(frozen=True)
class Rule:
    """What a setting means and which values it takes."""

    summary: str
    minimum: float = -math.inf
    maximum: float = math.inf
    choices: tuple[str, ...] = ()


def _setting(default: Any, summary: str, **rule: Any) -> Any:
    return field(default=default, metadata={"rule": Rule(summary, **rule)})


@dataclass(frozen=True)
class Settings:
    """Everything that can be set. `configuration.load_settings` makes it and checks it.

    The docs' table is made of these fields.
    """

    repository: str = _setting("", "Folder of models: REPOSITORY/<model>/<version>/.")
    host: str = _setting("127.0.0.1", "Address that gRPC listens on; 0.0.0.0 for every one.")
    port: int = _setting(50051, "Port that gRPC listens on; 0 for any free one.", minimum=0, maximum=65535)
    metrics_host: str = _setting("127.0.0.1", "Address that metrics are served on.")
    metrics_port: int = _setting(9464, "Port that metrics are served on; 0 for none.", minimum=0, maximum=65535)
    tls_cert: str = _setting("", "Certificate in PEM, with its chain: calls are encrypted. Read again when it changes.")
    tls_key: str = _setting("", "Key of the certificate, in PEM.")
    tls_client_ca: str = _setting("", "Certificates in PEM that sign callers' own: nobody connects without one.")
    tokens: str = _setting(
        "",
        "TOML file of the tokens that calls need, made with `limelight token new`. Read again when it changes.",
    )
    insecure: bool = _setting(
        False, "Listen where other machines reach it without TLS: for trusted networks, or behind a proxy with a lock."
    )
    insecure_metrics: bool = _setting(
        False, "Serve metrics, unencrypted and to everybody, where other machines reach them."
    )
    reflection: bool = _setting(True, "Describe the protocol to programs that ask for it (gRPC reflection).")
    provider: str = _setting(
        "auto", "Execution provider; auto is CUDA where it works.", choices=("auto", "cpu", "cuda")
    )
    gpu_device: int = _setting(0, "Number of the GPU to use, with CUDA.", minimum=0, maximum=255)
    gpu_memory_bytes: int = _setting(
        0,
        "Bytes of the GPU that each graph of a model may hold, weights and work; 0 for no limit.",
        minimum=0,
        maximum=2**60,
    )
    gpu_tf32: bool = _setting(False, "TF32 on the GPU: faster, and often too coarse for what the bundles promise.")
    gpu_graphs: bool = _setting(
        True,
        "CUDA graphs for small batches of models that they suit, recorded while a model loads; its weights are then "
        "on the GPU twice.",
    )
    workers: int = _setting(
        1,
        "Processes that answer on the one port, each with every model: small models on a CPU.",
        minimum=1,
        maximum=256,
    )
    apart: bool = _setting(
        True,
        "Take calls with one process and answer them with another, so that neither waits for the other. Without it one "
        "does both, as each of several workers does.",
    )
    cores: int = _setting(
        0, "Cores to use, of all workers together; 0 for all that the process may use.", minimum=0, maximum=4096
    )
    lanes: int = _setting(
        0, "Batches that run at the same time (in each worker); 0 for one a core.", minimum=0, maximum=1024
    )
    queue_rows: int = _setting(1024, "Instances that may wait, of all calls together.", minimum=1, maximum=10**6)
    max_instances: int = _setting(256, "Instances that one call may hold.", minimum=1, maximum=10**6)
    max_batch_rows: int = _setting(0, "Instances in a batch; 0 for what suits the provider.", minimum=0, maximum=10**5)
    max_batch_tokens: int = _setting(
        0, "Places in a batch, padding included; 0 for what suits the provider.", minimum=0, maximum=10**9
    )
    max_request_bytes: int = _setting(
        16 * _MEBIBYTE, "Largest request, in bytes.", minimum=1024, maximum=_LARGEST_MESSAGE
    )
    max_request_fields: int = _setting(
        100_000,
        "Fields that a request may have, every entry and everything inside counted; 16 bytes of numbers are one.",
        minimum=100,
        maximum=10**8,
    )
    max_characters: int = _setting(
        1_000_000,
        "Characters of a text, or of all sentences of a document, that is sent; less where a model says so. 0 for no "
        "limit.",
        minimum=0,
        maximum=_LARGEST_MESSAGE,
    )
    max_pixels: int = _setting(
        2**26,
        "Pixels of an image, before it is decoded; less where a model says so. 0 for no limit.",
        minimum=0,
        maximum=_LARGEST_MESSAGE,
    )
    max_arriving_bytes: int = _setting(
        0,
        "Bytes of requests that may be arriving at the same time, and as many of requests in flight; 0 for an eighth "
        "of the memory.",
        minimum=0,
        maximum=2**60,
    )
    arrival_seconds: float = _setting(
        30.0,
        "Time that a request may take to arrive; less where others wait for its place.",
        minimum=0.1,
        maximum=3600.0,
    )
    answer_seconds: float = _setting(
        120.0,
        "Time that an answer, or a message of a stream, may wait for its reader; then the connection is closed.",
        minimum=0.1,
        maximum=10**6,
    )
    max_response_bytes: int = _setting(
        64 * _MEBIBYTE, "Largest answer, in bytes.", minimum=1024, maximum=_LARGEST_MESSAGE
    )
    chunk_bytes: int = _setting(
        3 * _MEBIBYTE,
        "Largest chunk of a map in an answer of AttendStream, in bytes; a query that takes more is one of its own.",
        minimum=4096,
        maximum=_LARGEST_MESSAGE,
    )
    max_stream_bytes: int = _setting(
        64 * 2**30, "Most attention in one answer of AttendStream, in bytes; 0 for no limit.", minimum=0, maximum=2**60
    )
    max_held_bytes: int = _setting(
        0,
        "Bytes that all calls together may hold: whole maps until they are cut, and answers until they are sent; 0 for "
        "a quarter of the memory.",
        minimum=0,
        maximum=2**60,
    )
    drain_seconds: float = _setting(
        0.0, "Time between reporting not ready and beginning to stop.", minimum=0.0, maximum=3600.0
    )
    grace_seconds: float = _setting(
        30.0, "Time that calls get to finish when the server stops.", minimum=0.0, maximum=3600.0
    )
    max_connections: int = _setting(
        2048, "Connections at the same time; further ones are closed at once.", minimum=1, maximum=10**6
    )
    max_calls_per_connection: int = _setting(
        128,
        "Calls of one connection that are worked on at the same time; further ones wait, in their order.",
        minimum=1,
        maximum=10**6,
    )
    idle_seconds: float = _setting(
        300.0,
        "Time after which a connection without calls is closed; clients open another.",
        minimum=1.0,
        maximum=10**6,
    )
    pending_calls: int = _setting(
        4096,
        "Calls that may wait to be worked on, of all connections together; further ones are refused, with a time to "
        "come back.",
        minimum=1,
        maximum=10**5,
    )
    preprocess_threads: int = _setting(
        0, "Inputs that are prepared at the same time; 0 for one for two cores.", minimum=0, maximum=1024
    )
    max_run_seconds: float = _setting(
        60.0,
        "Time that one batch, or one step of a generation, may run before it is ended.",
        minimum=0.05,
        maximum=86400.0,
    )
    max_run_bytes: int = _setting(
        0,
        "Memory that all batches under way may take together on a CPU, weights apart; 0 for half of the memory.",
        minimum=0,
        maximum=2**60,
    )
    max_overruns: int = _setting(
        3,
        "Runs of a model that may be ended one after the other before it is taken out; 0 for any number.",
        minimum=0,
        maximum=10**6,
    )
    check_seconds: float = _setting(
        300.0, "Time that the check of one bundle may take before it is loaded.", minimum=0.1, maximum=86400.0
    )
    check_cpu_seconds: int = _setting(
        120, "Time of a core that the check of one bundle may take, all its threads together.", minimum=1, maximum=10**6
    )
    max_check_bytes: int = _setting(
        0,
        "Memory that the check of one bundle may take, and bytes that its files may have; 0 for half of the memory.",
        minimum=0,
        maximum=2**60,
    )
    cache_dir: str = _setting(
        "",
        "Folder of this user alone for what checks found, and for packed weights; empty for limelight in the "
        "user's cache, none for no such folder.",
    )
    max_cache_bytes: int = _setting(
        16 * 1024 * _MEBIBYTE, "Bytes that the folder of the cache may have.", minimum=0, maximum=2**60
    )
    load_wait_seconds: float = _setting(
        10.0,
        "Time that a start waits for the next model to be loaded or refused, once some can answer.",
        minimum=0.0,
        maximum=86400.0,
    )
    log_level: str = _setting("info", "Least severe line logged.", choices=("debug", "info", "warning", "error"))
    log_buffer_bytes: int = _setting(
        4 * _MEBIBYTE,
        "Bytes of log lines that may wait for who reads them; more are dropped and counted.",
        minimum=1024,
        maximum=2**40,
    )

    @property
    def core_count(self) -> int:
        """How many cores to use: those asked for, or all that this process may use."""
        return self.cores or available_cores()

    @property
    def preprocess_count(self) -> int:
        """How many inputs are prepared at the same time.

        Much of that is Python, of which one thread runs at a time: more of them keep the event loop from its turns.
        """
        return self.preprocess_threads or max(1, self.core_count // 2)

    @property
    def held_bytes(self) -> int:
        """How many bytes calls may hold: those set, or a quarter of the memory that this process may have."""
        return self.max_held_bytes or available_memory() // 4

    @property
    def arriving_bytes(self) -> int:
        """How many bytes of requests may be arriving: those set, or an eighth of the memory."""
        return self.max_arriving_bytes or available_memory() // 8

    @property
    def run_bytes(self) -> int:
        """How many bytes runs may take: those set, or half of the memory that this process may have."""
        return self.max_run_bytes or available_memory() // 2

    @property
    def check_bytes(self) -> int:
        """How many bytes the check of a bundle may take: those set, or half of what this process may have."""
        return self.max_check_bytes or available_memory() // 2

    def to_toml(self) -> str:
        """Write the settings as a TOML file that `load_settings` reads back."""
        lines = []
        for each in fields(self):
            lines += [f"# {each.metadata['rule'].summary}\n", tomli_w.dumps({each.name: getattr(self, each.name)})]
        return "".join(lines)
