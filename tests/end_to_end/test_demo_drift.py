"""The drift of a demo model, as Prometheus scrapes it."""

import random
import shutil
import string
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import limelight
from limelight_bundle.attention_drift import ROWS
from limelight_models.data import dates
from limelight_service.demo import DEMO
from tests.kit.processes import scrape
from tests.kit.serving import eventually, free_port, serving

_DRIFT = 'limelight_attention_drift{map="decoder.cross",model="dates"}'
_LOOKED_AT = 'limelight_attention_signal_count{map="decoder.cross",model="dates",signal="entropy"}'


@contextmanager
def watched(folder: Path) -> Iterator[tuple[limelight.Client, int]]:
    """The server of the dates alone, which looks at every call; gives the port of its metrics too."""
    shutil.copytree(DEMO / "dates", folder / "dates")
    port = free_port()
    with (
        serving(folder, attention_signals=1.0, metrics_port=port) as running,
        limelight.Client(running.server.address) as client,
    ):
        yield client, port


def drifts(client: limelight.Client, port: int, texts: Iterable[str]) -> list[float]:
    """Ask one text after another, each when the one before was looked at; gives the drift after each, at first 0."""
    page, told = scrape(port), []
    for text in texts:
        before = page.get(_LOOKED_AT, 0.0)
        client.predict("dates", {"text": text})
        assert eventually(partial(looked_at, page, port, before))
        told.append(page.get(_DRIFT, 0.0))
    return told


def looked_at(page: dict[str, float], port: int, before: float) -> bool:
    """Read the metrics again; gives whether another text was looked at."""
    page.update(scrape(port))
    return page.get(_LOOKED_AT, 0.0) > before


def test_ordinary_dates_do_not_drift_and_random_letters_do(tmp_path: Path) -> None:
    """Dates of another seed than those over which the reference was made."""
    chance = random.Random(0)
    texts = [each.instance["text"].text for each in dates.dataset(seed=1).test]
    letters = ["".join(chance.choices(string.ascii_lowercase, k=12)) for _ in range(100)]
    with watched(tmp_path) as (client, port):
        ordinary = drifts(client, port, texts[:150])
        shifted = drifts(client, port, letters)
    assert not any(ordinary[: ROWS[0] - 1]) and all(ordinary[ROWS[0] :])
    assert max(ordinary) < 1 < shifted[-1], (max(ordinary), shifted[-1])
