"""The small bugs that can be planted in a module: every place in a function where one operator, constant or statement
can be replaced by a plausible mistake."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_LOGGERS = ("_log", "logging", "warnings", "print")
_LOG_LEVELS = tuple(f"log.{level}" for level in ("debug", "info", "warning", "error", "exception"))
"""A module's logger; a partition's log has other methods."""
_NOT_MUTATED = ("__repr__", "__str__")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug. `number` is its place in the order of `mutants(path)`, which `mutated_tree` relies on."""

    path: Path
    number: int
    function: str
    """Qualified name of the outermost function that contains it."""
    first_line: int
    """First line of that function, decorators included, as in `co_firstlineno`."""
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function}: {self.before}  ->  {self.after}"


def mutants(path: Path) -> list[Mutant]:
    """Return every mutant of the module, in the order of its source."""
    planter = _Planter(None)
    planter.visit(ast.parse(path.read_text(encoding="utf-8")))
    return [Mutant(path, number, *site) for number, site in enumerate(planter.sites)]


def mutated_tree(mutant: Mutant) -> ast.Module:
    """Return the module's syntax tree with the bug in it."""
    tree = ast.parse(mutant.path.read_text(encoding="utf-8"))
    changed = ast.fix_missing_locations(_Planter(mutant.number).visit(tree))
    assert isinstance(changed, ast.Module)
    return changed


def mutated_code(mutant: Mutant, file_name: str) -> CodeType | None:
    """Return the code of the mutant's function, or None if the compiler no longer finds that function."""
    return find_code(compile(mutated_tree(mutant), file_name, "exec"), mutant.function, mutant.first_line)


def find_code(code: CodeType, function: str, first_line: int) -> CodeType | None:
    """Return the code object of a function of a compiled module, or None."""
    if code.co_qualname == function and code.co_firstlineno == first_line:
        return code
    nested = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return next((found for constant in nested if (found := find_code(constant, function, first_line))), None)


class _Planter(ast.NodeTransformer):
    """Collect the sites of all mutants, or plant the one whose number is given."""

    def __init__(self, number: int | None) -> None:
        self.sites: list[tuple[str, int, int, str, str]] = []
        self._number = number
        self._scope: list[str] = []
        self._function: tuple[str, int] | None = None

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._scope.append(node.name)
        self.generic_visit(node)
        self._scope.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        outermost = self._function is None
        if outermost:
            if node.name in _NOT_MUTATED:
                return node
            first_line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            self._function = (".".join([*self._scope, node.name]), first_line)
        # Defaults, decorators and annotations belong to the definition, not to the function's code.
        for place, statement in enumerate(node.body):
            replaced = self.visit(statement)
            assert isinstance(replaced, ast.stmt)
            node.body[place] = replaced
        if outermost:
            self._function = None
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            replaced = self.visit(node.value)
            assert isinstance(replaced, ast.expr)
            node.value = replaced
        return node

    def visit(self, node: ast.AST) -> ast.AST:
        if _never_mutated(node):
            return node
        if self._function is None:
            return self._inside(node)
        planted = node
        for replacement in _replacements(node):
            if len(self.sites) == self._number:
                planted = ast.copy_location(replacement, node)
            line = getattr(node, "lineno", self._function[1])
            self.sites.append((*self._function, line, _short(node), _short(replacement)))
        if planted is not node:
            return planted
        return self._inside(node)

    def _inside(self, node: ast.AST) -> ast.AST:
        visited: ast.AST = super().visit(node)
        return visited


def _never_mutated(node: ast.AST) -> bool:
    """Whether no test is expected to notice: log lines, messages, asserts and docstrings."""
    match node:
        case ast.Assert() | ast.JoinedStr() | ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="assert_never"))):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=function)):
            called = ast.unparse(function)
            return called.split(".")[0].split("(")[0] in _LOGGERS or "_log." in called or called in _LOG_LEVELS
    return False


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=comparators) if type(operator) in _COMPARISONS:
            yield ast.Compare(left=left, ops=[_COMPARISONS[type(operator)]()], comparators=comparators)
        case ast.BoolOp(op=ast.And(), values=values):
            yield ast.BoolOp(op=ast.Or(), values=values)
            yield from values
        case ast.BoolOp(op=ast.Or(), values=values):
            yield ast.BoolOp(op=ast.And(), values=values)
            yield from values
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            yield ast.BinOp(left=left, op=_OPERATORS[type(operator)](), right=right)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(value=not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value=value + 1)
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=[_, _], keywords=[]):
            yield ast.Call(
                func=ast.Name(id="min" if name == "max" else "max", ctx=ast.Load()), args=node.args, keywords=[]
            )
        case ast.IfExp(body=body, orelse=other):
            yield body
            yield other
        case ast.If(test=ast.Name() | ast.Attribute() | ast.Call() as test):
            yield ast.If(test=ast.UnaryOp(op=ast.Not(), operand=test), body=node.body, orelse=node.orelse)
        case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())) | ast.Raise() | ast.AugAssign() | ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()


def _short(node: ast.AST) -> str:
    # An If with its body would not fit a line; its condition says enough.
    text = ast.unparse(node.test) if isinstance(node, ast.If) else ast.unparse(node)
    line = " ".join(text.split())
    return line if len(line) <= 100 else f"{line[:97]}..."
