"""The server's settings: what can be set, what it means, and which values it takes."""

import math
import os
import re
import shlex
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import tomli_w

from limelight_service.platform.machine import available_cores, available_memory

_MEBIBYTE = 2**20
_LARGEST_MESSAGE = 2**31 - 1
CHECKPOINTS = "checkpoints"  # in the cache: imports of checkpoints
_PARTS = re.compile(r",(?=[^,/]*=)")  # a comma of a folder's name has no name of a model behind it


class Group(StrEnum):
    """Groups of settings: the headings of `limelight serve --help`, in order."""

    MODELS = "Models"
    NETWORK = "Network"
    SECURITY = "Security"
    PROCESSES = "Processes"
    LIMITS = "Limits"
    STOPPING = "Stopping"
    FILES = "Cache and log"
    WATCHING = "Traces and attention"


@dataclass(frozen=True)
class Rule:
    """Meaning and valid values of a setting.

    group: None for a limit that only programs set. is_list: parts with commas between them; its flag may stand several
    times, for a part each.
    """

    summary: str
    group: Group | None = None
    minimum: float = -math.inf
    maximum: float = math.inf
    choices: tuple[str, ...] = ()
    is_list: bool = False


def _setting(group: Group, default: Any, summary: str, **rule: Any) -> Any:
    return field(default=default, metadata={"rule": Rule(summary, group, **rule)})


def _limit(default: Any, summary: str, **rule: Any) -> Any:
    """A limit that has one good value on every machine: no flag, no variable and no line of a file sets it."""
    return field(default=default, metadata={"rule": Rule(summary, **rule)})


