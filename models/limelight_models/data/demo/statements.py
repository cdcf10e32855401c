"""Python of every kind, made up: each statement of the language in functions, classes and scripts, and what people
write first. None of it does anything; all of it is Python (of 3.12 or newer, where it has `type` or type parameters).
"""

import random
from collections.abc import Callable

_NAMES = (
    "x y n i j k value values item items result results name names data line lines text word words count total index"
    " key keys node nodes left right path file files user users config options args kwargs request response session"
    " message event events state status error errors size width height start end first last current previous queue"
    " stack cache table row rows column price amount score scores number numbers point points shape color command token"
    " tokens self_ record records client server url body header payload window buffer chunk group parent child children"
    " model batch"
).split()
_FUNCTIONS = (
    "run load save read write open close get fetch send parse build make create update delete find search sort check"
    " validate handle process compute convert render draw print_all main setup start stop reset clear push pop insert"
    " remove area distance mean total_of is_valid to_json from_dict as_list walk visit reduce_all split_lines join_all"
    " greet add multiply divide average longest shortest count_words factorial describe classify http_error"
).split()
_CALLS = (
    "len str int list sum max min sorted print abs float set tuple repr round any all range isinstance type".split()
)
_ATTRIBUTES = (
    "name value items append get split strip lower upper format join keys values id size next text data".split()
)
_TYPES = (
    "int", "str", "float", "bool", "bytes", "object", "None", "list[int]", "dict[str, int]", "tuple[int, ...]",
    "int | None", "str | bytes", "list[dict[str, float]]", "Callable[[int], str]", "Iterator[str]", "Optional[int]",
    "set[str]", "Path", "Sequence[T]",
)  # fmt: skip
_CLASSES = (
    "Point Circle Square Node Dog Animal Person Account Stack Queue Server Client Config Shape Event User".split()
)
_ERRORS = "ValueError KeyError TypeError OSError IndexError RuntimeError StopIteration TimeoutError Exception".split()
_STRINGS = (
    "hello|world|name|Hello, world!|a|key|not found|utf-8|r|w|, |\\n||yes|no|ok|error|start|stop|quit|go|north|one|two|"
    "other|zero|positive|negative|bad request|Not found|done|http://example.com|data.json|id|%s: %d|{}: {}|it's|a b c|-"
    "|:"
).split("|")
_MODULES = "os sys re json math random time datetime pathlib asyncio collections itertools functools typing".split()
_DECORATORS = (
    "property", "staticmethod", "classmethod", "cached_property", "lru_cache(maxsize=None)", "dataclass(frozen=True)",
    'app.route("/")', "contextmanager", "wraps(function)", "override",
)  # fmt: skip
_STEP = "    "


