"""Remove the reports from a program's tree, and compare the trees of two programs.

Covered: only what `insert` adds. Not covered: comments and layout, which are not in a tree.
"""

import ast
import re
from collections.abc import Collection

_HELPER = re.compile(r"def (_report_*)\(what, value=None, _seen=set\(\)")


def without_reports(tree: ast.Module, markers: Collection[str]) -> ast.Module | None:
    """`tree`, changed in place, without helper and reports; None where there is no helper."""
    for at, statement in enumerate(tree.body):
        name = _helper(statement)
        if name is not None:
            del tree.body[at]
            _Remover(name, markers).visit(tree)
            return tree
    return None


def same_program(one: ast.AST, other: ast.AST) -> bool:
    """Whether two trees are equal except for positions."""
    return ast.dump(one) == ast.dump(other)


def _helper(statement: ast.stmt) -> str | None:
    """The name of the report function, where the statement defines it."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "exec" and call.args):
        return None
    source = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
    match = _HELPER.match(source) if isinstance(source, str) else None
    return match.group(1) if match else None


class _Remover(ast.NodeTransformer):
    def __init__(self, name: str, markers: Collection[str]) -> None:
        self.name, self.markers = name, markers

    def _is_report(self, node: ast.AST, arguments: int) -> bool:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == self.name):
            return False
        what = node.args[0] if len(node.args) == arguments and not node.keywords else None
        return isinstance(what, ast.Constant) and what.value in self.markers

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if self._is_report(node.value, 1) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return self.visit(node.args[1]) if self._is_report(node, 2) else self.generic_visit(node)
