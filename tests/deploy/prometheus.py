"""A real Prometheus with the files of deploy/, for a server of this machine."""

import json
import math
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.expressions import PROMETHEUS, Expression
from tests.kit.serving import free_port


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus that answers at an address. page: of the metrics that it scrapes."""

    address: str
    page: str

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """Evaluate an expression now; gives its series."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def get(self, what: str, **arguments: Any) -> Any:
        """Ask the API; gives the data of its answer. Raises: OSError, as long as it does not answer."""
        url = f"http://{self.address}/api/v1/{what}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=5) as response:
            return json.load(response)["data"]


@contextmanager
def prometheus(folder: Path, port: int) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes a server twice a second, for the length of a block.

    folder: gets its data. port: of the server's metrics.
    """
    page, address = f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}"
    content = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    content["global"] = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}
    content["rule_files"] = [str(PROMETHEUS / each) for each in content["rule_files"]]
    content["scrape_configs"][0]["static_configs"] = [{"targets": [page]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address={address}", "--enable-feature=exemplar-storage"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield Prometheus(address, f"http://{page}/metrics")
    finally:
        process.terminate()
        process.wait()


def numbers(series: list[dict[str, Any]]) -> list[float]:
    """Give the values of series that are numbers."""
    found = (float(each["value"][1]) for each in series)
    return [each for each in found if not math.isnan(each)]


def filled(expression: Expression, seconds: int = 30) -> str:
    """Give an expression with the values of the dashboard's variables. seconds: over which rates are taken."""
    return re.sub(r"\$\w+", ".*", expression.text.replace("$__rate_interval", f"{seconds}s"))
