"""A template as a program: read, checked, and rewritten so that each step pays; then run by Jinja's sandbox.

Templates come with checkpoints, and nobody vouches for them. Three things hold them. Jinja's sandbox keeps them from
Python's internals. What they may use is listed (`limelight_bundle.chat.allowed`): anything else refuses a template by
its name, before it runs. And every round of a loop, call, value and output is paid for (`limelight_bundle.chat.meter`):
the sandbox alone lets nested loops and `'a' * 10**9` take all time and memory.
"""

from functools import partial
from typing import Any

from jinja2 import Undefined, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from limelight_bundle.chat.allowed import FILTERS, FUNCTIONS, LOOP, METHOD_NAMES, METHODS, TESTS
from limelight_bundle.chat.failures import FailedTemplate, RefusedTemplate
from limelight_bundle.chat.meter import METER, STEP, Meter

MOST_CHARACTERS = 2**16
"""Length of a template; the longest published ones have a third of it."""
MOST_WRITTEN = 2**22
"""Characters that a run may write."""
_DEEPEST = 100  # of an expression or block in others
_LARGEST_CONSTANT = 2**31
_NODES = frozenset(
    """
    Template Output TemplateData For If Macro CallBlock FilterBlock Assign AssignBlock NSRef Name Const List Tuple Dict
    Pair Keyword Getattr Getitem Slice Call Filter Test Add Sub Mul Div FloorDiv Mod Concat Compare Operand And Or Not
    Neg Pos CondExpr Break Continue With ExprStmt Scope
    """.split()
)
_FORBIDDEN_NAMES = frozenset({"cycler", "joiner", "lipsum", "self", "super"})  # Jinja's own; unknown ones are undefined
_NUMBERS = frozenset({int, float, bool})
_KEYS = frozenset({str, int, float, bool, type(None)})
_SEQUENCES = frozenset({str, list, tuple, range})


class Program:
    """A template that was checked and compiled; for any thread.

    Attributes:
        names: that it reads and does not define.
    Raises:
        RefusedTemplate: it is not allowed, or not a template.
    """

    def __init__(self, source: str) -> None:
        if len(source) > MOST_CHARACTERS:
            raise RefusedTemplate(f"the chat template has {len(source)} characters, more than {MOST_CHARACTERS}")
        environment = _Environment()
        try:
            tree = environment.parse(source)
            _check(tree)
            self.names = frozenset(find_undeclared_variables(tree))
            self._template = environment.from_string(_Metered().visit(tree))
        except RefusedTemplate:
            raise
        except Exception as error:  # Jinja's compiler and Python's raise many
            reason = str(error).partition("\n")[0][:200] or type(error).__name__
            raise RefusedTemplate(f"the chat template cannot be read: {reason}") from error

    def run(self, variables: dict[str, Any], characters: int) -> str:
        """Run it. characters: of the conversation. Raises FailedTemplate."""
        set_before = METER.set(Meter(characters))
        written, size = [], 0
        try:
            for part in self._template.generate(variables):
                size += len(part)
                if size > MOST_WRITTEN:
                    raise FailedTemplate("it writes too much")
                written.append(part)
        except FailedTemplate:
            raise
        except RecursionError as error:
            raise FailedTemplate("its macros call themselves without end") from error
        except Exception as error:  # a template can raise nearly any
            raise FailedTemplate(str(error).partition("\n")[0][:200] or type(error).__name__) from error
        finally:
            METER.reset(set_before)
        return "".join(written)


def _check(tree: nodes.Template) -> None:
    """Check everything that a template names. Raises RefusedTemplate for what is not allowed."""
    level: list[nodes.Node] = [tree]
    for _ in range(_DEEPEST):
        for each in level:
            if reason := _objection(each):
                raise RefusedTemplate(f"the chat template uses {reason}, which is not allowed")
        level = [child for each in level for child in each.iter_child_nodes()]
        if not level:
            return
    raise RefusedTemplate(f"the chat template nests more than {_DEEPEST} levels")


def _objection(node: nodes.Node) -> str:
    """Name what a node uses and must not; empty for nothing."""
    match node:
        case _ if type(node).__name__ not in _NODES:
            return f"{type(node).__name__.lower()!r}"
        case nodes.Filter() if node.name not in FILTERS:
            return f"the filter {node.name!r}"
        case nodes.Test() if node.name not in TESTS:
            return f"the test {node.name!r}"
        case nodes.Name() if node.name in _FORBIDDEN_NAMES:
            return f"{node.name!r}"
        case nodes.Getattr(attr=name) | nodes.NSRef(attr=name) | nodes.Name(name=name) if name.startswith("_"):
            return f"the name {name!r}"
        case nodes.Keyword() if node.key.startswith("_"):
            return f"the name {node.key!r}"
        case nodes.Const(value=int()) if abs(node.value) > _LARGEST_CONSTANT:
            return f"the number {node.value!s:.20}"
        case nodes.Mod(left=nodes.Const(value=str())):
            return "formatting by '%'"
    if isinstance(node, nodes.Call | nodes.Filter | nodes.Test) and (node.dyn_args or node.dyn_kwargs):
        return "arguments by '*'"
    if isinstance(node, nodes.Call):
        if isinstance(node.node, nodes.Getattr):
            return "" if node.node.attr in METHOD_NAMES else f"the method {node.node.attr!r}"
        return "" if isinstance(node.node, nodes.Name) else "a call of what is not a name"
    return ""


