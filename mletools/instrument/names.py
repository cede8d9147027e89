"""What a call in a program is called: its full names, and what its arguments speak of.

Covered: imports under other names, anywhere in the program; `import *`; variables and attributes (`self.model`) that were
given what a call gave; classes of the program by what they inherit from; calls in a row (`Ridge().fit(X).predict(T)`).
Not covered: variables handed through functions, names that mean different things at different places.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .operations import HELD_OUT_WORDS, PREPARATION, TEST_WORDS, TRAINING_WORDS, matches

# Methods that give back the object itself.
_SAME = {"fit", "to", "cuda", "cpu", "float", "double", "eval", "train", "requires_grad_", "compile"}
_HOMES = (("tensorflow.keras", "keras"), ("tf_keras", "keras"), ("pytorch_lightning", "lightning.pytorch"))
_DEEPEST, _MOST_NODES = 20, 500  # a chain of calls, an argument: what lies beyond is not looked at
_MOST_CLASSES = 100  # among which a class's bases are looked for
_PIPELINES = {"sklearn.pipeline.Pipeline", "sklearn.pipeline.make_pipeline"}
_SPLITS = {"sklearn.model_selection.train_test_split", "sklearn.model_selection._split.train_test_split"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_KNOWN_WORDS = TRAINING_WORDS | HELD_OUT_WORDS | TEST_WORDS


@dataclass(frozen=True)
class Names:
    """What the names of a program stand for.

    imports: local name to full name; stars: modules of which everything was imported; made: variable to the full names
    of calls that it was given; bases: class of the program to the full names of what it inherits from; split: variables that hold parts of a split.
    """

    imports: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    made: dict[str, set[str]] = field(default_factory=dict)
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
            names._given(node)
        return names

    def _inherited(self, name: str, own: dict[str, list[str]]) -> set[str]:
        """The full names of all that a class of the program inherits from and that is not of the program itself."""
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
        """The full names of a name with dots, imports resolved; empty where it was not imported."""
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

    def _given(self, node: ast.AST) -> None:
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
                pairs = [(dotted(one), given) for one, given in zip(target.elts, value.elts, strict=False)]
            for name, given in pairs:
                if name is not None and (found := self._result(given, 0)):
                    self.made.setdefault(name, set()).update(found)

    def of_call(self, call: ast.Call) -> set[str]:
        """All that a call can be called in the table of operations."""
        return self._by_last_step(call, self._names(call.func, 0, True))

    def classes(self, node: ast.expr) -> set[str]:
        """The full names of the calls that gave what `node` stands for; empty: not known."""
        return self._result(node, 0) | self.made.get(dotted(node) or "", set())

    def _result(self, node: ast.expr, depth: int) -> set[str]:
        """The full names of the call that gives `node`, of a chain of methods that give the object itself its first."""
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
            if depth > _DEEPEST or self._is_module(node.func.value):
                break
            if not isinstance(node.func.value, ast.Call):
                return self.made.get(dotted(node.func.value) or "", set())
            node, depth = node.func.value, depth + 1
        if not isinstance(node, ast.Call):
            return set()
        return self._by_last_step(node, self._names(node.func, depth + 1, False))

    def _by_last_step(self, call: ast.Call, called: set[str]) -> set[str]:
        """The names of a call; of a pipeline whose last step prepares data, that of something that prepares data."""
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
        """The full names of what is called; `variables`: also what is told by a variable or by a method's name alone."""
        if depth > _DEEPEST:
            return set()
        full_names: set[str] = set()
        path = dotted(func)
        if path is not None:
            full_names |= self.bases[path] if path in self.bases else self._full(path)
            if variables:
                full_names |= {f"{name}()()" for name in self.made.get(path, ())}
                if path.partition(".")[0] not in self.imports:
                    full_names.add("{" + path.rpartition(".")[2] + "}")
        if isinstance(func, ast.Attribute):
            given = self.made.get(dotted(func.value) or "", set()) | self._result(func.value, depth + 1)
            full_names |= {f"{name}().{func.attr}" for name in given}
            if variables:
                full_names.add(f"().{func.attr}")
                full_names.add("{" + (dotted(func.value) or "").rpartition(".")[2] + "}." + func.attr)
        return full_names


def _at_home(full: str) -> str:
    """A full name with libraries that live inside others under their own."""
    for inside, home in _HOMES:
        if full == inside or full.startswith(f"{inside}."):
            return home + full[len(inside) :]
    return full


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` as text; None for anything but names with dots between them."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def words(*nodes: ast.AST) -> set[str]:
    """The words of the names and short texts in expressions, in small letters: X_test and dtest say "test"."""
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
    """The names that an expression begins with: `test[train.columns]` with test, `DMatrix(test)` with DMatrix and test."""
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
    """The variable whose method is called; nothing where another call gave the object."""
    value: ast.expr = node
    while isinstance(value, (ast.Attribute, ast.Subscript)):
        value = value.value
    return [value.id] if isinstance(value, ast.Name) else []
