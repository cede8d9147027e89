"""Writes schemas/*.json and the tables of docs/fields.md from the types of mletools/records; with --check says which are
out of step.

    python docs/make_schemas.py [--check]

A type's docstring and the texts below its fields become descriptions.
"""

import ast
import inspect
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec

from mletools.records import common, report, rollout, schema, task, training

FOLDER = Path(__file__).parents[1] / "schemas"
TABLES = Path(__file__).parent / "fields.md"
TABLES_BEGIN = """# Fields of the records

Written by `make docs` from the types in `mletools/records`, as the schemas are. A field marked with ? may be absent. What the
fields are for: [records.md](records.md).
"""
MODULES = (common, task, rollout, training, report)
ALTERNATIVES = {"MetricSpec": schema.METRICS, "RowCondition": schema.CONDITIONS}
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def described() -> dict[str, dict[str, str]]:
    """{type: {field: the text below it}}."""
    found: dict[str, dict[str, str]] = {}
    for module in MODULES:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                pairs = zip(node.body, node.body[1:], strict=False)
                inherited = [found.get(ast.unparse(base), {}) for base in node.bases]
                found[node.name] = {field: text for fields in inherited for field, text in fields.items()} | {
                    field.target.id: " ".join(textwrap.dedent(text.value.value).split())
                    for field, text in pairs
                    if isinstance(field, ast.AnnAssign)
                    and isinstance(field.target, ast.Name)
                    and isinstance(text, ast.Expr)
                    and isinstance(text.value, ast.Constant)
                    and isinstance(text.value.value, str)
                }
    return found


def document(kind: str) -> dict[str, Any]:
    """The JSON Schema of a kind of record."""
    made = msgspec.json.schema(schema.KINDS[kind])
    texts = described()
    for name, part in made["$defs"].items():
        if "properties" in part:
            fields = {field: part["properties"][field] for field in _order(name)}
            part["properties"] = {
                field: {**inside, "description": texts[name][field]} if field in texts.get(name, {}) else inside
                for field, inside in fields.items()
            }
            part["required"] = [field for field in fields if field in part["required"]]
    for name, alternatives in ALTERNATIVES.items():
        if name in made["$defs"]:
            made["$defs"][name]["oneOf"] = [{"required": list(names)} for names in alternatives]
    return {"$schema": DRAFT, "$id": f"{kind}.json", **made}


def _order(name: str) -> list[str]:
    """The fields of a type as they are declared; msgspec sorts them."""
    kind = next(vars(module)[name] for module in MODULES if name in vars(module))
    return list(kind.__annotations__)


def tables() -> str:
    """The fields of every kind of record and of the objects in them, a table each."""
    parts: dict[str, dict[str, Any]] = {}
    for kind in schema.KINDS:
        parts |= {name: part for name, part in document(kind)["$defs"].items() if "properties" in part}
    whole = {name for name in parts if "kind" in parts[name]["properties"]}
    lines = [TABLES_BEGIN]
    for name in sorted(parts, key=lambda name: (name not in whole, name)):
        part = parts[name]
        lines += [f"\n## {name}\n"]
        lines += [f"{' '.join(part['description'].split())}\n"] if part.get("description") else []
        lines += ["| field | value | meaning |", "|---|---|---|"]
        for field, value in part["properties"].items():
            optional = "" if field in part["required"] else "?"
            meaning = value.get("description", "").replace("|", "\\|")
            lines += [f"| `{field}`{optional} | {_value(value, parts)} | {meaning} |"]
    return "\n".join(lines) + "\n"


def _value(part: dict[str, Any], parts: dict[str, Any]) -> str:
    """What a field holds, in words."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})" if name in parts else name
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_value(each, parts) for each in part["anyOf"]))
    if "enum" in part:
        return ", ".join(f"`{json.dumps(value)}`" for value in part["enum"])
    if "const" in part:
        return f"`{json.dumps(part['const'])}`"
    kind = part.get("type", "anything")
    if kind == "array":
        return f"list of {_value(part['items'], parts)}" if part.get("items") else "list"
    if kind == "object" and isinstance(part.get("additionalProperties"), dict):
        return f"object of {_value(part['additionalProperties'], parts)}"
    return {"integer": "whole number", "boolean": "true or false", "string": "text"}.get(kind, kind)


def main() -> None:
    wrong = []
    files = {FOLDER / f"{kind}.json": json.dumps(document(kind), indent=2) + "\n" for kind in schema.KINDS}
    for path, text in {**files, TABLES: tables()}.items():
        if not path.exists() or path.read_text() != text:
            wrong.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if wrong and "--check" in sys.argv:
        sys.exit(f"{', '.join(wrong)}: not what mletools/records says: make docs")


if __name__ == "__main__":
    main()
