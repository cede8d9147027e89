"""Values that no command of ours writes, and every place of a record to put them: for tests of what reads records.

A value is JSON text, since some (1e400, NaN, a number of 5000 digits) are no Python value that a writer would accept.
"""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mletools.base.errors import ToolError
from mletools.base.jsonl import dumps, loads, read_lines
from mletools.records import schema

NUMBERS = {
    "zero": "0", "minus one": "-1", "half": "0.5", "minus zero": "-0.0", "seven": "7", "a billion": "1000000000",
    "2**31": str(2**31), "2**53 + 1": str(2**53 + 1), "2**63": str(2**63), "-2**63 - 1": str(-(2**63) - 1), "2**64": str(2**64),
    "1e308": "1e308", "-1e308": "-1e308", "5e-324": "5e-324", "1e400": "1e400", "-1e400": "-1e400", "1e-400": "1e-400",
    "10**400": "1" + "0" * 400, "-10**400": "-1" + "0" * 400, "10**5000": "1" + "0" * 5000, "0.1 of 5000 digits": "0." + "1" * 5000,
    "NaN": "NaN", "Infinity": "Infinity", "-Infinity": "-Infinity", "nan": "nan", "+1": "+1", "0x10": "0x10", "1_0": "1_0",
}  # fmt: skip
TEXTS = {
    name: json.dumps(value)
    for name, value in {
        "no text": "", "a blank": " ", "a word": "hostile", "a newline": "a\nb", "a carriage return": "a\rb", "NUL": "a\0b",
        "line separator": "a\u2028b", "half a surrogate pair": "\ud800", "terminal escapes": "\x1b[2J\x1b]0;owned\x07",
        "right to left": "a\u202etxt.exe", "markup": "<script>alert(1)</script>&amp;<img src=x onerror=alert(1)>",
        "a formula": "=1+1", "100 KB": "a" * 100_000, "text NaN": "NaN", "text inf": "inf", "text 1e400": "1e400", "a format": "%s{0}",
        "brackets": "[" * 5000, "blank lines": "\n" * 5000,
    }.items()
}  # fmt: skip
PATHS = {
    name: json.dumps(value)
    for name, value in {
        "here": ".", "above": "..", "far above": "../" * 30 + "etc/passwd", "above within": "a/../../b", "root": "/",
        "absolute": "/etc/passwd", "doubled slash": "//etc/passwd", "home": "~/.ssh/id_rsa", "endless file": "/dev/zero", "memory": "/proc/self/mem",
        "environment": "/proc/self/environ", "standard input": "/dev/stdin", "no such file": "no/such/file", "long name": "a" * 300, "long path": "a/" * 3000,
        "newline path": "a\n../b", "NUL path": "/etc/passwd\0.csv", "backslashes": "..\\..\\etc", "a URL": "file:///etc/passwd",
    }.items()
}  # fmt: skip
SHAPES = {
    "null": "null", "true": "true", "false": "false", "empty list": "[]", "empty object": "{}", "list of null": "[null]",
    "list of lists": "[[[]]]", "list of numbers": "[0, -1, 1e308]", "list of texts": '["a", "a"]', "object of null": '{"a": null}', "empty name": '{"": ""}',
    "one name twice": '{"kind": 1, "kind": 2}', "50 deep": "[" * 50 + "]" * 50, "400 lists deep": "[" * 400 + "]" * 400,
    "400 objects deep": '{"a":' * 400 + "1" + "}" * 400, "900 deep": "[" * 900 + "]" * 900, "100,000 deep": "[" * 100_000 + "]" * 100_000,
    "100,000 items": "[" + "0," * 100_000 + "0]",
}  # fmt: skip
VALUES = {**NUMBERS, **TEXTS, **PATHS, **SHAPES}

_PLACE = "\ufdd0place\ufdd0"  # no character of any text
Path = tuple[str | int, ...]


def places(value: Any, path: Path = (), items: int = 2) -> Iterator[Path]:
    """The path of every field of `value` at any depth, those that hold others included; of a list the first `items`."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value[:items]) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key), items)


def at(value: Any, path: Path) -> Any:
    """What stands at `path`."""
    for key in path:
        value = value[key]
    return value


def with_value(record: Any, path: Path, text: str) -> str:
    """The record as one line of JSON text, with the JSON text `text` in the place `path`, which need not exist yet."""

    def changed(value: Any, path: Path) -> Any:
        if not path:
            return _PLACE
        copy = list(value) if isinstance(value, list) else dict(value)
        there = isinstance(copy, list) or path[0] in copy
        copy[path[0]] = changed(copy[path[0]] if there else {}, path[1:])  # type: ignore[index]
        return copy

    return json.dumps(changed(record, path)).replace(json.dumps(_PLACE), text)


def without(record: Any, path: Path) -> str:
    """The record as one line of JSON text, without what stands at `path`."""
    copy = json.loads(json.dumps(record))
    del at(copy, path[:-1])[path[-1]]
    return json.dumps(copy)


def mutations(record: Any, values: dict[str, str] = VALUES, items: int = 2) -> Iterator[tuple[Path, str, str]]:
    """(path, name of the value, line) for every place of `record` and every value there, and for every place left out."""
    for path in places(record, items=items):
        yield path, "left out", without(record, path)
        for name, text in values.items():
            yield path, name, with_value(record, path, text)


def outcome(line: str, kinds: Sequence[str], work: Callable[[dict[str, Any]], Any]) -> tuple[str, Any]:
    """What a command makes of one line, in this process: ("refused", the reason) or ("done", what `work` returned).

    As run.Run.each goes about it. What `work` raises that is no ToolError would be a user's "internal error", and is raised.
    """
    (read,) = read_lines(io.BytesIO(line.encode("utf-8", "surrogatepass") + b"\n"), "in.jsonl")
    if read.problem is not None:
        return "refused", read.problem
    try:
        schema.check(read.record, *kinds)
        result = work(read.record)
    except ToolError as error:
        return "refused", str(error)
    return "done", loads(dumps(result)) if isinstance(result, dict) else result
