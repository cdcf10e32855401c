"""The local server: what it serves, passes on and refuses; and the command that starts it."""

import http.client
import json
import re
import select
import socket
import ssl
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme

from limelight.base.errors import InputError
from limelight.cli import main
from limelight.security import Security
from limelight.view.files import page_files
from limelight.view.server import PageServer
from limelight.view.upstream import upstream_at
from tests.kit.serving import eventually, free_port
from tests.view.conftest import page_of
from tests.view.hostile import TOKEN_SEEN, hostile, saying

JSON = {"Content-Type": "application/json"}
TEXT = {"instances": [{"inputs": {"text": {"text": "a b"}}}]}


def ask(
    page: PageServer, verb: str, path: str, body: Any = None, **headers: str
) -> tuple[int, http.client.HTTPResponse, bytes]:
    """Ask the page's server. Names of headers have `_` for `-`."""
    connection = http.client.HTTPConnection("127.0.0.1", page.server_address[1], timeout=20)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(verb, path, None if body is None else json.dumps(body), sent)
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response.status, response, data


def told(data: bytes) -> str:
    message: str = json.loads(data)["error"]["message"]
    return message


def test_every_file_has_a_strict_policy_and_its_media_type(page: PageServer) -> None:
    for path, kind in {"/": "text/html", "/main.js": "text/javascript", "/view.css": "text/css"}.items():
        status, response, data = ask(page, "GET", path)
        assert (status, response.headers.get_content_type()) == (200, kind) and data
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';") and "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_names_no_other_place() -> None:
    for path, (_, content) in page_files().items():
        found = set(re.findall(r"https?://[^\s\"'`)]+", content.decode())) - {"http://www.w3.org/2000/svg"}
        if path == "/atlas.js":  # constants alone: addresses of papers, for somebody who follows a link
            assert re.fullmatch(r"//.*\n(\nexport const [A-Z]+ = \{\n(  \".*,\n)+\};\n){2}", content.decode())
            continue
        assert not found, path


def test_calls_are_passed_on_with_arrays_as_bytes(page: PageServer) -> None:
    status, response, data = ask(
        page, "POST", "/v1/models/tiny:attend", TEXT, **JSON, Accept="application/octet-stream"
    )
    assert status == 200
    answer = json.loads(data[: int(response.headers["Limelight-Json-Length"])])
    assert answer["results"][0]["maps"]
    status, _, data = ask(page, "POST", "/v1/models/nothing:attend", TEXT, **JSON)
    assert status == 404 and "nothing" in told(data)


@pytest.mark.parametrize(
    "path",
    ["/v1/models/../secret", "/v2/models", "/metrics", "/../server.py", "/%2e%2e/server.py", "/v1/models/tiny:load"],
)
def test_nothing_else_is_served_or_passed_on(page: PageServer, path: str) -> None:
    assert ask(page, "GET", path)[0] == 404
    assert ask(page, "POST", path, {}, **JSON)[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_names_of_others_are_refused(page: PageServer, host: str) -> None:
    for path in ("/", "/v1/models"):
        assert ask(page, "GET", path, Host=host)[0] == 403
    assert ask(page, "GET", "/", Host="localhost:1")[0] == 200  # as through a tunnel


def test_pages_of_other_origins_make_no_calls(page: PageServer) -> None:
    own = f"http://127.0.0.1:{page.server_address[1]}"
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}):
        status, _, data = ask(page, "POST", "/v1/models/tiny:predict", TEXT, **JSON, **headers)
        assert status == 403 and "other origins" in told(data)
    assert ask(page, "POST", "/v1/models/tiny:predict", TEXT, **JSON, Origin=own)[0] == 200
    assert ask(page, "POST", "/v1/models/tiny:predict", TEXT, Content_Type="text/plain")[0] == 415


