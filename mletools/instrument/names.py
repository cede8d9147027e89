"""The full names of a call in a program, and the words of its arguments.

Covered: import aliases anywhere in the program; `import *`; variables and attributes (`self.model`) assigned the result
of a call; classes of the program by their bases; chained calls (`Ridge().fit(X).predict(T)`).
Not covered: variables passed through functions, names with different meanings at different places.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .operations import HELD_OUT_WORDS, PREPARATION, TEST_WORDS, TRAINING_WORDS, matches

# Methods that return the object itself.
_SAME = {"fit", "to", "cuda", "cpu", "float", "double", "eval", "train", "requires_grad_", "compile"}
_HOMES = (("tensorflow.keras", "keras"), ("tf_keras", "keras"), ("pytorch_lightning", "lightning.pytorch"))
_DEEPEST, _MOST_NODES = 20, 500  # bounds for a chain of calls, and for an argument
_MOST_CLASSES = 100  # searched for the bases of a class
_PIPELINES = {"sklearn.pipeline.Pipeline", "sklearn.pipeline.make_pipeline"}
_SPLITS = {"sklearn.model_selection.train_test_split", "sklearn.model_selection._split.train_test_split"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_KNOWN_WORDS = TRAINING_WORDS | HELD_OUT_WORDS | TEST_WORDS


@dataclass(frozen=True)
class Names:
    """The meaning of a program's names.

    imports: local name to full name; stars: modules imported with *; results: variable to the full names of calls whose
    result it holds; bases: class of the program to the full names of its bases; split: variables with parts of a split.
    """

    imports: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    results: dict[str, set[str]] = field(default_factory=dict)
    bases: dict[str, set[str]] = field(default_factory=dict)
    split: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, tree: ast.AST) -> "Names":
        """The names of a whole program."""
        names = cls()
        nodes = list(ast.walk(tree))
        own: dict[str, list[str]] = {}
        for node in nodes:
            names._imported(node)
            if isinstance(node, ast.ClassDef):
                own[node.name] = [base for base in map(dotted, node.bases) if base]
        names.bases.update({name: names._inherited(name, own) for name in own})
        for node in nodes:
            names._assigned(node)
        return names

    def _inherited(self, name: str, own: dict[str, list[str]]) -> set[str]:
        """The full names of the bases of a class, direct or not, that are not the program's own."""
        origins, seen, todo = set(), {name}, [name]
        while todo and len(seen) < _MOST_CLASSES:
            for base in own[todo.pop()]:
                if base not in own:
                    origins |= self._full(base)
                elif base not in seen:
                    seen.add(base)
                    todo.append(base)
        return origins

    def _full(self, path: str) -> set[str]:
        """The full names of a dotted name, imports resolved; empty where it is not imported."""
        first, dot, rest = path.partition(".")
        if first in self.imports:
            return {_at_home(self.imports[first] + dot + rest)}
        return set() if dot else {f"{star}.{path}" for star in self.stars}

    def _imported(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                full = alias.name if alias.asname else alias.name.partition(".")[0]
                self.imports[alias.asname or full] = _at_home(full)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if alias.name == "*":
                    self.stars.append(_at_home(node.module))
                else:
                    self.imports[alias.asname or alias.name] = _at_home(f"{node.module}.{alias.name}")

    def _assigned(self, node: ast.AST) -> None:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
            targets = [node.target]
        for target in targets:
            if isinstance(node.value, (ast.Name, ast.Attribute)) and isinstance(target, ast.Name):  # type: ignore[attr-defined]
                full = self._full(dotted(node.value) or "")  # type: ignore[attr-defined]
                if len(full) == 1 and target.id not in self.imports:
                    self.imports[target.id] = next(iter(full))
            if isinstance(target, ast.Tuple) and self._result(node.value, 0) & _SPLITS:  # type: ignore[attr-defined]
                self.split.update(each.id for each in target.elts if isinstance(each, ast.Name))
            variable, value = dotted(target), node.value  # type: ignore[attr-defined]
            pairs = [(variable, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = [(dotted(one), each) for one, each in zip(target.elts, value.elts, strict=False)]
            for name, value in pairs:
                if name is not None and (calls := self._result(value, 0)):
                    self.results.setdefault(name, set()).update(calls)

    def of_call(self, call: ast.Call) -> set[str]:
        """All names of a call in the notation of the table of operations."""
        return self._by_last_step(call, self._names(call.func, 0, True))

    def classes(self, node: ast.expr) -> set[str]:
        """The full names of the calls whose result `node` is; empty: unknown."""
        return self._result(node, 0) | self.results.get(dotted(node) or "", set())

    def _result(self, node: ast.expr, depth: int) -> set[str]:
        """The full names of the call whose result `node` is, skipping methods that return the object itself."""
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
            if depth > _DEEPEST or self._is_module(node.func.value):
                break
            if not isinstance(node.func.value, ast.Call):
                return self.results.get(dotted(node.func.value) or "", set())
            node, depth = node.func.value, depth + 1
        if not isinstance(node, ast.Call):
            return set()
        return self._by_last_step(node, self._names(node.func, depth + 1, False))

    def _by_last_step(self, call: ast.Call, called: set[str]) -> set[str]:
        """The names of a call; for a pipeline whose last step is preprocessing, the name of a preprocessing class."""
        steps = call.args or [keyword.value for keyword in call.keywords if keyword.arg == "steps"]
        if not called & _PIPELINES or not steps:
            return called
        step = steps[-1]
        if isinstance(step, ast.List) and step.elts:
            step = step.elts[-1]
        if isinstance(step, ast.Tuple) and step.elts:
            step = step.elts[-1]
        return {"sklearn.preprocessing.Pipeline"} if matches(self.classes(step), PREPARATION) else called

    def _is_module(self, node: ast.expr) -> bool:
        return (dotted(node) or "").partition(".")[0] in self.imports

    def _names(self, func: ast.expr, depth: int, variables: bool) -> set[str]:
        """The full names of the function called; `variables`: also its names by variable or by method only."""
        if depth > _DEEPEST:
            return set()
        full_names: set[str] = set()
        path = dotted(func)
        if path is not None:
            full_names |= self.bases[path] if path in self.bases else self._full(path)
            if variables:
                full_names |= {f"{name}()()" for name in self.results.get(path, ())}
                if path.partition(".")[0] not in self.imports:
                    full_names.add("{" + path.rpartition(".")[2] + "}")
        if isinstance(func, ast.Attribute):
            calls = self.results.get(dotted(func.value) or "", set()) | self._result(func.value, depth + 1)
            full_names |= {f"{name}().{func.attr}" for name in calls}
            if variables:
                full_names.add(f"().{func.attr}")
                full_names.add("{" + (dotted(func.value) or "").rpartition(".")[2] + "}." + func.attr)
        return full_names


def _at_home(full: str) -> str:
    """A full name with the canonical name of its library."""
    for inside, home in _HOMES:
        if full == inside or full.startswith(f"{inside}."):
            return home + full[len(inside) :]
    return full


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` as text; None for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def words(*nodes: ast.AST) -> set[str]:
    """The lower-case words of the names and short texts in expressions: X_test and dtest contain "test"."""
    return {word for name in _spoken(nodes) for word in words_of(name)}


def words_of(name: str) -> set[str]:
    """The words of one name."""
    words = set()
    for part in _WORD.findall(name):
        word = part.lower()
        words.add(word[1:] if word[0] in "xyd" and word[1:] in _KNOWN_WORDS else word)
    return words


def _spoken(nodes: tuple[ast.AST, ...]) -> Iterator[str]:
    queue = list(nodes)
    at = 0
    while at < len(queue) and at < _MOST_NODES:
        node = queue[at]
        at += 1
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value[:40]
        queue.extend(ast.iter_child_nodes(node))


def head(node: ast.expr) -> list[str]:
    """The first names of an expression: test of `test[train.columns]`, DMatrix and test of `DMatrix(test)`."""
    parts: list[str] = []
    for _ in range(_MOST_NODES):
        if isinstance(node, ast.Name):
            return [*parts, node.id]
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
            node = node.value
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                parts += head_of_attribute(node.func)
            inside = [argument for argument in node.args if not isinstance(argument, ast.Constant)]
            if not inside:
                return parts
            node = inside[0]
        else:
            return parts
    return parts


def head_of_attribute(node: ast.Attribute) -> list[str]:
    """The variable whose method is called; empty where the object is a call's result."""
    value: ast.expr = node
    while isinstance(value, (ast.Attribute, ast.Subscript)):
        value = value.value
    return [value.id] if isinstance(value, ast.Name) else []