class _Metered(NodeTransformer):
    """Puts a paying step (a filter by a name that no template can write) at everything that takes time or memory."""

    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        self.generic_visit(node)
        data = [nodes.Const(each.data) if isinstance(each, nodes.TemplateData) else each for each in node.nodes]
        node.nodes = [_step("(whole)", each) for each in data]
        return node

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = _step("(entries)", node.iter)
        node.body.insert(0, nodes.ExprStmt(_step("(round)", nodes.Const(True))))
        if node.test is not None:
            node.test = nodes.And(_step("(round)", nodes.Const(True)), node.test)
        return node

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return _step("(whole)", node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:
        self.generic_visit(node)
        return _step("(whole)", node) if node.ctx == "load" else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        for each in node.items:
            each.key = _step("(key)", each.key)
        return _step("(whole)", node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        node.nodes = [_step("(whole)", each) for each in node.nodes]
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = _step("(whole)", node.expr)
        for each in node.ops:
            each.expr = _step("(whole)", each.expr)
        return node


def _step(name: str, node: Any) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=getattr(node, "lineno", 1))


def _whole(value: Any) -> Any:
    METER.get().spend(STEP)
    METER.get().weigh(value)
    return value


def _round(value: Any) -> Any:
    METER.get().spend(STEP)
    return value


def _key(value: Any) -> Any:
    if type(value) not in _KEYS:
        raise FailedTemplate("it has a mapping whose keys are not plain")
    return value


def _entries(value: Any) -> list[Any]:
    METER.get().look(value)
    if isinstance(value, list | tuple | dict | str | range | Undefined):
        return list(value)
    raise FailedTemplate(f"it goes through a {type(value).__name__}")


_STEPS = {"(whole)": _whole, "(round)": _round, "(key)": _key, "(entries)": _entries}


class _Generation(Extension):
    """The block `generation`, which marks an assistant's words for training and writes what is in it."""

    tags = {"generation"}  # noqa: RUF012 (as Jinja declares it)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True)).set_lineno(line)


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, in which values have the listed methods alone, and operators pay."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self) -> None:
        # Not optimised: nothing is computed ahead, where it would not be paid for.
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, optimized=False, cache_size=0, extensions=[loopcontrols, _Generation]
        )
        self.filters = {**FILTERS, **_STEPS}
        self.tests = dict(TESTS)
        self.globals = dict(FUNCTIONS)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator to numbers; add texts or lists, repeat a text."""
        meter = METER.get()
        meter.spend(STEP)
        kinds = {type(left), type(right)}
        if operator == "*" and kinds == {str, int}:
            text, times = (left, right) if isinstance(left, str) else (right, left)
            meter.spend(len(text) * max(0, times))
        elif operator == "+" and kinds in ({str}, {list}, {tuple}):
            meter.spend(len(left) + len(right))
        elif not kinds <= _NUMBERS and not isinstance(left, Undefined) and not isinstance(right, Undefined):
            raise FailedTemplate(f"it applies {operator!r} to {type(left).__name__} and {type(right).__name__}")
        result = super().call_binop(context, operator, left, right)
        meter.weigh(result)
        return result

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a listed function, a method of a value, or a macro of the template."""
        METER.get().spend(STEP)
        if type(__obj) is partial:
            return __obj(*args, **{name: each for name, each in kwargs.items() if not name.startswith("_")})
        if isinstance(__obj, LoopContext):
            args = tuple(map(_entries, args))
        elif not isinstance(__obj, Macro | Undefined) and __obj not in FUNCTIONS.values():
            raise FailedTemplate(f"it calls a {type(__obj).__name__}")
        return __context.call(__obj, *args, **kwargs)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Get a listed method or attribute, or an entry."""
        if isinstance(obj, Undefined):
            obj._fail_with_undefined_error()
        if isinstance(obj, Namespace) or (isinstance(obj, LoopContext) and attribute in LOOP):
            absent = self.undefined(obj=obj, name=attribute)
            return absent if attribute.startswith("_") else getattr(obj, attribute, absent)
        if method := METHODS.get(type(obj), {}).get(attribute):
            return partial(method, obj)
        if type(obj) is dict and attribute in obj:
            return obj[attribute]
        return self.undefined(obj=obj, name=attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Get an entry or a part; by a name that is none, a listed method or attribute."""
        kind = type(obj)
        if kind is dict and type(argument) in _KEYS and argument in obj:
            return obj[argument]
        if kind in _SEQUENCES and isinstance(argument, slice):
            part = obj[argument]
            METER.get().look(part)
            return part
        if kind in _SEQUENCES and isinstance(argument, int) and -len(obj) <= argument < len(obj):
            return obj[argument]
        if isinstance(argument, str):
            return self.getattr(obj, argument)
        return self.undefined(obj=obj, name=f"{argument!r:.20}")