@dataclass(frozen=True)
class Settings:
    """Everything that can be set. `configuration.load_settings` makes it and checks it.

    The docs' table is made of these fields.
    """

    repository: str = _setting(Group.MODELS, "", "Folder of models: REPOSITORY/<model>/<version>/.")
    model: str = _setting(
        Group.MODELS,
        "",
        "A model in a folder of its own, a bundle or its version folders, as dates=/mnt/models; several with commas.",
        is_list=True,
    )
    checkpoint: str = _setting(
        Group.MODELS,
        "",
        "A Hugging Face checkpoint, a folder or org/name@revision, that is imported once; NAME=… for another name. "
        "Options of `limelight import hf` may follow, as 'org/name --pooling cls'; several with commas.",
        is_list=True,
    )
    model_control: str = _setting(
        Group.MODELS,
        "none",
        "What changes the models of a running server: none nothing, poll its folder, explicit calls (AdminService, "
        "RepositoryModelLoad).",
        choices=("none", "poll", "explicit"),
    )
    provider: str = _setting(
        Group.MODELS, "auto", "Execution provider; auto is CUDA where it works.", choices=("auto", "cpu", "cuda")
    )
    gpu_devices: str = _setting(
        Group.MODELS, "0", "Numbers of the GPUs to use, as 0,1: one engine process each, with every model."
    )
    gpu_memory_bytes: int = _setting(
        Group.MODELS,
        0,
        "Bytes of the GPU that each graph of a model may hold, weights and work; 0 for no limit.",
        minimum=0,
        maximum=2**60,
    )
    gpu_tf32: bool = _setting(
        Group.MODELS, False, "TF32 on the GPU: faster, and often too coarse for what the bundles promise."
    )
    host: str = _setting(Group.NETWORK, "127.0.0.1", "Address that gRPC listens on; 0.0.0.0 for every one.")
    port: int = _setting(
        Group.NETWORK, 50051, "Port that gRPC listens on; 0 for any free one.", minimum=0, maximum=65535
    )
    metrics_host: str = _setting(Group.NETWORK, "127.0.0.1", "Address that metrics are served on.")
    metrics_port: int = _setting(
        Group.NETWORK, 9464, "Port that metrics are served on; 0 for none.", minimum=0, maximum=65535
    )
    http_port: int = _setting(
        Group.NETWORK,
        0,
        "Port that HTTP and JSON are served on, on the same host; 0 for none.",
        minimum=0,
        maximum=65535,
    )
    http_origins: str = _setting(
        Group.NETWORK,
        "",
        "Origins whose pages may call over HTTP (CORS), as https://a.example,https://b.example; * for every one.",
    )
    reflection: bool = _setting(
        Group.NETWORK, True, "Describe the protocol to programs that ask for it (gRPC reflection)."
    )
    max_connections: int = _setting(
        Group.NETWORK, 2048, "Connections at the same time; further ones are closed at once.", minimum=1, maximum=10**6
    )
    tls_cert: str = _setting(
        Group.SECURITY, "", "Certificate in PEM, with its chain: calls are encrypted. Read again when it changes."
    )
    tls_key: str = _setting(Group.SECURITY, "", "Key of the certificate, in PEM.")
    tls_client_ca: str = _setting(
        Group.SECURITY, "", "Certificates in PEM that sign callers' own: nobody connects without one."
    )
    tokens: str = _setting(
        Group.SECURITY,
        "",
        "TOML file of the tokens that calls need, made with `limelight token new`. Read again when it changes.",
    )
    insecure: bool = _setting(
        Group.SECURITY,
        False,
        "Listen where other machines reach it without TLS: for trusted networks, or behind a proxy with a lock.",
    )
    insecure_metrics: bool = _setting(
        Group.SECURITY, False, "Serve metrics, unencrypted and to everybody, where other machines reach them."
    )
    frontends: int = _setting(
        Group.PROCESSES,
        0,
        "Processes that speak to callers, beside one engine for each device; 0 for one process that does everything.",
        minimum=0,
        maximum=256,
    )
    cores: int = _setting(
        Group.PROCESSES,
        0,
        "Cores to use, of all processes together; 0 for all that the process may use.",
        minimum=0,
        maximum=4096,
    )
    queue_rows: int = _setting(
        Group.LIMITS, 1024, "Instances that may wait, of all calls together.", minimum=1, maximum=10**6
    )
    max_instances: int = _setting(
        Group.LIMITS,
        256,
        "Instances that one call may hold, or rows that an explanation takes.",
        minimum=1,
        maximum=10**6,
    )
    max_batch_rows: int = _setting(
        Group.LIMITS, 0, "Instances in a batch; 0 for what suits the provider.", minimum=0, maximum=10**5
    )
    max_request_bytes: int = _setting(
        Group.LIMITS, 16 * _MEBIBYTE, "Largest request, in bytes.", minimum=1024, maximum=_LARGEST_MESSAGE
    )
    max_response_bytes: int = _setting(
        Group.LIMITS, 64 * _MEBIBYTE, "Largest answer, in bytes.", minimum=1024, maximum=_LARGEST_MESSAGE
    )
    response_cache_bytes: int = _setting(
        Group.LIMITS,
        0,
        "Bytes of answers that are kept for callers who send the same again, of all frontends together; 0 for none.",
        minimum=0,
        maximum=2**60,
    )
    max_run_seconds: float = _setting(
        Group.LIMITS,
        60.0,
        "Time that one batch, or one step of a generation, may run before it is ended.",
        minimum=0.05,
        maximum=86400.0,
    )
    max_connection_age_seconds: float = _setting(
        Group.LIMITS,
        0.0,
        "Time after which a connection is closed once its calls have ended, so that clients find new servers; 0 for no "
        "limit.",
        minimum=0.0,
        maximum=10**6,
    )
    max_connection_age_grace_seconds: float = _setting(
        Group.LIMITS,
        0.0,
        "Time that calls get on a connection that is too old, streams included; then they are cut. 0 for no limit.",
        minimum=0.0,
        maximum=10**6,
    )
    drain_seconds: float = _setting(
        Group.STOPPING, 0.0, "Time between reporting not ready and beginning to stop.", minimum=0.0, maximum=3600.0
    )
    grace_seconds: float = _setting(
        Group.STOPPING, 30.0, "Time that calls get to finish when the server stops.", minimum=0.0, maximum=3600.0
    )
    cache_dir: str = _setting(
        Group.FILES,
        "",
        "Folder of this user alone for what checks found, for packed weights, and in checkpoints/ for imports; empty "
        "for limelight in the user's cache, none for no such folder.",
    )
    log_level: str = _setting(
        Group.FILES, "info", "Least severe line logged.", choices=("debug", "info", "warning", "error")
    )
    tracing: bool = _setting(
        Group.WATCHING,
        False,
        "Send traces of calls over OTLP, as the OTEL_* variables say (extra `tracing`).",
    )
    attention_signals: float = _setting(
        Group.WATCHING,
        0.0,
        "Share of calls, from 0 to 1, of which one row is run again to count how its attention looks; 0 for none.",
        minimum=0.0,
        maximum=1.0,
    )

    poll_seconds: float = _limit(
        5.0, "Time between two looks at the folder, with model control poll.", minimum=0.1, maximum=86400.0
    )
    lanes: int = _limit(0, "Threads of an engine that run batches; 0 for one a core.", minimum=0, maximum=1024)
    max_batch_tokens: int = _limit(
        0, "Places in a batch, padding included; 0 for what suits the provider.", minimum=0, maximum=10**9
    )
    max_request_fields: int = _limit(
        100_000,
        "Fields that a request may have, every entry and everything inside counted; 16 bytes of numbers are one.",
        minimum=100,
        maximum=10**8,
    )
    max_characters: int = _limit(
        1_000_000,
        "Characters of a text, or of all sentences of a document, that is sent; less where a model says so. 0 for no "
        "limit.",
        minimum=0,
        maximum=_LARGEST_MESSAGE,
    )
    max_pixels: int = _limit(
        2**26,
        "Pixels of an image, before it is decoded; less where a model says so. 0 for no limit.",
        minimum=0,
        maximum=_LARGEST_MESSAGE,
    )
    max_arriving_bytes: int = _limit(
        0,
        "Bytes of requests that may be arriving at the same time, and as many of requests in flight; 0 for an eighth "
        "of the memory.",
        minimum=0,
        maximum=2**60,
    )
    arrival_seconds: float = _limit(
        30.0,
        "Time that a request may take to arrive; less where others wait for its place.",
        minimum=0.1,
        maximum=3600.0,
    )
    answer_seconds: float = _limit(
        120.0,
        "Time that an answer, or a message of a stream, may wait for its reader; then the connection is closed.",
        minimum=0.1,
        maximum=10**6,
    )
    chunk_bytes: int = _limit(
        3 * _MEBIBYTE,
        "Largest chunk of a map in an answer of AttendStream, in bytes; a query that takes more is one of its own.",
        minimum=4096,
        maximum=_LARGEST_MESSAGE,
    )
    max_stream_bytes: int = _limit(
        64 * 2**30, "Most attention in one answer of AttendStream, in bytes; 0 for no limit.", minimum=0, maximum=2**60
    )
    max_held_bytes: int = _limit(
        0,
        "Bytes that all calls together may hold: whole maps until they are cut, and answers until they are sent; 0 for "
        "a quarter of the memory.",
        minimum=0,
        maximum=2**60,
    )
    max_calls_per_connection: int = _limit(
        128,
        "Calls of one connection that are worked on at the same time; further ones wait, in their order.",
        minimum=1,
        maximum=10**6,
    )
    idle_seconds: float = _limit(
        300.0,
        "Time after which a connection without calls is closed; clients open another.",
        minimum=1.0,
        maximum=10**6,
    )
    pending_calls: int = _limit(
        4096,
        "Calls that may wait to be worked on, of all connections together; further ones are refused, with a time to "
        "come back.",
        minimum=1,
        maximum=10**5,
    )
    preprocess_threads: int = _limit(
        0, "Inputs that are prepared at the same time; 0 for one for two cores.", minimum=0, maximum=1024
    )
    max_run_bytes: int = _limit(
        0,
        "Memory that all batches under way may take together on a CPU, weights apart; 0 for half of the memory.",
        minimum=0,
        maximum=2**60,
    )
    max_overruns: int = _limit(
        3,
        "Runs of a model that may be ended one after the other before it is taken out; 0 for any number.",
        minimum=0,
        maximum=10**6,
    )
    check_seconds: float = _limit(
        300.0, "Time that the check of one bundle may take before it is loaded.", minimum=0.1, maximum=86400.0
    )
    check_cpu_seconds: int = _limit(
        120, "Time of a core that the check of one bundle may take, all its threads together.", minimum=1, maximum=10**6
    )
    max_check_bytes: int = _limit(
        0,
        "Memory that the check of one bundle may take, and bytes that its files may have; 0 for three quarters.",
        minimum=0,
        maximum=2**60,
    )
    max_cache_bytes: int = _limit(
        16 * 1024 * _MEBIBYTE, "Bytes that the folder of the cache may have.", minimum=0, maximum=2**60
    )
    load_wait_seconds: float = _limit(
        10.0,
        "Time that a start waits for the next model to be loaded or refused, once some can answer.",
        minimum=0.0,
        maximum=86400.0,
    )
    log_buffer_bytes: int = _limit(
        4 * _MEBIBYTE,
        "Bytes of log lines that may wait for who reads them; more are dropped and counted.",
        minimum=1024,
        maximum=2**40,
    )

    @property
    def models(self) -> list[tuple[str, str]]:
        """Names and folders of the models that are given one by one."""
        parts = [each.partition("=") for each in _PARTS.split(self.model) if each]
        return [(name.strip(), folder.strip()) for name, _, folder in parts]

    @property
    def checkpoints(self) -> list[tuple[str, str, list[str]]]:
        """Name (empty for its own), place and options of each checkpoint. Raises ValueError for an open quote."""
        found = []
        for each in filter(None, map(str.strip, self.checkpoint.split(","))):
            named, dashes, options = each.partition(" --")
            *name, place = named.split("=", 1)
            found.append(("".join(name).strip(), place.strip(), shlex.split(dashes + options)))
        return found

    @property
    def cache_folder(self) -> Path | None:
        """Folder of what is kept between starts; None for none. Raises RuntimeError where there is no home."""
        if self.cache_dir == "none":
            return None
        above = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        return Path(self.cache_dir or Path(above) / "limelight").expanduser()

    @property
    def devices(self) -> tuple[int, ...]:
        """Numbers of the devices: an engine serves each."""
        return tuple(int(each) for each in self.gpu_devices.split(","))

    @property
    def origins(self) -> tuple[str, ...]:
        """Origins whose pages may call over HTTP."""
        return tuple(each.strip() for each in self.http_origins.split(",") if each.strip())

    @property
    def ports(self) -> int:
        """Number of ports with callers' connections, `max_connections` each."""
        return 2 if self.http_port else 1

    @property
    def core_count(self) -> int:
        """Number of cores to use: those asked for, or all that this process may use."""
        return self.cores or available_cores()

    @property
    def preprocess_count(self) -> int:
        """Number of inputs that are prepared at the same time.

        Much of that is Python, of which one thread runs at a time: more of them keep the event loop from its turns.
        """
        return self.preprocess_threads or max(1, self.core_count // 2)

    @property
    def held_bytes(self) -> int:
        """Bytes that calls may hold: as set, or a quarter of the memory that this process may have."""
        return self.max_held_bytes or available_memory() // 4

    @property
    def arriving_bytes(self) -> int:
        """Bytes of arriving requests: as set, or an eighth of the memory."""
        return self.max_arriving_bytes or available_memory() // 8

    @property
    def run_bytes(self) -> int:
        """Bytes that runs may take: as set, or half of the memory that this process may have."""
        return self.max_run_bytes or available_memory() // 2

    @property
    def check_bytes(self) -> int:
        """Bytes that the check of a bundle may take: as set, or three quarters of this process's memory."""
        return self.max_check_bytes or available_memory() * 3 // 4

    @property
    def taken(self) -> dict[str, int]:
        """What is taken of this machine: cores, and memory and shares of it in bytes, settled where a setting is 0."""
        return {
            "cores": self.core_count,
            "memory_bytes": available_memory(),
            "held_bytes": self.held_bytes,
            "arriving_bytes": self.arriving_bytes,
            "run_bytes": self.run_bytes,
            "response_cache_bytes": self.response_cache_bytes,
            "check_bytes": self.check_bytes,
            "preprocess_threads": self.preprocess_count,
        }

    def to_toml(self) -> str:
        """Write the settings as a TOML file that `load_settings` reads back, and in comments what they take here."""
        lines = ["# Taken of this machine: ", ", ".join(f"{name} {value}" for name, value in self.taken.items()), "\n"]
        with suppress(RuntimeError):  # there is no home: a start will say so
            if self.checkpoint and self.cache_folder:
                lines.append(f"# Checkpoints are imported to {self.cache_folder / CHECKPOINTS}\n")
        for each in public_settings():
            lines += [f"# {each.metadata['rule'].summary}\n", tomli_w.dumps({each.name: getattr(self, each.name)})]
        return "".join(lines)


def public_settings() -> list[Field[Any]]:
    """Give the settings that users set, group by group."""
    found = [each for each in fields(Settings) if each.metadata["rule"].group is not None]
    return sorted(found, key=lambda each: list(Group).index(each.metadata["rule"].group))
