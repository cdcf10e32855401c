"""TLS: nobody reads along, nobody passes for somebody else, and certificates change while calls go on."""

import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization

import limelight
from limelight_service.security.certificates import CertificateError, read_certificates
from limelight_service.security.tokens import entry, new_token
from tests.kit import bundles
from tests.kit.processes import process, scrape, started
from tests.kit.serving import Running, eventually, free_port, serving

SOON = datetime(2090, 1, 2, 3, 4, 5, tzinfo=UTC)


class Files:
    """Files that a server and a client read."""

    def __init__(self, folder: Path) -> None:
        self.chain, self.key, self.ca = folder / "cert.pem", folder / "key.pem", folder / "ca.pem"
        self.own_chain, self.own_key = folder / "own.pem", folder / "own-key.pem"
        self.callers_ca = folder / "callers-ca.pem"

    def write(self, authority: trustme.CA, *names: str, expires: datetime = SOON) -> None:
        """Replace the server's certificate and its authority's, each file at once."""
        made = authority.issue_cert(*(names or ("127.0.0.1", "localhost")), not_after=expires)
        replace(self.key, made.private_key_pem.bytes())
        replace(self.chain, b"".join(each.bytes() for each in made.cert_chain_pems))
        replace(self.ca, authority.cert_pem.bytes())

    def write_own(self, authority: trustme.CA) -> None:
        """Replace the client's certificate."""
        made = authority.issue_cert("caller@example.org")
        made.private_key_pem.write_to_path(self.own_key)
        replace(self.own_chain, b"".join(each.bytes() for each in made.cert_chain_pems))

    @property
    def settings(self) -> dict[str, str]:
        return {"tls_cert": str(self.chain), "tls_key": str(self.key)}


def replace(path: Path, data: bytes) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(data)
    os.replace(other, path)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def stranger() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(tmp_path: Path, authority: trustme.CA) -> Files:
    made = Files(tmp_path)
    made.write(authority)
    return made


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    return folder


def works(running: Running, **security: Any) -> bool:
    """Whether a new connection with these proofs is answered."""
    with limelight.Client(running.server.address, attempts=1, timeout=20, **security) as client:
        try:
            return [each.name for each in client.models()] == ["tiny"]
        except limelight.Unavailable:
            return False


def test_only_who_trusts_the_server_is_served_and_only_encrypted(
    repository: Path, files: Files, stranger: trustme.CA, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    stranger.cert_pem.write_to_path(other)
    with serving(repository, **files.settings) as running:
        assert works(running, ca=files.ca)
        assert not works(running)
        assert not works(running, ca=other)
        assert not works(running, tls=True)


def test_a_certificate_counts_for_its_name_only(repository: Path, files: Files, authority: trustme.CA) -> None:
    files.write(authority, "models.internal")
    with serving(repository, **files.settings) as running:
        assert not works(running, ca=files.ca)
        assert works(running, ca=files.ca, server_name="models.internal")


def test_callers_without_a_certificate_of_the_right_authority_do_not_connect(
    repository: Path, files: Files, authority: trustme.CA, stranger: trustme.CA
) -> None:
    callers = trustme.CA()
    callers.cert_pem.write_to_path(files.callers_ca)
    own = {"cert": files.own_chain, "key": files.own_key}
    with serving(repository, **files.settings, tls_client_ca=str(files.callers_ca)) as running:
        assert not works(running, ca=files.ca)
        for other in (stranger, authority):
            files.write_own(other)
            assert not works(running, ca=files.ca, **own)
        files.write_own(callers)
        assert works(running, ca=files.ca, **own)
        replace(files.callers_ca, stranger.cert_pem.bytes())  # and now only theirs
        assert eventually(lambda: not works(running, ca=files.ca, **own))
        files.write_own(stranger)
        assert works(running, ca=files.ca, **own)


@contextmanager
def calling(running: Running, files: Files) -> Iterator[list[str]]:
    """Call on new connections all the while, as those do who trust the first authority; gives what went wrong."""
    ca, wrong, done = files.ca.read_bytes(), list[str](), threading.Event()
    kept = files.ca.with_name("kept.pem")
    kept.write_bytes(ca)

    def call() -> None:
        while not done.wait(0.05):
            with limelight.Client(running.server.address, attempts=1, timeout=20, ca=kept) as client:
                try:
                    client.predict("tiny", {"text": "the cat"})
                except limelight.Error as error:
                    wrong.append(error.message)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for each in threads:
        each.start()
    try:
        yield wrong
    finally:
        done.set()
        for each in threads:
            each.join()


def test_a_certificate_changes_under_calls_and_a_bad_one_changes_nothing(
    repository: Path, files: Files, authority: trustme.CA, stranger: trustme.CA
) -> None:
    files.write(authority, expires=datetime.now(UTC) + timedelta(days=1))
    with serving(repository, **files.settings, metrics_port=free_port()) as running:

        def metric(name: str) -> float:
            return scrape(running.server.metrics_port)[name]

        def reloads(result: str) -> float:
            return metric(f'limelight_reloads_total{{result="{result}",what="certificate"}}')

        assert metric("limelight_certificate_expiry_seconds") < SOON.timestamp()
        with limelight.Client(running.server.address, ca=files.ca) as kept, calling(running, files) as wrong:
            kept.models()
            files.write(authority)
            assert eventually(lambda: metric("limelight_certificate_expiry_seconds") == SOON.timestamp())
            made = stranger.issue_cert("127.0.0.1")
            replace(files.chain, made.cert_chain_pems[0].bytes())  # its key comes later, or never
            assert eventually(lambda: reloads("failed") >= 1)
            replace(files.key, b"no key at all")
            assert eventually(lambda: reloads("failed") >= 2)
            time.sleep(0.2)
            assert metric("limelight_certificate_expiry_seconds") == SOON.timestamp()
            kept.models()
        assert not wrong
        good = reloads("ok")
        files.write(stranger)
        assert eventually(lambda: reloads("ok") > good)
        assert works(running, ca=files.ca)
        kept_ca = files.ca.with_name("kept.pem")
        assert not works(running, ca=kept_ca)


def test_who_says_nothing_or_nonsense_holds_nobody_up(repository: Path, files: Files) -> None:
    with serving(repository, **files.settings) as running:
        place = ("127.0.0.1", running.server.port)
        silent = [socket.create_connection(place) for _ in range(50)]
        try:
            for each in silent[:25]:
                each.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(2000))
            assert works(running, ca=files.ca)
        finally:
            for each in silent:
                each.close()


