"""The package in numbers: a JSON line per room (a package or a module directly below mletools), and one for all.

python benchmarks/house.py [CHECKOUT]   another checkout: the same numbers of an older state

    lines         of code, docstrings, comments, blank
    untyped       annotations of functions, fields and variables that say dict[str, Any] or Mapping[str, Any]: records without a type
    signatures    functions with such an annotation
    any           annotations that are Any and nothing else
    record_types  modules that import the type of a record (a TypedDict or Struct of mletools.records)
    long          functions of more than 60 lines
    parameters    functions with 8 parameters or more
    circles       groups of modules that import each other, in a function or for types too
    imports       the other rooms that a room imports
    contracts     of import-linter, by type
"""

import ast
import configparser
import json
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

PACKAGE = "mletools"
UNTYPED = {"dict[str, Any]", "Mapping[str, Any]", "MutableMapping[str, Any]"}
RECORD_BASES = {"TypedDict", "Struct"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    """A module of the package: its name, its source and what it imports."""

    def __init__(self, path: Path, root: Path) -> None:
        parts = path.relative_to(root).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.room = self.name.split(".")[1] if "." in self.name else PACKAGE
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.nodes = list(ast.walk(self.tree))

    def imported(self) -> Iterator[tuple[str, str]]:
        """(module, name) of every import from the package; the name is empty for `import module`."""
        base = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == PACKAGE)
            elif isinstance(node, ast.ImportFrom):
                above = base[: len(base) - node.level + 1] if node.level else []
                source = ".".join([*above, *filter(None, [node.module])])
                if source.split(".")[0] == PACKAGE:
                    yield from ((source, alias.name) for alias in node.names)

    def lines(self) -> Counter[str]:
        """Lines by kind; a line with code and a comment is code."""
        total = self.text.count("\n")
        docs: set[int] = set()
        for node in self.nodes:
            if (
                isinstance(node, ast.Module | ast.ClassDef | Function)
                and ast.get_docstring(node, clean=False) is not None
            ):
                first = node.body[0]
                docs |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        code: set[int] = set()
        comments: set[int] = set()
        silent = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
        for token in tokenize.generate_tokens(iter(self.text.splitlines(keepends=True)).__next__):
            span = set(range(token.start[0], token.end[0] + 1))
            if token.type == tokenize.COMMENT:
                comments |= span
            elif token.type not in silent:
                code |= span
        code -= docs
        comments -= code
        found = {"code": len(code), "docstrings": len(docs), "comments": len(comments)}
        return Counter({"lines": total, **found, "blank": total - sum(found.values())})

    def annotations(self) -> Counter[str]:
        """What the annotations and the sizes of functions are counted as."""
        counts: Counter[str] = Counter()
        for node in self.nodes:
            if isinstance(node, ast.AnnAssign):
                counts += _counted([node.annotation])
            if isinstance(node, Function):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                extra = filter(None, (node.args.vararg, node.args.kwarg))
                found = _counted([each.annotation for each in [*given, *extra]] + [node.returns])
                counts += found
                counts["functions"] += 1
                counts["signatures"] += bool(found["untyped"])
                counts["long"] += (node.end_lineno or node.lineno) - node.lineno >= 60
                counts["parameters"] += len([each for each in given if each.arg not in ("self", "cls")]) >= 8
        return counts


def _counted(annotations: list[ast.expr | None]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for annotation in filter(None, annotations):
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        counts["any"] += ast.unparse(annotation) == "Any"
        counts["untyped"] += sum(ast.unparse(node) in UNTYPED for node in ast.walk(annotation))
    return counts


def record_types(modules: dict[str, Module]) -> set[str]:
    """The names of the classes in mletools.records that declare a record, or a part of one."""
    rooms = [module for module in modules.values() if module.room == "records"]
    classes = [node for module in rooms for node in module.nodes if isinstance(node, ast.ClassDef)]
    bases = {node.name: {_last(base) for base in node.bases} for node in classes}
    found: set[str] = set()
    while more := {name for name, of in bases.items() if name not in found and of & (RECORD_BASES | found)}:
        found |= more
    return found


def _last(base: ast.expr) -> str:
    return ast.unparse(base).partition("[")[0].rpartition(".")[2]


def circles(modules: dict[str, Module]) -> list[list[str]]:
    """The modules that import each other, each group sorted."""
    names = list(modules)
    links = np.zeros((len(names), len(names)), dtype=bool)
    for name, module in modules.items():
        for source, what in module.imported():
            target = f"{source}.{what}" if f"{source}.{what}" in modules else source
            if target in modules and target != name:
                links[names.index(name), names.index(target)] = True
    _, group = connected_components(links, directed=True, connection="strong")
    sizes = Counter(group.tolist())
    return [[name for name, at in zip(names, group, strict=True) if at == one] for one in sizes if sizes[one] > 1]


def contracts(root: Path) -> dict[str, int]:
    config = configparser.ConfigParser()
    config.read(root / "setup.cfg")
    sections = [section for section in config.sections() if section.startswith("importlinter:contract")]
    return dict(Counter(config[section]["type"] for section in sections))


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent
    found = [Module(path, root) for path in sorted((root / PACKAGE).rglob("*.py"))]
    modules = {module.name: module for module in found}
    types = record_types(modules)
    rooms: dict[str, Counter[str]] = {}
    imports: dict[str, set[str]] = {}
    for module in found:
        sources = list(module.imported())
        targets = [modules.get(f"{source}.{name}") or modules.get(source) for source, name in sources]
        imports.setdefault(module.room, set()).update(target.room for target in targets if target)
        uses: bool = module.room != "records" and any(name in types for source, name in sources if ".records" in source)
        counts = module.lines() + module.annotations() + Counter({"modules": 1, "record_types": int(uses)})
        rooms.setdefault(module.room, Counter()).update(counts)
    groups = circles(modules)
    columns = (
        "modules",
        "lines",
        "code",
        "docstrings",
        "comments",
        "blank",
        "functions",
        "untyped",
        "signatures",
        "any",
    )
    columns += ("record_types", "long", "parameters")
    for room, counts in sorted(rooms.items(), key=lambda item: -item[1]["lines"]):
        inside = sum(modules[group[0]].room == room for group in groups)
        more: dict[str, Any] = {"circles": inside, "imports": sorted(imports[room] - {room})}
        print(json.dumps({"room": room, **{name: counts[name] for name in columns}, **more}))
    total = sum(rooms.values(), Counter())
    more = {"rooms": len(rooms), "contracts": contracts(root), "circles": groups}
    print(json.dumps({"room": "all", **{name: total[name] for name in columns}, **more}))


if __name__ == "__main__":
    main()
