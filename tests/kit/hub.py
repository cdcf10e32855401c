"""A hub of checkpoints on this machine, which speaks to `huggingface_hub` as Hugging Face's does."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

_PATH = re.compile(r"/(?:api/models/)?(\w[\w.-]*/[\w.-]+)(?:/(revision|tree|resolve|cdn)/([^/]+)/?(.*))?")


@dataclass
class Hub:
    """Repositories by name, then by commit, with the content of files; branches and tags by name and revision.

    Attributes:
        gated: tokens by the names that they open.
        renamed: new names by old ones, to which requests are redirected.
        claimed: sizes that are stated, by names, of all their files.
        cuts: number of answers with a file of weights that end halfway.
        open: files of weights are sent while it is set.
        asked: method, path and token of each request.
    """

    address: str = ""
    commits: dict[str, dict[str, Mapping[str, bytes]]] = field(default_factory=dict)
    revisions: dict[tuple[str, str], str] = field(default_factory=dict)
    gated: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    claimed: dict[str, int] = field(default_factory=dict)
    cuts: int = 0
    open: threading.Event = field(default_factory=threading.Event)
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def publish(self, name: str, folder: Path, *revisions: str) -> str:
        """Publish the files of a folder as a commit, which is `main` and the revisions given."""
        files = {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}
        commit = hashlib.sha1(name.encode() + b"".join(files[each] for each in sorted(files))).hexdigest()
        self.commits.setdefault(name, {})[commit] = files
        self.revisions |= {(name, each): commit for each in ("main", *revisions)}
        return commit

    @property
    def sent(self) -> set[str]:
        """The files that were sent, or begun."""
        found = (_PATH.fullmatch(path) for method, path, _ in self.asked if method == "GET")
        return {each[4] for each in found if each and each[4]}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        token = self.headers.get("authorization", "")
        self.hub.asked.append((self.command, path, token))
        status, body, headers = self._answer(path, token)
        cut = self.command == "GET" and path.endswith(".safetensors") and status < 300 and self.hub.cuts > 0
        self.hub.cuts -= cut
        if self.command == "GET" and path.endswith(".safetensors"):
            self.hub.open.wait(60)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut

    def _answer(self, path: str, token: str) -> tuple[int, bytes, Mapping[str, str]]:
        found = _PATH.fullmatch(path)
        name, kind, revision, file = found.groups("") if found else ("", "", "", "")
        if new := self.hub.renamed.get(name):
            return 307, b"", {"Location": path.replace(name, new)}
        if name not in self.hub.commits:
            return 404, b"{}", {"X-Error-Code": "RepoNotFound"}
        if kind in ("resolve", "cdn") and self.hub.gated.get(name, token) not in token:
            return 403, b"{}", {"X-Error-Code": "GatedRepo"}
        commit = self.hub.revisions.get((name, revision or "main"), revision)
        files = self.hub.commits[name].get(commit)
        if files is None:
            return 404, b"{}", {"X-Error-Code": "RevisionNotFound"}
        if kind == "tree":
            tree = [
                {"type": "file", "path": each, "size": len(data), "oid": _oid(data)} for each, data in files.items()
            ]
            return 200, json.dumps(tree).encode(), {}
        if kind in ("", "revision"):
            size = self.hub.claimed.get(name)
            siblings = [{"rfilename": each, "size": size or len(data)} for each, data in files.items()]
            return 200, json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode(), {}
        if file not in files:
            return 404, b"{}", {"X-Error-Code": "EntryNotFound"}
        content = files[file]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{_oid(content)}"', "Accept-Ranges": "bytes"}
        if file.endswith(".safetensors") and kind == "resolve":  # large files are elsewhere
            linked = {"X-Linked-Size": str(len(content)), "X-Linked-ETag": headers["ETag"]}
            return 302, b"", headers | linked | {"Location": path.replace("/resolve/", "/cdn/")}
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        if asked is None:
            return 200, content, headers
        rest = f"bytes {asked[1]}-{len(content) - 1}/{len(content)}"
        return 206, content[int(asked[1]) :], {**headers, "Content-Range": rest}

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _oid(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Run a hub on a free port."""
    hub = Hub()
    hub.open.set()
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub})) as server:
        hub.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield hub
        finally:
            hub.open.set()
            server.shutdown()
            thread.join()
