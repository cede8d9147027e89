"""The functions of a program that a just-in-time compiler reads as bytecode: it would refuse hooks in them.

Covered: TorchDynamo (torch.compile, torch.export, `compile()` of a module, torch_compile=True), which reads what the
methods of the program's classes call, too, and Numba. Compilers that read the source (AutoGraph, TorchScript) do not see
hooks, and those that trace values (JAX) run them. Not covered: functions that reach a compiler through a container.
"""

import ast
from collections.abc import Iterator

from . import operations
from .names import Names, dotted

_DYNAMO = "torch.compile torch.compiler.compile torch.export.export torch._dynamo.optimize torch._dynamo.export"
_NUMBA = (
    "numba.jit numba.njit numba.generated_jit numba.vectorize numba.guvectorize numba.stencil numba.cfunc numba.cuda.jit "
    "numba.jitclass numba.experimental.jitclass numba.extending.overload numba.extending.register_jitable"
)
_FLAGS = ("torch_compile", "dynamo_backend")  # of transformers and accelerate
_Functions = dict[str, list[ast.AST]]


def compiled(tree: ast.Module, names: Names) -> set[ast.AST]:
    """All nodes of such functions."""
    functions, methods = _defined(tree)
    todo = list(_given(tree, names, functions))
    found: set[ast.AST] = set()
    while todo:
        for node in ast.walk(todo.pop()):
            if node not in found:
                found.add(node)
                todo += _meant(node, functions, methods)
    return found


def _defined(tree: ast.Module) -> tuple[_Functions, _Functions]:
    """(the program's functions and classes by name, its methods by name)."""
    functions: _Functions = {}
    methods: _Functions = {}
    in_class = {each for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for each in node.body}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            (methods if node in in_class else functions).setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            for name in filter(None, map(dotted, node.targets)):
                functions.setdefault(name, []).append(node.value)
    return functions, methods


def _meant(node: ast.AST, functions: _Functions, methods: _Functions) -> list[ast.AST]:
    """What a name or an attribute may mean of the program's functions."""
    if isinstance(node, ast.Attribute):
        return methods.get(node.attr, [])
    return functions.get(node.id, []) if isinstance(node, ast.Name) else []


def _given(tree: ast.Module, names: Names, functions: _Functions) -> Iterator[ast.AST]:
    """The program's functions and classes that a compiler is given."""
    libraries = {each.partition(".")[0] for each in names.imports.values()}
    by_method = "torch" in libraries and "keras" not in libraries
    dynamo = False
    for node in ast.walk(tree):
        for decorator in getattr(node, "decorator_list", ()):
            call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
            if operations.matches(names.of_call(call), f"{_DYNAMO} {_NUMBA}"):
                yield node
        if not isinstance(node, ast.Call):
            continue
        called = names.of_call(node)
        by_dynamo = operations.matches(called, _DYNAMO) or (by_method and _is_method(node.func, names))
        dynamo = dynamo or by_dynamo or any(each.arg in _FLAGS and not _is_off(each.value) for each in node.keywords)
        if by_dynamo or operations.matches(called, _NUMBA):
            for each in (inner for value in node.args for inner in ast.walk(value)):
                yield from [each] if isinstance(each, ast.Lambda) else _meant(each, functions, {})
    if dynamo:
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.bases)


def _is_method(func: ast.expr, names: Names) -> bool:
    """Whether `compile` of an object is called, not that of a module such as re."""
    if not isinstance(func, ast.Attribute) or func.attr != "compile":
        return False
    return (dotted(func.value) or "").partition(".")[0] not in names.imports


def _is_off(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value