def test_a_token_goes_to_the_server_and_not_to_the_page() -> None:
    with hostile() as (address, seen), page_of(address, Security(token="s3cret")) as page:
        assert page.key and page.address.endswith(f"/#key={page.key}")
        call = {"instances": [], "attention": {}}
        status, _, data = ask(page, "POST", "/v1/models/bad:attend", call, **JSON)
        assert status == 403 and "key" in told(data) and not seen
        status, response, data = ask(page, "POST", "/v1/models/bad:attend", call, **JSON, X_Limelight_Key=page.key)
        assert status == 200
        assert [headers["Authorization"] for _, headers in seen] == ["Bearer s3cret"]
        assert b"s3cret" not in data and "s3cret" not in str(response.headers)
        assert "X-Limelight-Key" not in seen[0][1]


def test_tokens_pass_as_they_come() -> None:
    with hostile() as (address, _), page_of(address) as page:
        connection = http.client.HTTPConnection("127.0.0.1", page.server_address[1], timeout=20)
        connection.request("POST", "/v1/models/bad:generate", "{}", JSON)
        response = connection.getresponse()
        assert response.headers.get_content_type() == "text/event-stream"
        assert b"event: token" in response.read1()
        TOKEN_SEEN.set()
        assert b"event: end" in response.read()
        connection.close()


def test_a_page_for_other_machines_has_a_key(http: str) -> None:
    with page_of(http, host="0.0.0.0") as page:
        assert page.key
        assert ask(page, "GET", "/v1/models")[0] == 403


def test_the_certificate_of_the_server_is_checked(tmp_path: Path) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("models.example").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with hostile(context) as (address, _):
        named = Security(ca=tmp_path / "ca.pem", server_name="models.example", token="s3cret")
        with page_of(address, named) as page:
            assert ask(page, "GET", "/v1/models", X_Limelight_Key=page.key)[0] == 200
        with page_of(address, Security(ca=tmp_path / "ca.pem")) as page:
            status, _, data = ask(page, "GET", "/v1/models")
            assert status == 502 and "certificate" in told(data)


def test_a_server_that_is_gone_is_told() -> None:
    with page_of(f"127.0.0.1:{free_port()}") as page:
        status, _, data = ask(page, "GET", "/v1/models")
        assert status == 502 and "no server answers" in told(data)


