"""nginx and Envoy with the files of deploy/gateway before a real server: gRPC and JSON by one port, streams too."""

import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import httpx
import pytest
import trustme

import limelight
from limelight_service.settings import Settings
from tests.kit import bundles
from tests.kit.serving import eventually, free_port, serving

GATEWAY = Path(__file__).parents[2] / "deploy" / "gateway"
HOST = "localhost"


@dataclass(frozen=True)
class Proxied:
    """A proxy that runs. ca: of its certificate; None where it has none."""

    port: int
    ca: Path | None

    def client(self) -> limelight.Client:
        return limelight.Client(f"{HOST}:{self.port}", ca=self.ca, attempts=1)

    def url(self, path: str) -> str:
        return f"{'https' if self.ca else 'http'}://{HOST}:{self.port}{path}"


def written(kind: str, folder: Path, ports: dict[int, int]) -> list[str]:
    """Write a proxy's file with other ports; gives the command that runs it."""
    file = folder / {"nginx": "nginx.conf", "envoy": "envoy.yaml"}[kind]
    text = (GATEWAY / file.name).read_text()
    for stated, port in ports.items():
        assert str(stated) in text, stated
        text = text.replace(str(stated), str(port))
    if kind == "nginx":  # which by itself writes where the system's nginx does
        kept = "".join(f" {name}_temp_path {folder}/{name};" for name in _TEMPORARY)
        text = f"daemon off; pid {folder}/pid; error_log stderr;\n" + text.replace(
            "\nhttp {", f"\nhttp {{ access_log off;{kept}"
        )
    file.write_text(text)
    if kind == "nginx":
        return ["nginx", "-c", str(file), "-p", str(folder)]
    return ["envoy", "-c", str(file), "--concurrency", "1", "--base-id", str(ports[8444]), "--log-level", "error"]


_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@pytest.fixture(scope="module", params=["nginx", "envoy"])
def proxied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    folder = tmp_path_factory.mktemp("proxied")
    bundles.tiny(folder / "models")
    bundles.echo(folder / "models", "endless", max_new_tokens=100_000, endless=True)
    authority = trustme.CA()
    certificate = authority.issue_cert(HOST)
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    port, http_port = free_port(), free_port()
    with serving(folder / "models", http_port=http_port) as running:
        default = Settings()
        ports = {default.port: running.server.port, 8080: http_port}
        ports[8443 if request.param == "nginx" else 8444] = port
        with subprocess.Popen(written(request.param, folder, ports)) as process:
            try:
                found = Proxied(port, folder / "ca.pem" if request.param == "nginx" else None)
                with found.client() as client:
                    assert eventually(lambda: is_ready(client))
                yield found
            finally:
                process.terminate()


def is_ready(client: limelight.Client) -> bool:
    try:
        return client.ready(timeout=2)
    except limelight.Error:
        return False


def test_calls_and_errors_are_those_of_the_server_by_grpc_and_by_json(proxied: Proxied) -> None:
    with proxied.client() as client:
        assert client.attend("tiny", {"text": "the cat sat"}).prediction.label
        with pytest.raises(limelight.InvalidArgument) as refused:
            client.predict("tiny", {"text": " "})
        assert refused.value.field == 'instances[0].inputs["text"]'
    verify = ssl.create_default_context(cafile=proxied.ca) if proxied.ca else True
    with httpx.Client(verify=verify) as http:
        assert http.get(proxied.url("/v2/health/ready")).status_code == 200
        body = {"instances": ["the cat sat"]}
        answer = http.post(proxied.url("/v1/models/tiny:predict"), json=body)
        assert answer.status_code == 200 and len(answer.json()["predictions"]) == 1
        missing = http.post(proxied.url("/v1/models/nothing:predict"), json=body)
        assert (missing.status_code, missing.json()["error"]["status"]) == (404, "NOT_FOUND")
        # Of a generation that does not end, a proxy that waits for the rest would send nothing.
        with http.stream("POST", proxied.url("/v1/models/endless:generate"), json={"instance": "the cat"}) as stream:
            assert len(list(islice((each for each in stream.iter_lines() if each.startswith("data")), 20))) == 20


def test_tokens_of_a_stream_come_as_they_are_made_and_a_caller_who_leaves_ends_it(proxied: Proxied) -> None:
    with proxied.client() as client:
        began = time.monotonic()
        events = client.generate("endless", {"text": "the cat"})
        assert len(list(islice(events, 50))) == 50 and time.monotonic() - began < 30
        events.close()
        assert client.predict("tiny", {"text": "the cat"}).label