def test_old_versions_of_tls_are_refused(repository: Path, files: Files) -> None:
    context = ssl.create_default_context(cafile=files.ca)
    with pytest.warns(DeprecationWarning):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with serving(repository, **files.settings) as running:
        place = ("127.0.0.1", running.server.port)
        with socket.create_connection(place) as plain, pytest.raises((ssl.SSLError, OSError)):
            context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_frontends_have_the_certificate_and_a_token_travels_by_tls(
    repository: Path, files: Files, tmp_path: Path
) -> None:
    tokens, token = tmp_path / "tokens.toml", new_token()
    tokens.write_text(entry("site", token, {}))
    flags = ("--repository", str(repository), "--port", "0", "--metrics-port", "0", "--tokens", str(tokens))
    lock = ("--tls-cert", str(files.chain), "--tls-key", str(files.key), "--frontends", "2", "--provider", "cpu")
    with process(*flags, *lock) as (running, _):
        target = started(running)
        with limelight.Client(target, ca=files.ca, token=token) as client:
            assert client.predict("tiny", {"text": "the cat"}).label
        with limelight.Client(target, ca=files.ca) as client, pytest.raises(limelight.Unauthenticated):
            client.models()


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (("--host", "0.0.0.0"), 2, "give --tls-cert and --tls-key"),
        (("--tls-cert", "{chain}", "--tls-key", "{chain}"), 1, "the certificate cannot be used"),
        (("--tls-cert", "{chain}", "--tls-key", "{folder}/none.pem"), 1, "none.pem cannot be read"),
        (("--tokens", "{folder}/tokens.toml"), 1, "the tokens cannot be used: site has no field 'sha265'"),
    ],
)
def test_what_cannot_be_locked_as_told_is_not_served(
    repository: Path, files: Files, flags: tuple[str, ...], status: int, message: str
) -> None:
    (files.chain.parent / "tokens.toml").write_text('[tokens.site]\nsha265 = "typed wrongly"\n')
    filled = (each.format(chain=files.chain, folder=files.chain.parent) for each in flags)
    with process("--repository", str(repository), "--port", "0", "--metrics-port", "0", *filled) as (running, logged):
        assert running.wait(60) == status
    assert message in "".join(logged) and "Traceback" not in "".join(logged)


def read(files: Files, *more: Path) -> Any:
    paths = [files.chain, files.key, *more]
    return read_certificates([each.read_bytes() for each in paths])


def test_files_are_tried_before_they_are_used(
    files: Files, authority: trustme.CA, stranger: trustme.CA, tmp_path: Path
) -> None:
    assert read(files).expires == SOON.timestamp()
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"unknown"),
    )
    made = authority.issue_cert("127.0.0.1")
    for path, data in (
        (files.key, b""),
        (files.key, locked),
        (files.key, made.private_key_pem.bytes()),
        (files.chain, b""),
        (files.chain, b"\xff\xfe"),
        (files.chain, files.chain.read_bytes()[:-200]),
    ):
        before = path.read_bytes()
        path.write_bytes(data)
        with pytest.raises(CertificateError):
            read(files)
        path.write_bytes(before)
    for data in (b"", b"\xff", made.cert_chain_pems[0].bytes()):
        files.callers_ca.write_bytes(data)
        with pytest.raises(CertificateError):
            read(files, files.callers_ca)
    stranger.cert_pem.write_to_path(files.callers_ca)
    assert read(files, files.callers_ca).client_ca == files.callers_ca.read_bytes()


def test_one_that_has_expired_says_so_and_is_still_read(files: Files, authority: trustme.CA) -> None:
    past = datetime(2021, 1, 1, tzinfo=UTC)
    files.write(authority, expires=past)
    assert x509.load_pem_x509_certificates(files.chain.read_bytes())[0].not_valid_after_utc == past
    assert read(files).expires == past.timestamp()
