"""Locust drives a server of limelight.v1: locust -f deploy/load/locustfile.py --host 127.0.0.1:50051

Every user sends the examples of one model, one call after the other: predictions, and one in four with its attention.
Variables: LIMELIGHT_MODEL (default: the first model that is ready), LIMELIGHT_TOKEN, LIMELIGHT_CA.
"""

import itertools
import os
import time
from collections.abc import Callable
from typing import Any

import grpc.experimental.gevent
from locust import User, between, task

import limelight

grpc.experimental.gevent.init_gevent()  # otherwise a call would stop every user of the process


class Caller(User):
    """A caller with a connection of its own."""

    host = "127.0.0.1:50051"
    wait_time = between(0.0, 0.02)

    def on_start(self) -> None:
        """Connect, and look at the model."""
        token, ca = (os.environ.get(name) for name in ("LIMELIGHT_TOKEN", "LIMELIGHT_CA"))
        self.client = limelight.Client(self.host, attempts=1, token=token, ca=ca)
        ready = (each.name for each in self.client.models() if each.state == "ready")
        self.model = os.environ.get("LIMELIGHT_MODEL") or next(ready)
        self.inputs = itertools.cycle(self.client.model(self.model).examples)

    def on_stop(self) -> None:
        """Close the connection."""
        self.client.close()

    @task(3)
    def predict(self) -> None:
        """Ask for a prediction."""
        self._call("Predict", self.client.predict)

    @task(1)
    def attend(self) -> None:
        """Ask for a prediction with every map."""
        self._call("Attend", self.client.attend)

    def _call(self, method: str, call: Callable[..., Any]) -> None:
        start, failure = time.perf_counter(), None
        try:
            call(self.model, next(self.inputs))
        except limelight.Error as error:
            failure = error
        self.environment.events.request.fire(
            request_type="grpc",
            name=f"{method} {self.model}",
            response_time=1000 * (time.perf_counter() - start),
            response_length=0,
            exception=failure,
            context={},
        )
