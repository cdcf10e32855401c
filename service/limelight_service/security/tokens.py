"""Tokens, and the file that says who has one and what it is good for.

[tokens.news-site]
sha256 = "…"                    # of the token, as `limelight token new` prints it; a list while tokens are exchanged
methods = ["Predict", "List*"]  # every one without it, but those that load and unload models
models = ["news-*"]             # every one without it
rows_per_second = 200           # no limit without it
rows_in_flight = 64             # no limit without it
expires = 2030-01-01            # never without it; a day begins at midnight UTC
"""

import hashlib
import hmac
import math
import re
import secrets
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

import tomli_w

from limelight.v1 import admin_pb2, service_pb2
from limelight_bundle.errors import LimelightError
from limelight_service.errors import UnauthenticatedError
from limelight_service.open_inference import open_inference_pb2
from limelight_service.platform.numbers import shown
from limelight_service.security.caller import EVERY, Caller, Globs, Quota

_REPOSITORY_METHODS = ("RepositoryModelLoad", "RepositoryModelUnload")
_INFERENCE_METHODS = open_inference_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods
METHODS = (
    *(each.name for each in service_pb2.DESCRIPTOR.services_by_name["AttentionService"].methods),
    *(each.name for each in _INFERENCE_METHODS if each.name not in _REPOSITORY_METHODS),
)
# A token has these where it names them.
ADMIN_METHODS = (
    *(each.name for each in admin_pb2.DESCRIPTOR.services_by_name["AdminService"].methods),
    *_REPOSITORY_METHODS,
)
_PREFIX = "limelight_"  # so that those who search for leaked secrets find one
_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST = 4096  # each is a label of the metrics
_FIELDS = ("sha256", "methods", "models", "rows_per_second", "rows_in_flight", "expires")


class TokensError(LimelightError):
    """A file of tokens that cannot be used; the message says where and why, and quotes nothing secret."""


@dataclass(frozen=True)
class Grant:
    """Rights of a token. expires: seconds since 1970, infinite for never."""

    digest: bytes
    caller: Caller
    expires: float


class Tokens:
    """All tokens of a file, by the SHA-256 of each."""

    def __init__(self, grants: Sequence[Grant] = ()) -> None:
        self._grants: Mapping[bytes, Grant] = {each.digest: each for each in grants}
        self.names = frozenset(each.caller.name for each in grants)

    def caller(self, presented: str, now: float) -> Caller:
        """Find who has a token.

        How long the look-up takes depends on the digest of what was presented. Whoever measures that learns something
        of stored digests, which is of no use without a token that has one, and tokens are 256 random bits.
        Raises: UnauthenticatedError where nobody has it, or it has expired.
        """
        digest = _digest(presented)
        grant = self._grants.get(digest)
        if grant is None or not hmac.compare_digest(grant.digest, digest):
            raise UnauthenticatedError("the token is not one that this server knows", reason="unknown")
        if grant.expires <= now:
            raise UnauthenticatedError("the token has expired; ask for a new one", reason="expired")
        return grant.caller


def new_token() -> str:
    """Make a token."""
    return _PREFIX + secrets.token_urlsafe(_BYTES)


def entry(name: str, token: str, fields: Mapping[str, Any]) -> str:
    """Write a token as the file has it. fields: those beside its hash, as `read_tokens` takes them.

    Raises: TokensError where they cannot be used.
    """
    text = tomli_w.dumps({"tokens": {name: {"sha256": _digest(token).hex(), **fields}}})
    read_tokens(text.encode())
    return text


def read_tokens(data: bytes) -> Tokens:
    """Read the file.

    Raises: TokensError.
    """
    try:
        content = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TokensError(f"it is not TOML: {error}") from error
    for name in content:
        if name != "tokens":
            raise TokensError(f"{name!r} means nothing here; a token is a table [tokens.NAME]")
    if "tokens" not in content:  # as of a file that is about to be written
        raise TokensError("it has no token; where nobody is to call any more, write [tokens] and nothing else")
    tables = content["tokens"]
    if not isinstance(tables, dict):
        raise TokensError("tokens is no table; a token is a table [tokens.NAME]")
    if len(tables) > _MOST:
        raise TokensError(f"there are {len(tables)} tokens; there may be {_MOST}")
    owners: dict[bytes, str] = {}
    grants = []
    for name, table in tables.items():
        for grant in _grants(name, table):
            if grant.digest in owners:
                raise TokensError(f"{owners[grant.digest]} and {name} have the same sha256")
            owners[grant.digest] = name
            grants.append(grant)
    return Tokens(grants)


def _grants(name: str, table: Any) -> Iterator[Grant]:
    if not _NAME.fullmatch(name):
        raise TokensError(f"{name[:64]!r} is no name of a token: 1 to 64 letters, digits, dots, dashes, underscores")
    if not isinstance(table, dict):
        raise TokensError(f"{name} is no table; a token is a table [tokens.NAME]")
    for field in table:
        if field not in _FIELDS:
            raise TokensError(f"{name} has no field {field!r}; there are {', '.join(_FIELDS)}")
    methods = _globs(name, table, "methods", Globs(METHODS))
    unknown = methods.none_of((*METHODS, *ADMIN_METHODS))
    if unknown is not None:
        raise TokensError(f"{name}: methods: {unknown!r} is none of {', '.join((*METHODS, *ADMIN_METHODS))}")
    rows = _number(name, table, "rows_in_flight")
    if not rows.is_integer():
        raise TokensError(f"{name}: rows_in_flight is {shown(rows)}, which is not a whole number")
    quota = Quota(_number(name, table, "rows_per_second"), int(rows))
    caller = Caller(name, methods, _globs(name, table, "models", EVERY), quota)
    expires = _expiry(name, table.get("expires"))
    for digest in _texts(name, "sha256", table.get("sha256")):
        if not _DIGEST.fullmatch(digest):
            raise TokensError(f"{name}: sha256 is not one: 64 digits of 0-9 and a-f, of the token and not the token")
        yield Grant(bytes.fromhex(digest), caller, expires)


def _globs(name: str, table: Mapping[str, Any], field: str, default: Globs) -> Globs:
    return Globs(_texts(name, field, table[field])) if field in table else default


def _texts(name: str, field: str, value: Any) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not (isinstance(values, list) and values and all(isinstance(each, str) for each in values)):
        raise TokensError(f"{name}: {field} is a text, or a list of some")
    return tuple(values)


def _number(name: str, table: Mapping[str, Any], field: str) -> float:
    value = table.get(field)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e9:
        raise TokensError(f"{name}: {field} is a number above 0, up to 1e9; leave it out for no limit")
    return float(value)


def _expiry(name: str, value: Any) -> float:
    if value is None:
        return math.inf
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise TokensError(f"{name}: expires has no time zone; write a Z after it for UTC")
        return value.timestamp()
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC).timestamp()
    raise TokensError(f"{name}: expires is a day or a time, such as 2030-01-01 or 2030-01-01T12:00:00Z, unquoted")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