@pytest.mark.parametrize("address", ["", "8080", "host", "ftp://host:1", "host:99999", "host:1/path", "user@host:1"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="HOST:PORT"):
        upstream_at(address, Security(), timeout=1)


def test_a_token_is_not_sent_unencrypted_to_another_machine() -> None:
    with pytest.raises(ValueError, match="unencrypted"):
        upstream_at("models.example:8080", Security(token="s3cret"), timeout=1)
    assert upstream_at("https://models.example:8080", Security(token="s3cret"), timeout=1).tls is not None


def test_the_command_says_where_the_page_is(http: str) -> None:
    command = [sys.executable, "-m", "limelight.cli", "view", http, "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()
    assert re.fullmatch(r"limelight: the page is at http://127\.0\.0\.1:\d+/ \(Ctrl-C to stop\)\n", line)


def test_the_command_waits_for_a_server_that_is_starting(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "limelight.cli", "view", address, "--export", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None and "waiting 60 s" in process.stderr.readline()
        with saying(lambda path: [b'{"models": []}'], int(address.rpartition(":")[2])):
            assert process.wait(30) == 0


def test_the_command_says_what_is_wrong(http: str, capsys: pytest.CaptureFixture[str]) -> None:
    def error(*arguments: str) -> str:
        assert main(["view", *arguments, "--no-browser"]) != 0
        return capsys.readouterr().err

    missing = f"127.0.0.1:{free_port()}"
    said = error(missing, "--timeout", "0.5")
    assert f"waiting 0.5 s for a server at {missing}" in said and "--http-port" in said.splitlines()[-1]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "is taken" in error(http, "--port", str(taken.getsockname()[1]))
    assert "HOST:PORT" in error("nowhere")


def test_names_of_a_server_are_no_paths_in_a_copy_of_the_page(tmp_path: Path) -> None:
    names = ["../../up", str(tmp_path / "absolute"), "A", "a", "a:b", "a/b", ".hidden", "con", "n" * 5000, "models", ""]
    status = [{"model": {"name": each}, "state": "MODEL_STATE_READY", "isDefault": True} for each in names]

    def answer(path: str) -> list[bytes]:
        if path == "/v1/models":
            return [json.dumps({"models": status}).encode()]
        return [json.dumps({"description": {"examples": [{}], "summary": path}}).encode()]

    copy = tmp_path / "copy"
    with saying(answer) as address:
        assert main(["view", address, "--export", str(copy)]) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["copy"]
    files = [each["model"]["file"] for each in json.loads((copy / "models.json").read_text())["models"]]
    assert len({each.lower() for each in files}) == len(names) and files[3] == "a"
    written = {each.name for each in (copy / "answers").iterdir()}
    assert written == {f"{each}{ending}" for each in files for ending in (".json", "-0.bin")}
    assert not any(each.startswith(".") or len(each) > 120 for each in written)


@pytest.mark.parametrize("body", [b"[]", b'{"models": 1}', b'{"models": [[]]}', b"[" * 9999, b"\xff"])
def test_an_answer_that_is_none_ends_a_copy_with_a_sentence(
    body: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with saying(lambda path: [body]) as address:
        assert main(["view", address, "--export", str(tmp_path)]) == 1
    assert address in capsys.readouterr().err


def begin(page: PageServer, head: str, **headers: str) -> socket.socket:
    """Send the head of a request, whose body never comes."""
    opened = socket.create_connection(("127.0.0.1", page.server_address[1]), timeout=20)
    sent = {"Host": "localhost", "Content-Type": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    lines = [f"{head} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
    opened.sendall("\r\n".join(lines).encode())
    return opened


LARGE = str(64 * 2**20)
CALL = "POST /v1/models/tiny:predict"


@pytest.mark.parametrize(
    ("status", "head", "headers"),
    [
        (403, CALL, {"Host": "evil.example"}),
        (403, CALL, {"Origin": "http://evil.example"}),
        (415, CALL, {"Content_Type": "text/plain"}),
        (404, "POST /nothing", {}),
        (413, CALL, {"Content_Length": "9" * 5000}),
        (413, "GET /", {"Content_Length": "9" * 5000}),
        (413, CALL, {"Content_Length": str(64 * 2**20 + 1)}),
        (413, CALL, {"Transfer_Encoding": "chunked"}),
    ],
)
def test_what_is_refused_is_refused_before_its_body_is_read(
    page: PageServer, status: int, head: str, headers: dict[str, str]
) -> None:
    with begin(page, head, **{"Content_Length": LARGE, **headers}) as opened:
        assert opened.recv(100).startswith(b"HTTP/1.1 %d " % status)


def test_all_bodies_together_and_all_connections_have_a_bound(http: str) -> None:
    with page_of(http) as page, ExitStack() as opened:
        three = [opened.enter_context(begin(page, CALL, Content_Length=LARGE)) for _ in range(3)]
        (refused,), _, _ = select.select(three, [], [], 20)  # whichever the server came to last
        assert refused.recv(100).startswith(b"HTTP/1.1 503 ")
        refused.close()
        assert ask(page, "POST", "/v1/models/tiny:predict", TEXT, **JSON)[0] == 200
        for _ in range(126):
            opened.enter_context(begin(page, "GET /", Content_Length="1"))

        def is_full() -> bool:  # the places of calls that ended just now may still be theirs
            last = opened.enter_context(socket.create_connection(("127.0.0.1", page.server_address[1]), timeout=20))
            last.settimeout(1)
            try:
                return last.recv(1) == b""
            except TimeoutError:
                return False

        assert any(is_full() for _ in range(5))
        opened.close()
        assert eventually(lambda: ask(page, "GET", "/")[0] == 200)
