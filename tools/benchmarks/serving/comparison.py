"""The measurements: all servers run for the whole time and take turns, so that a busy machine slows each of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import grpc
import numpy as np

from benchmarks.load import LoadError, Outcome, Plan, run_clean
from benchmarks.peers import kserve, mlserver, triton
from benchmarks.peers.echo import ECHO, Echo
from benchmarks.process import Process, ServerProcess, cores
from benchmarks.serving.figures import (
    ECHO_SERVER,
    LIMELIGHT,
    MLSERVER,
    RUNTIME,
    TRITON,
    Figure,
    Results,
    of_outcome,
)
from benchmarks.serving.inputs import (
    ALL_MAPS,
    ATTENDED,
    LENGTHS,
    PREDICT,
    PREDICT_IT,
    PREDICT_PLAIN,
    PREDICT_TINY,
    TINY_LENGTH,
    Workload,
    infer_requests,
    workload_of,
)
from benchmarks.serving.runtime_alone import run_raw, run_rows, session, ways
from limelight.v1 import service_pb2

AT_TRITONS = "Limelight, at Triton's rates"
CALLERS = (1, 8, 32, 64)
ATTEND_CALLERS = 16
SHARES = (50, 70, 90)
ONE_AND_SEVERAL, CONNECTED_CALLERS = (1, 8), (64, 128)
_TRIAL_SECONDS = 0.8
_DISTURBED = 0.15  # share of the machine that other programs may take


_Found = TypeVar("_Found")


class Comparison:
    """Running servers, and the sections of a round."""

    def __init__(
        self, stack: ExitStack, repository: Path, graph: Path, results: Results, load_cores: Sequence[int]
    ) -> None:
        self._graph, self._results, self._load_cores = graph, results, load_cores
        self._capacities: dict[tuple[str, str], float] = {}
        self._seconds, self._again = results.settings["seconds"], int(results.settings["again"])
        self._limelight = stack.enter_context(ServerProcess(repository))
        self._echo = stack.enter_context(Echo())
        self._tritons: dict[str, triton.Triton] = {}
        self._mlserver: Process | None = None
        missing = {TRITON: triton.missing(), MLSERVER: mlserver.missing()}
        results.absent = {name: why for name, why in missing.items() if why}
        if TRITON not in results.absent:
            for tuning in triton.tunings():
                server = triton.Triton("encoder", graph, tuning)
                stack.enter_context(server)
                self._tritons[str(tuning)] = server
        if MLSERVER not in results.absent:
            self._mlserver = stack.enter_context(mlserver.MLServer("encoder", graph))
        self._check_answers()

    def _check_answers(self) -> None:
        """Compare the answer of each server with the graph's. Raises: LoadError where one differs."""
        row = workload_of(PREDICT_IT, "32").rows[0]
        expected = run_rows(session(self._graph, 1, False), [row], ["logits"], {})[0]
        with grpc.insecure_channel(self._limelight.target) as channel:
            answer = service_pb2.PredictResponse.FromString(
                channel.unary_unary(PREDICT)(PREDICT_IT.serialise(row), timeout=60)
            )
            _compare(LIMELIGHT, answer.predictions[0].outputs["logits"].data, expected)
        peers = {f"{TRITON}, {tuning}": server for tuning, server in self._tritons.items()}
        for name, server in (peers | ({MLSERVER: self._mlserver} if self._mlserver else {})).items():
            with grpc.insecure_channel(server.target) as channel:
                request = infer_requests([row], maps=False)[0]
                # The raw contents of the only output are the last field.
                _compare(name, channel.unary_unary(kserve.INFER)(request, timeout=60)[-expected.nbytes :], expected)

    def sections(self) -> dict[str, Callable[[], Iterator[Figure]]]:
        """Give the sections of a round."""
        return {
            "predict": self._predict,
            "attend": self._attend,
            "open": self._open,
            "tiny": self._tiny,
            "connections": self._connections,
        }

    def _predict(self) -> Iterator[Figure]:
        for lengths in LENGTHS:
            workload = workload_of(PREDICT_IT, lengths)
            reached = 0
            for callers in CALLERS:
                yield from self._raw("predict", workload, reached, callers)
                reached = callers
                yield self._ours("predict", workload, callers)
                yield from self._triton("predict", workload, callers)
                if self._mlserver and callers == 8:
                    plan = self._closed(
                        self._mlserver, kserve.INFER, infer_requests(workload.rows, maps=False), callers
                    )
                    yield self._figure(
                        "predict", lengths, workload.kind.name, MLSERVER, str(callers), self._measured(plan)
                    )

    def _attend(self) -> Iterator[Figure]:
        for lengths in ("32", "128"):
            for kind in (PREDICT_IT, PREDICT_PLAIN, *ATTENDED):
                yield self._ours("attend", workload_of(kind, lengths), ATTEND_CALLERS)
            whole = workload_of(ALL_MAPS, lengths)
            yield from self._triton("attend", whole, ATTEND_CALLERS)
            yield from self._raw("attend", whole, 0, ATTEND_CALLERS)

    def _open(self) -> Iterator[Figure]:
        for lengths in LENGTHS:
            workload = workload_of(PREDICT_IT, lengths)
            for share in SHARES:
                for peer, paced_by in ((LIMELIGHT, LIMELIGHT), (TRITON, TRITON), (LIMELIGHT, TRITON)):
                    if paced_by == TRITON and not self._tritons:
                        continue
                    rate = share / 100 * self._capacity(paced_by, workload)
                    server, note = self._server(peer, workload, 32)
                    messages = self._messages(peer, workload)
                    method = workload.kind.method if peer == LIMELIGHT else kserve.INFER
                    plan = Plan(
                        server.target,
                        method,
                        messages,
                        2 * self._seconds,
                        rate=rate,
                        warm=0.5,
                        pids=server.pids,
                        cores=self._load_cores,
                    )
                    outcome = self._measured(plan)
                    shown = peer if peer == paced_by else AT_TRITONS
                    yield self._figure("open", lengths, workload.kind.name, shown, f"{share} %", outcome, note)

    def _tiny(self) -> Iterator[Figure]:
        workload = workload_of(PREDICT_TINY, TINY_LENGTH)
        messages = [workload.kind.serialise(row) for row in workload.rows]
        for callers in (1, 32):
            yield self._ours("tiny", workload, callers)
            plan = self._closed(self._echo, ECHO, messages, callers)
            yield self._figure("tiny", TINY_LENGTH, workload.kind.name, ECHO_SERVER, str(callers), self._measured(plan))

    def _connections(self) -> Iterator[Figure]:
        """The same callers on one connection and on several; every call must be answered."""
        for lengths in ("32", "128"):
            workload = workload_of(PREDICT_IT, lengths)
            for callers in CONNECTED_CALLERS:
                for connections in ONE_AND_SEVERAL:
                    plan = self._closed(
                        self._limelight, workload.kind.method, self._messages(LIMELIGHT, workload), callers
                    )
                    outcome = self._measured(replace(plan, connections=connections))
                    name = f"{LIMELIGHT}, {connections} connection{'s' if connections > 1 else ''}"
                    yield self._figure("connections", lengths, workload.kind.name, name, str(callers), outcome)

    def _raw(self, section: str, workload: Workload, over: int, callers: int) -> Iterator[Figure]:
        """Every way of the runtime that takes more than `over` callers and at most `callers`."""
        for way in ways(mixed=workload.lengths == "mixed"):
            if not over < way.callers <= callers:
                continue
            ran = self._quiet(
                partial(run_raw, self._graph, workload.rows, way, self._seconds, maps=workload.maps),
                lambda found: found.others,
            )
            yield Figure(
                section=section,
                lengths=workload.lengths,
                call=workload.kind.name,
                server=f"{RUNTIME}, {way}",
                load=str(way.callers),
                rate=ran.rate,
                adjusted=ran.rate,
                p50=ran.p50 * 1e3,
                p99=0.0,
                cpu=ran.cpu * 1e3,
                others=ran.others,
            )

    def _ours(self, section: str, workload: Workload, callers: int) -> Figure:
        outcome = self._measured(
            self._closed(self._limelight, workload.kind.method, self._messages(LIMELIGHT, workload), callers)
        )
        _check_size(outcome, workload)
        return self._figure(section, workload.lengths, workload.kind.name, LIMELIGHT, str(callers), outcome)

    def _triton(self, section: str, workload: Workload, callers: int) -> Iterator[Figure]:
        if not self._tritons:
            return
        server, tuning = self._server(TRITON, workload, callers)
        outcome = self._measured(self._closed(server, kserve.INFER, self._messages(TRITON, workload), callers))
        _check_size(outcome, workload)
        yield self._figure(section, workload.lengths, workload.kind.name, TRITON, str(callers), outcome, tuning)

    def _server(self, name: str, workload: Workload, callers: int) -> tuple[Process, str]:
        if name == LIMELIGHT:
            return self._limelight, ""
        tuning = self._tune(workload, callers)
        return self._tritons[tuning], tuning

    def _tune(self, workload: Workload, callers: int) -> str:
        """The tuning of Triton that is the fastest here: tried once a run, each for a moment."""
        key = f"{workload.kind.name}, {workload.lengths}, {min(callers, 32)}"
        if key not in self._results.tunings:
            rates = {}
            for tuning, server in self._tritons.items():
                plan = self._closed(
                    server, kserve.INFER, self._messages(TRITON, workload), min(callers, 32), _TRIAL_SECONDS
                )
                rates[tuning] = run_clean(plan).rate
            self._results.tunings[key] = max(rates, key=lambda tuning: rates[tuning])
        return self._results.tunings[key]

    def _capacity(self, name: str, workload: Workload) -> float:
        """The best rate that this server showed for this in a closed loop, in this round."""
        rates = [
            each.rate
            for each in self._results.rows
            if (each.section, each.lengths, each.server) == ("predict", workload.lengths, name)
            and each.load in ("8", "32")
        ]
        if rates:
            return max(rates[-2:])
        if (name, workload.lengths) not in self._capacities:
            server, _ = self._server(name, workload, 32)
            method = workload.kind.method if name == LIMELIGHT else kserve.INFER
            plan = self._closed(server, method, self._messages(name, workload), 32)
            self._capacities[name, workload.lengths] = run_clean(plan).rate
        return self._capacities[name, workload.lengths]

    def _messages(self, name: str, workload: Workload) -> list[bytes]:
        if name == LIMELIGHT:
            return [workload.kind.serialise(row) for row in workload.rows]
        return infer_requests(workload.rows, maps=workload.maps)

    def _figure(
        self, section: str, lengths: str, call: str, server: str, load: str, outcome: Outcome, note: str = ""
    ) -> Figure:
        return of_outcome(section, lengths, call, server, load, outcome, note, apart=bool(self._load_cores))

    def _measured(self, plan: Plan) -> Outcome:
        """Run a plan whose calls must all be answered, until it is undisturbed."""
        return self._quiet(partial(run_clean, plan), lambda found: found.others / found.seconds / cores())

    def _quiet(self, measure: Callable[[], _Found], others: Callable[[_Found], float]) -> _Found:
        """Measure again while other programs take too much of the machine; the least disturbed counts."""
        found = [measure()]
        while others(found[-1]) > _DISTURBED and len(found) <= self._again:
            found.append(measure())
        return min(found, key=others)

    def _closed(
        self, server: Process, method: str, messages: list[bytes], callers: int, seconds: float | None = None
    ) -> Plan:
        return Plan(
            server.target,
            method,
            messages,
            seconds or self._seconds,
            concurrency=callers,
            pids=server.pids,
            cores=self._load_cores,
        )


def _compare(name: str, found: bytes, expected: np.ndarray) -> None:
    if not np.allclose(np.frombuffer(found, np.float32), expected.ravel(), atol=1e-4):
        raise LoadError(f"{name} answers {np.frombuffer(found, np.float32)}, not {expected.ravel()}")


def _check_size(outcome: Outcome, workload: Workload) -> None:
    """Raise LoadError where answers are smaller than the requested maps."""
    least = workload.kind.least_bytes(workload.rows)
    if outcome.done and outcome.received / outcome.done < 0.5 * least:
        raise LoadError(
            f"{workload.kind.name}: answers of {outcome.received / outcome.done:.0f} bytes, not {least:.0f}"
        )