class Writer:
    """Writes Python by chance. in_async: whether `await` may stand; deep: how far blocks are nested."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.in_async, self.in_loop, self.in_function = chance, False, False, True

    def pick(self, several: list[str] | tuple[str, ...]) -> str:
        return self.chance.choice(several)

    @property
    def name(self) -> str:
        return self.pick(_NAMES)

    @property
    def number(self) -> str:
        return self.pick(("0", "1", "2", "3", "10", "100", "-1", "0.5", "1_000", "404", "0x1f", "1e-6"))

    @property
    def string(self) -> str:
        text = self.pick(_STRINGS)
        quote = '"' if "'" in text or self.chance.random() < 0.6 else "'"
        return self.pick(("", "", "", "", "", "", "", "r", "b")) + quote + text + quote

    @property
    def formatted(self) -> str:
        """An f-string."""
        quote = self.pick(('"', '"', "'"))
        inner = self.pick(
            (
                "{%s}",
                "{%s:.2f}",
                "{%s!r}",
                "{%s=}",
                "{%s.name}",
                "{len(%s)}",
                "{%s:>10}",
                "{%s + 1}",
                "{%s[0]}",
                "{%s:,}",
            )
        )
        parts = [self.pick(("", "Hello, ", "total: ", "is ")), inner % self.name, self.pick(("", "!", " of ", ": "))]
        if self.chance.random() < 0.4:
            parts.append(f"{{{self.name}}}")
        return "f" + quote + "".join(parts) + quote

    def expression(self, deep: int = 0) -> str:
        """A value."""
        if deep > 1 or self.chance.random() < 0.35:
            return self.pick((self.name, self.name, self.number, self.string, f"{self.name}.{self.pick(_ATTRIBUTES)}"))
        one, two = self.expression(deep + 1), self.expression(deep + 1)
        variable, several = self.name, self.name
        made = [
            f"{self.pick(_CALLS)}({one})",
            f"{self.name}.{self.pick(_ATTRIBUTES)}({one})",
            f"{self.pick(_FUNCTIONS)}({one}, {self.name}={two})",
            f"{self.pick(_FUNCTIONS)}(*{self.name}, **{self.name})",
            f"{self.name} {self.pick(('+', '-', '*', '/', '//', '%', '**', '@', '&', '|'))} {two}",
            f"{self.name}[{self.pick((self.number, self.string, '1:', ':-1', '::2', self.name))}]",
            f"{one} if {self.condition()} else {two}",
            f"[{variable} for {variable} in {several} if {self.condition()}]",
            f"{{{variable}: {one} for {variable} in {several}}}",
            f"{{{variable}.{self.pick(_ATTRIBUTES)} for {variable} in {several}}}",
            f"sum({variable} * 2 for {variable} in {several})",
            f"lambda {variable}: {variable}.{self.pick(_ATTRIBUTES)}",
            f"lambda {variable}, {several}=1: {variable} + {several}",
            f"sorted({several}, key=lambda {variable}: {variable}[1])",
            f"list(map(lambda {variable}: {variable} + 1, {several}))",
            f"{{{self.string}: {one}, {self.string}: {two}}}",
            f"[{one}, {two}]",
            f"({one}, {two})",
            f"not {self.name}",
            f"{self.name} or {two}",
            f"dict({self.name}={one})",
            self.formatted,
            self.formatted,
        ]
        if self.in_async:
            made += [f"await {self.pick(_FUNCTIONS)}({one})"] * 5
        return self.pick(made)

    def condition(self) -> str:
        """A condition."""
        name, other = self.name, self.name
        return self.pick(
            (
                f"{name} == {self.number}",
                f"{name} == {self.string}",
                f"{name} != {other}",
                f"{name} is None",
                f"{name} is not None",
                f"{name} in {other}",
                f"{name} not in {other}",
                f"not {name}",
                name,
                f"isinstance({name}, {self.pick(('int', 'str', 'list', 'dict'))})",
                f"len({name}) > {self.number}",
                f"{name} % 2 == 0",
                f"{name} > 0 and {other} < 10",
                f"{name} or not {other}",
                f"0 <= {name} < {other}",
                f"({name} := {self.pick(_FUNCTIONS)}({other})) is not None",
                f"({name} := len({other})) > 10",
                f"{name}.startswith({self.string})",
                f"{name}[0] == {self.string}",
                "True",
            )
        )

    def block(self, count: int, deep: int) -> list[str]:
        """Some statements, one level further in."""
        lines = [line for _ in range(count) for line in self.statement(deep)]
        return [_STEP + line for line in lines]

    def statement(self, deep: int = 0) -> list[str]:
        """A statement, as lines."""
        simple: list[Callable[[], list[str]]] = [self.assign, self.assign, self.call, self.small]
        if self.in_function:
            simple.append(lambda: [f"return {self.expression()}"])
        compound = [self.if_, self.for_, self.while_, self.with_, self.try_, self.match, self.match, self.inner]
        return self.chance.choice(simple if deep > 1 or self.chance.random() < 0.5 else compound)()

    def assign(self) -> list[str]:
        name, value = self.name, self.expression()
        return [
            self.pick(
                (
                    f"{name} = {value}",
                    f"{name} = {value}",
                    f"{name} += {value}",
                    f"{name}, {self.name} = {value}",
                    f"{name}: {self.pick(_TYPES)} = {value}",
                    f"self.{name} = {name}",
                    f"{name}[{self.name}] = {value}",
                    f"{name}, *{self.name} = {self.name}",
                    f"{name} = {self.name} = {value}",
                    f"{name}.{self.name} -= 1",
                    f"{name} = {self.expression()}  # {self.name} of {self.name}",
                )
            )
        ]

    def call(self) -> list[str]:
        return [
            self.pick(
                (
                    f"print({self.formatted})",
                    f"print({self.string}, {self.name})",
                    f"print({self.expression()})",
                    f"{self.name}.append({self.expression()})",
                    f"{self.pick(_FUNCTIONS)}({self.expression()})",
                )
            )
        ]

    def small(self) -> list[str]:
        """Statements of a keyword."""
        name, error = self.name, self.pick(_ERRORS)
        made = [
            f"assert {self.condition()}", f"assert {self.condition()}, {self.string}", f"del {name}[{self.name}]",
            f"raise {error}({self.string})", f"raise {error}({self.formatted}) from error", "raise", "pass", "...",
            f"import {self.pick(_MODULES)}", f"from {self.pick(_MODULES)} import {name}, {self.name}",
            f"import {self.pick(_MODULES)} as {name}", f"type {self.pick(_CLASSES)} = {self.pick(_TYPES)}",
            "type Pair[T] = tuple[T, T]", f"# {name} of the {self.name}",
        ]  # fmt: skip
        if self.in_function:
            made += [f"global {name}", f"global {name}, {self.name}", "return None", "return"]
            made += [] if self.in_async else [f"yield {self.name}", f"yield from {self.name}", f"{name} = yield"]
        if self.in_async:
            made += [f"await {self.pick(_FUNCTIONS)}({self.name})"] * 4
        if self.in_loop:
            made += ["break", "continue"] * 3
        return [self.pick(made)]

    def body(self, deep: int = 1) -> list[str]:
        """One or two statements inside of something."""
        return self.block(self.chance.choice((1, 1, 2)), deep + 1)

    def if_(self) -> list[str]:
        lines = [f"if {self.condition()}:", *self.body()]
        if self.chance.random() < 0.4:
            lines += [f"elif {self.condition()}:", *self.body()]
        return lines + (["else:", *self.body()] if self.chance.random() < 0.4 else [])

    def for_(self) -> list[str]:
        name, other, several = self.name, self.name, self.name
        before, self.in_loop = self.in_loop, True
        heads = [
            f"for {name} in {several}:", f"for {name} in range({self.number}, len({several})):",
            f"for {name}, {other} in enumerate({several}):", f"for {name}, {other} in {several}.items():",
            f"for {name}, {other} in zip({several}, {self.name}, strict=True):", f"for {name} in range(10):",
        ]  # fmt: skip
        if self.in_async:
            heads += [f"async for {name} in {several}:", f"async for {name} in {self.pick(_FUNCTIONS)}({several}):"] * 3
        lines = [self.pick(heads), *self.body()]
        self.in_loop = before
        return lines + (["else:", *self.body()] if self.chance.random() < 0.1 else [])

    def while_(self) -> list[str]:
        before, self.in_loop = self.in_loop, True
        lines = [
            self.pick((f"while {self.condition()}:", f"while ({self.name} := {self.name}.read(1024)):", "while True:")),
            *self.body(),
        ]
        self.in_loop = before
        return lines

    def with_(self) -> list[str]:
        name = self.name
        heads = [
            f"with open({self.name}) as {name}:", f'with open("data.txt", encoding="utf-8") as {name}:',
            f"with {self.name}.lock:", f"with open({self.name}) as {name}, open({self.string}) as {self.name}:",
            f"with suppress({self.pick(_ERRORS)}):", f"with ({self.name}() as {name}, {self.name}()):",
        ]  # fmt: skip
        if self.in_async:
            heads += [
                f"async with {self.name}.get({self.name}) as {name}:",
                "async with asyncio.TaskGroup() as group:",
            ] * 3
        return [self.pick(heads), *self.body()]

    def try_(self) -> list[str]:
        star = "*" if self.chance.random() < 0.3 else ""
        error, other = self.pick(_ERRORS), self.pick(_ERRORS)
        clause = self.pick((f"{error}:", f"{error} as error:", f"({error}, {other}):", f"({error}, {other}) as group:"))
        # What leaves a block is not allowed in one of a group.
        inside = [f"{_STEP}{self.call()[0]}"] if star else self.body()
        lines = ["try:", *self.body(), f"except{star} {clause}", *inside]
        if self.chance.random() < 0.3:
            lines += [f"except{star} {self.pick(_ERRORS)}:", _STEP + self.call()[0]]
        lines += ["else:", *self.body()] if self.chance.random() < 0.2 else []
        return lines + (["finally:", *self.body()] if self.chance.random() < 0.3 else [])

    def pattern(self, deep: int = 0) -> str:
        """A pattern of a case."""
        name, other = self.name, self.name
        made = [
            self.number.replace("0x1f", "31"), self.string, self.string, "None", "True",
            f"[{name}, {other}]", f"[{name}, *{other}]",
            f"({name}, {other})", f"{self.pick(_CLASSES)}()", f"{self.pick(_CLASSES)}({name}=0, {other}={other})",
            f"{self.pick(_CLASSES)}(x={name})", f"{{{self.string}: {name}}}", f"{{{self.string}: {name}, **rest}}",
            "[]",
            "str()", "int() | float()", "400", "404 | 500", "[_, _]",
            f"{self.pick(('Color', 'Status'))}.{name.upper()}",
            f"[{self.string}, {name}]", name,
        ]  # fmt: skip
        found = self.pick(made)
        if deep == 0 and self.chance.random() < 0.2:
            found = f"{found} | {self.pick((self.number, self.string))}" if found != name else name
        if self.chance.random() < 0.15:
            found = f"{found} as {self.name}" if found != name else name
        return f"{found} if {self.condition()}" if found == name or self.chance.random() < 0.15 else found

    def match(self) -> list[str]:
        """A match with some cases, at times a last one for all others."""
        subject = self.pick(
            (
                self.name,
                self.name,
                f"{self.name}.split()",
                f"({self.name}, {self.name})",
                f"{self.name}, {self.name}",
                f"{self.name}.{self.pick(_ATTRIBUTES)}",
                f"{self.pick(_FUNCTIONS)}({self.name})",
                f"{self.name}[0]",
                f"len({self.name})",
                f"type({self.name})",
            )
        )
        lines = [f"match {subject}:"]
        for _ in range(self.chance.choice((1, 2, 2, 3))):
            lines += [f"{_STEP}case {self.pattern()}:", *(_STEP + line for line in self.case())]
        if self.chance.random() < 0.7:
            lines += [f"{_STEP}case _:", *(_STEP + line for line in self.case())]
        return lines

    def case(self) -> list[str]:
        """The body of a case: mostly one line."""
        if self.in_function and self.chance.random() < 0.5:
            return [f"{_STEP}return {self.pick((self.string, self.number, self.name, self.expression(1)))}"]
        return [_STEP + self.chance.choice((self.call, self.assign, self.small))()[0]]

    def inner(self) -> list[str]:
        """A function in a function, which may have names of the outer one."""
        if not self.in_function:
            return self.if_()
        kept = self.in_async, self.in_loop
        self.in_async = self.in_loop = False
        lines = [f"def {self.pick(_FUNCTIONS)}({self.parameters()}):"]
        if self.chance.random() < 0.6:
            name = self.name
            lines = [f"{name} = {self.number}", *lines, f"{_STEP}nonlocal {name}", f"{_STEP}{name} += 1"]
        lines += self.block(1, 2)
        self.in_async, self.in_loop = kept
        return lines

    def parameters(self) -> str:
        """Parameters of a function, with and without types."""
        typed = self.chance.random() < 0.4
        names = self.chance.sample(_NAMES, self.chance.choice((0, 1, 1, 2, 2, 3)))
        made = [f"{name}: {self.pick(_TYPES)}" if typed else name for name in names]
        if made and self.chance.random() < 0.3:
            made[-1] += f" = {self.number}" if typed else f"={self.number}"
        if self.chance.random() < 0.12:
            made.append(self.pick(("*args", "**kwargs", "*args, **kwargs", "*, key=None")))
        return ", ".join(made)

    def function(self, *, method: bool = False) -> list[str]:
        """A function, at times one that is async, decorated, typed or generic."""
        self.in_function, self.in_loop = True, False
        self.in_async = self.chance.random() < 0.2
        parameters = ", ".join(filter(None, ("self" if method else "", self.parameters())))
        generic = "[T]" if not method and self.chance.random() < 0.03 else ""
        gives = f" -> {self.pick(_TYPES)}" if self.chance.random() < 0.35 else ""
        head = f"{'async ' if self.in_async else ''}def {self.pick(_FUNCTIONS)}{generic}({parameters}){gives}:"
        lines = [f"@{self.pick(_DECORATORS)}"] if self.chance.random() < 0.12 else []
        lines.append(head)
        if self.chance.random() < 0.15:
            lines.append(f'{_STEP}"""{self.pick(_STRINGS).strip() or "Do it"} the {self.name}."""')
        lines += self.block(self.chance.choice((1, 1, 2, 2, 3)), 0)
        self.in_async = False
        return lines

    def class_(self) -> list[str]:
        """A class with fields or methods."""
        base = self.pick(("", "", "(Enum)", "(Exception)", f"({self.pick(_CLASSES)})", "(NamedTuple)"))
        lines = [f"class {self.pick(_CLASSES)}{base}:"]
        if self.chance.random() < 0.4:
            lines = [
                "@dataclass",
                *lines,
                *(f"{_STEP}{self.name}: {self.pick(_TYPES)}" for _ in range(self.chance.randint(1, 3))),
            ]
        elif self.chance.random() < 0.7:
            names = self.chance.sample(_NAMES, self.chance.randint(1, 3))
            lines += [f"{_STEP}def __init__(self, {', '.join(names)}):"]
            lines += [f"{_STEP}{_STEP}self.{name} = {name}" for name in names]
        method = [_STEP + line for line in self.function(method=True)]
        return lines + ([""] if self.chance.random() < 0.7 else []) + method

    def script(self) -> list[str]:
        """Statements that stand in no function."""
        self.in_function = self.in_async = self.in_loop = False
        lines = [f"import {self.pick(_MODULES)}", ""] if self.chance.random() < 0.3 else []
        for _ in range(self.chance.randint(2, 4)):
            lines += self.statement(1)
        if self.chance.random() < 0.2:
            lines += ["", 'if __name__ == "__main__":', f"{_STEP}main()"]
        self.in_function = True
        return lines


def program(chance: random.Random) -> str:
    """A function, a class or a script."""
    writer = Writer(chance)
    kind = chance.choices((writer.function, writer.class_, writer.script), (70, 14, 16))[0]
    return "\n".join(kind()) + "\n"
