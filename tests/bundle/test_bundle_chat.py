"""Chat templates run within bounds: none of them hangs, takes memory, or reaches anything but messages and tokens."""

import time
import tracemalloc

import pytest

from limelight_bundle.chat.failures import RefusedTemplate
from limelight_bundle.chat.template import ChatTemplate
from limelight_bundle.errors import InputError

MESSAGES = [{"role": "user", "content": "Hello"}]
# Templates that are refused before they run, by what is named.
REFUSED = {
    "{% include '/etc/passwd' %}": "'include'",
    "{% import 'x' as y %}": "'import'",
    "{% from 'x' import y %}": "'fromimport'",
    "{% extends 'x' %}": "'extends'",
    "{% block x %}{% endblock %}": "'block'",
    "{% autoescape true %}{% endautoescape %}": "'scopedevalcontextmodifier'",
    "{{ messages.__class__.__mro__ }}": "the name '__",
    "{{ ''['format'] }}{{ messages|attr('__class__') }}": "the filter 'attr'",
    "{{ '{0.__class__}'.format(messages) }}": "the method 'format'",
    "{{ '%1000000000d' % 1 }}": "formatting by '%'",
    "{{ '%999999999s'|format('a') }}": "the filter 'format'",
    "{{ 'a'|center(1000000000) }}": "the filter 'center'",
    "{{ 'a'.zfill(1000000000) }}": "the method 'zfill'",
    "{{ 'a'.ljust(1000000000) }}": "the method 'ljust'",
    "{{ '\\t'.expandtabs(1000000000) }}": "the method 'expandtabs'",
    "{{ 2 ** 1000000 }}": "'pow'",
    "{{ lipsum(n=100000) }}": "'lipsum'",
    "{{ cycler('a').__init__.__globals__ }}": "'cycler'|the name '__",
    "{% set j = joiner(', ') %}{{ j() }}": "'joiner'",
    "{{ self._TemplateReference__context }}": "'self'|the name '_",
    "{{ messages.append(1) }}": "the method 'append'",
    "{{ messages[0].update(role='x') }}": "the method 'update'",
    "{{ range(*[1]) }}": r"arguments by '\*'",
    "{{ (messages or range)(3) }}": "a call of what is not a name",
    "{{ 99999999999999999999 }}": "the number 9999",
    "{{ messages is filter }}": "the test 'filter'",
    "{% set ns = namespace() %}{% set ns.__class__ = 1 %}": "the name '__class__'",
    "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}": "cannot be read",
    "{{ " + "-" * 5000 + "1 }}": "nests more than|cannot be read",
    "{% if a %}" * 150 + "{% endif %}" * 150: "nests more than",
    "{% for a in b %}" * 40 + "{% endfor %}" * 40: "cannot be read|nests more than",
    "{{ 1" + " + 1" * 200 + " }}": "nests more than",
    "{% for x in": "cannot be read",
    "x" * 10_000_000: "10000000 characters",
    " \n" * 40_000: "80000 characters",
}


def _growing(first: str, step: str, rounds: int = 64) -> str:
    """Return a template that makes a value of itself again and again."""
    set_t = f"{{% for i in range({rounds}) %}}{{% set n.t = {step} %}}{{% endfor %}}"
    return f"{{% set n = namespace(t={first}) %}}{set_t}{{{{ n.t == n.t }}}}"


_LONG = "x" * 50_000
_TWICE = "{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}"
# Templates that begin to run.
STOPPED = {
    "nested ranges": "{% for a in range(99999) %}{% for b in range(99999) %}{{ b }}{% endfor %}{% endfor %}",
    "silent loops": "{% for a in range(99999) %}{% for b in range(999) %}{% endfor %}{% endfor %}",
    "a filtered loop": "{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}",
    "a long range": "{{ range(2000000000)|list }}",
    "a membership in a range": "{{ 'a' in range(2000000000) }}",
    "a repeated text": "{{ 'a' * 1000000000 }}",
    "a repeated list": "{{ [1] * 1000000000 }}",
    "text that doubles": _growing("'ab'", "n.t + n.t"),
    "text that doubles by ~": _growing("'ab'", "n.t ~ n.t"),
    "lists that double": _growing("[1]", "[n.t, n.t]"),
    "tuples that double": _growing("1", "(n.t, n.t)", 30),
    "mappings that double": _growing("1", "{'a': n.t, 'b': n.t}"),
    "deep lists": _growing("[]", "[n.t]", 99999),
    "numbers that grow": _growing("9", "n.t * n.t"),
    "a macro that calls itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "a macro that calls itself twice": "{% macro m(n) %}" + _TWICE + "{% endmacro %}{{ m(60) }}",
    "a loop that calls itself": "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "long constants in a loop": "{% macro m() %}{% for i in range(99999) %}"
    + "x" * 50_000
    + "{% endfor %}{% endmacro %}{% set y = m() %}",
    "a long block in a loop": "{% for i in range(99999) %}{% set x %}" + _LONG + "{% endset %}{% endfor %}",
    "much output": "{% for i in range(9999) %}" + "x" * 5_000 + "{% endfor %}",
    "replaced by more": _growing("'aa'", "n.t|replace('a', n.t)"),
    "nothing replaced by much": "{{ ('a' * 99999).replace('', 'b' * 99999) }}",
    "joined by much": "{{ range(9999)|join('b' * 99999) }}",
    "joined by much as a method": "{{ ('b' * 99999).join(['a'] + ['a'] + ('a' * 9999)|list) }}",
    "stripped of much": "{{ ('a' * 999999).strip('b' * 999999 ~ 'a') }}",
    "indented by much": "{{ 'a\n' * 999 | indent(99999999) }}{{ ('a\n' * 999)|indent(99999999) }}",
    "JSON with much space": "{{ [[[1]]]|tojson(indent=1000000000) }}",
    "a wide time": "{{ strftime_now('%1000000000d') }}",
    "a mapping by mappings": "{{ {(1, 2): 3} }}",
    "sums of lists": _growing("[1]", "n.t + [i]", 99999),
    "a long namespace": "{{ namespace(a=[1] + ('b' * 9999999)|list) }}",
    "internals by an index": "{{ messages['__class__']['__mro__'] }}",
    "internals by map": "{{ messages|map(attribute='__class__.__mro__')|list }}",
    "internals by a loop": "{% for m in messages %}{{ loop['_iterable']['x'] }}{% endfor %}",
    "internals of a macro": "{% macro m() %}{% endmacro %}{{ m['_func']['x'] }}",
    "internals of a function": "{{ range['__self__']['x'] }}",
    "a method by another way": "{{ {'a': ''['join']}['a'] }}",
    "a namespace in itself": "{% set n = namespace() %}{% set n.a = [n] %}{{ n.a }}",
    "a namespace written": "{{ namespace() }}",
    "its own error": "{{ raise_exception('x' * 9999) }}",
    "an error of Python": "{{ 1 // 0 }}",
}


@pytest.mark.parametrize("source", REFUSED, ids=lambda source: source[:30])
def test_a_template_that_uses_more_than_is_allowed_is_refused_by_name(source: str) -> None:
    begun = time.monotonic()
    with pytest.raises(RefusedTemplate, match=REFUSED[source]):
        ChatTemplate(source).render(MESSAGES)
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("name", STOPPED)
def test_a_template_that_takes_too_much_is_stopped(name: str) -> None:
    template = ChatTemplate(STOPPED[name])
    begun = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as raised:
            template.render(MESSAGES)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "cannot be written by the model's chat template" in raised.value.message
    assert len(raised.value.message) < 500
    assert peak < 2**28 and time.monotonic() - begun < 60
