"""Puts settings together: a flag counts before an environment variable, that before a file, that before the default."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from limelight.base.suggestions import similar
from limelight_bundle.errors import LimelightError
from limelight_bundle.names import is_model_name
from limelight_service.platform.numbers import shown
from limelight_service.security.exposure import exposed
from limelight_service.settings import Rule, Settings, public_settings

PREFIX = "LIMELIGHT_"
# Kubernetes describes each Service to every container beside it, and Docker each linked container: that of a Service
# named `limelight` is LIMELIGHT_PORT=tcp://10.96.0.7:50051, which is somebody's address and no setting.
_ADDRESS = re.compile(r"(tcp|udp|sctp)://", re.IGNORECASE)
_ORIGIN = re.compile(r"\*|https?://[^/\s]+")
_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class SettingsError(LimelightError):
    """A setting that cannot be used; the message names it, its value and where it came from."""


def load_settings(
    flags: Mapping[str, Any], *, environment: Mapping[str, str] | None = None, file: Path | None = None
) -> Settings:
    """Put settings together from flags (None where not given), `LIMELIGHT_*` variables and a TOML file, and check them.

    Limits that users do not set are taken from flags alone.

    Raises: SettingsError naming the setting, its value and where it came from.
    """
    environment = os.environ if environment is None else environment
    known = {each.name: each for each in fields(Settings)}
    public = [each.name for each in public_settings()]
    content = _read_file(file) if file else {}
    for name in content:
        if name not in public:
            raise SettingsError(
                f"{file}: there is no setting {name!r}; there are {', '.join(public)}{similar(name, public)}"
            )
    values: dict[str, Any] = {}
    for name, each in known.items():
        assert each.default is not MISSING
        kind, rule, variable = type(each.default), each.metadata["rule"], PREFIX + name.upper()
        if (flag := flags.get(name)) is not None and flag != []:
            told = ",".join(flag) if rule.is_list and not isinstance(flag, str) else flag
            values[name] = _check(told, kind, rule, "--" + name.replace("_", "-"))
        elif name not in public:
            continue
        elif variable in environment and not _is_address(name, environment[variable]):
            values[name] = _check(_parse(environment[variable], kind, variable), kind, rule, variable)
        elif name in content:
            values[name] = _check(content[name], kind, rule, f"{file}: {name}")
    settings = Settings(**values)
    check_models(settings)
    if settings.max_instances > settings.queue_rows:
        raise SettingsError(
            f"max_instances is {settings.max_instances}, more than queue_rows ({settings.queue_rows}): such a call "
            "could never be admitted"
        )
    if not all(each.strip().isdecimal() for each in settings.gpu_devices.split(",")):
        raise SettingsError(f"gpu_devices is {settings.gpu_devices!r}; name GPUs by their numbers, as 0 or 0,1")
    if len(settings.devices) > 1 and not settings.frontends:
        raise SettingsError(
            f"gpu_devices is {settings.gpu_devices!r}, which are several engines; give --frontends 1 or more as well"
        )
    if bool(settings.tls_cert) is not bool(settings.tls_key):
        raise SettingsError("tls_cert and tls_key are needed together: a certificate and its key")
    if settings.tls_client_ca and not settings.tls_cert:
        raise SettingsError("tls_client_ca is of no use without tls_cert and tls_key")
    for origin in settings.origins:
        if not _ORIGIN.fullmatch(origin):
            raise SettingsError(f"http_origins has {origin!r}; an origin is scheme and host, as https://app.example")
    problem = exposed(settings)
    if problem is not None:
        raise SettingsError(problem)
    return settings


def check_models(settings: Settings) -> None:
    """Check what names the models that are given one by one. Raises: SettingsError."""
    try:
        checkpoints = settings.checkpoints
    except ValueError as error:
        raise SettingsError(f"checkpoint is {settings.checkpoint!r}: {error}") from error
    for name, place, _ in checkpoints:
        if not place or (name and not is_model_name(name)):
            raise SettingsError(
                f"checkpoint is {settings.checkpoint!r}; give a folder, or org/name of a hub, with NAME= in front for "
                "another name: lower-case letters, digits, _ and -, at most 64"
            )
    names = set()
    for name, folder in settings.models:
        if not folder or not is_model_name(name):
            raise SettingsError(
                f"model is {settings.model!r}; give NAME=FOLDER, as dates=/mnt/models: a name is of lower-case "
                "letters, digits, _ and -, at most 64"
            )
        if name in names:
            raise SettingsError(f"model is {settings.model!r}, which names {name} twice")
        names.add(name)


def ignored_variables(environment: Mapping[str, str] | None = None) -> list[str]:
    """Give the variables that are named as settings are and describe Services of Kubernetes; they do not count."""
    environment = os.environ if environment is None else environment
    named = {PREFIX + each.name.upper(): each.name for each in public_settings()}
    return [each for each, name in named.items() if each in environment and _is_address(name, environment[each])]


def _is_address(setting: str, value: str) -> bool:
    return setting.endswith("port") and _ADDRESS.match(value.strip()) is not None


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"the settings file {file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"the settings file {file} is not TOML: {error}") from error


def _parse(text: str, kind: type, source: str) -> Any:
    try:
        return _TRUTHS[text.strip().lower()] if kind is bool else kind(text)
    except (ValueError, KeyError) as error:
        raise SettingsError(f"{source} is {text!r}, which is not {_kind_name(kind)}") from error


def _check(value: Any, kind: type, rule: Rule, source: str) -> Any:
    if kind is float and type(value) is int:
        value = float(value)
    if isinstance(value, Path):
        value = str(value)
    if type(value) is not kind:
        raise SettingsError(f"{source} is {value!r}, which is not {_kind_name(kind)}")
    if rule.choices and value not in rule.choices:
        raise SettingsError(f"{source} is {value!r}; it may be {', '.join(rule.choices)}")
    if isinstance(value, int | float) and not rule.minimum <= value <= rule.maximum:
        raise SettingsError(f"{source} is {value}; it may be from {shown(rule.minimum)} to {shown(rule.maximum)}")
    return value


def _kind_name(kind: type) -> str:
    return {int: "a whole number", float: "a number", str: "text", bool: "true or false"}[kind]
