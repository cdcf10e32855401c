"""What a template may use: filters, tests, functions, methods of values. Each pays for what it reads and makes."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import wraps
from types import MappingProxyType
from typing import Any, NoReturn

from jinja2 import pass_eval_context
from jinja2.filters import FILTERS as _FILTERS
from jinja2.nodes import EvalContext
from jinja2.tests import TESTS as _BUILT_IN_TESTS
from jinja2.utils import Namespace

from limelight_bundle.chat.failures import FailedTemplate, OwnRefusal
from limelight_bundle.chat.meter import CELL, METER, STEP

_Function = Callable[..., Any]
_ALL_TESTS: Mapping[str, Any] = _BUILT_IN_TESTS
_TIME_FORMAT = re.compile(r"(?:[^%]|%-?[A-Za-z%]){0,128}", re.DOTALL)  # a width would be padded to
_MOST_INDENT = 16
_MOST_STRIPPED = 128  # characters that are stripped from an end, each compared with every one of the text
_MOST_MESSAGE = 300


def raise_exception(message: object) -> NoReturn:
    """End the run with a template's own words."""
    raise OwnRefusal(str(message)[:_MOST_MESSAGE])


def strftime_now(form: str) -> str:
    """Write the time."""
    if not isinstance(form, str) or not _TIME_FORMAT.fullmatch(form):
        raise FailedTemplate("it writes the time in a format that is not allowed")
    return datetime.now().strftime(form)


def namespace(*args: Any, **entries: Any) -> Namespace:
    """Make an object whose attributes a template may set."""
    METER.get().weigh(args, entries)
    return Namespace(*args, **entries)


def mapping(*args: Any, **entries: Any) -> dict[Any, Any]:
    """Make a mapping, as `dict` does."""
    METER.get().weigh(args, entries)
    return dict(*args, **entries)


def _range(*args: int) -> range:
    METER.get().weigh(*args)
    return range(*args)


FUNCTIONS: Mapping[str, _Function] = MappingProxyType(
    {
        "range": _range,
        "namespace": namespace,
        "dict": mapping,
        "raise_exception": raise_exception,
        "strftime_now": strftime_now,
    }
)


def _metered(function: _Function, *, deep: bool) -> _Function:
    """Make a filter or method pay: for all in its arguments and its result, or for the entries that it passes on."""
    passed = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        meter = METER.get()
        own = args[passed:]
        meter.weigh(own, kwargs) if deep else meter.look(own[0])
        result = function(*args, **kwargs)
        if isinstance(result, Iterator):
            result = list(result)
        meter.weigh(result) if deep else meter.look(result)
        return result

    return run


def _stepped(function: _Function) -> _Function:
    """Make a filter or method that takes the same time for any value pay for a step."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        METER.get().spend(STEP)
        return function(*args, **kwargs)

    return run


@pass_eval_context
def _join(context: EvalContext, value: Any, separator: str = "", attribute: str | int | None = None) -> str:
    parts = list(value)
    METER.get().spend((CELL + len(str(separator))) * len(parts))
    return str(_FILTERS["join"](context, parts, separator, attribute))


def _replace(text: Any, old: str, new: str, count: int | None = None) -> str:
    whole, old, new = str(text), str(old), str(new)
    found = whole.count(old)
    times = found if count is None or count < 0 else min(found, count)
    METER.get().spend(len(whole) + len(new) * times)
    return whole.replace(old, new, times)


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    size = len(width) if isinstance(width, str) else width
    if size > _MOST_INDENT:
        raise FailedTemplate("it indents by too much")
    METER.get().spend(len(text) * (1 + size))
    return str(_FILTERS["indent"](text, width, first, blank))


def _trim(text: Any, characters: str | None = None) -> str:
    return _strip("strip", str(text), characters)


def _strip(name: str, text: str, characters: str | None = None) -> str:
    if characters is not None and len(characters) > _MOST_STRIPPED:
        raise FailedTemplate("it strips by too many characters")
    METER.get().spend(len(text) * (1 + len(characters or "") // CELL))
    return str(getattr(text, name)(characters))


def _json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    written = [indent or "", *(separators or ())]
    if any(len(each) > _MOST_INDENT if isinstance(each, str) else each > _MOST_INDENT for each in written):
        raise FailedTemplate("it writes JSON with too much between values")
    encoder = json.JSONEncoder(ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    parts = []
    for part in encoder.iterencode(value):
        METER.get().spend(len(part))
        parts.append(part)
    return "".join(parts)


_QUICK = "count default d first last length".split()
_PASSING = "items list reject rejectattr reverse select selectattr".split()
_OWN: Mapping[str, _Function] = {
    "tojson": _json,
    "join": _join,
    "replace": _replace,
    "indent": _indent,
    "trim": _trim,
    "safe": str,
}
_DEEP = "abs capitalize dictsort float int lower map sort string title unique upper".split()
FILTERS: Mapping[str, _Function] = MappingProxyType(
    {
        **{name: _stepped(_FILTERS[name]) for name in _QUICK},
        **{name: _metered(_FILTERS[name], deep=False) for name in _PASSING},
        **{name: _metered(_FILTERS[name], deep=True) for name in _DEEP},
        **{name: _metered(function, deep=True) for name, function in _OWN.items()},
    }
)
# Of the kind of a value, however large; the others compare.
_ABOUT = """
    boolean defined even false float integer iterable mapping none number odd sequence string true undefined
""".split()
_COMPARING = "!= < <= == > >= divisibleby eq equalto ge greaterthan gt in le lessthan lower lt ne upper".split()
TESTS: Mapping[str, _Function] = MappingProxyType(
    {
        **{name: _ALL_TESTS[name] for name in _ABOUT},
        **{name: _metered(_ALL_TESTS[name], deep=True) for name in _COMPARING},
    }
)


def _joined(separator: str, parts: Any) -> str:
    parts = list(parts)
    METER.get().spend((CELL + len(separator)) * len(parts))
    return separator.join(parts)


def _of_text(name: str) -> _Function:
    if name in ("strip", "lstrip", "rstrip"):
        return lambda text, characters=None: _strip(name, text, characters)
    own: Mapping[str, _Function] = {"replace": _replace, "join": _joined}
    return own.get(name) or _method(str, name)


def _method(kind: type, name: str) -> _Function:
    found: _Function = getattr(kind, name)
    return found


def _as_list(name: str) -> _Function:
    return lambda value: list(getattr(value, name)())


_TEXT_METHODS = """
    capitalize count endswith find index isalnum isalpha isdigit islower isnumeric isspace istitle isupper join lower
    lstrip partition removeprefix removesuffix replace rfind rindex rpartition rsplit rstrip split splitlines startswith
    strip title upper
""".split()
METHODS: Mapping[type, Mapping[str, _Function]] = MappingProxyType(
    {
        str: {name: _metered(_of_text(name), deep=True) for name in _TEXT_METHODS},
        dict: {
            "get": _stepped(dict.get),
            **{name: _metered(_as_list(name), deep=False) for name in ("items", "keys", "values")},
        },
        list: {name: _metered(_method(list, name), deep=True) for name in ("count", "index")},
    }
)
METHOD_NAMES = frozenset(name for methods in METHODS.values() for name in methods)
LOOP = frozenset("depth depth0 first index index0 last length nextitem previtem revindex revindex0".split())
