"""What the kept programs read beside ./input: whether an earlier reward can have come from a table among the libraries.

python benchmarks/reads.py [FILES]   answers of real_lm.py (default: SmolLM2's that are kept) or graded rollouts, .gz or not

It looks at the text of every program: what it imports, calls that look for files or load a library's data, and paths.
A program that cannot be parsed did not run; its text is searched for the same words.
"""

import ast
import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# Ways to files or data that no path in the program names.
SEARCHES = re.compile(
    r"walk|r?glob|scandir|listdir|iterdir|(base_|exec_)?prefix|__path__|__file__|(load|fetch)_\w+|get_rdataset|get_data|"
    r"load_dataset|find_spec|import_module|__import__|exec|eval|open|system|Popen|subprocess|site|sysconfig|importlib"
)
WORDS = re.compile(
    r"site-packages|dist-packages|\bsys\.|\bos\.|/usr|/proc|sklearn\.datasets|(load|fetch)_\w+\(|statsmodels"
)
ELSEWHERE = re.compile(r"/\S+|\S*\.\./?\S*")  # a path that leads out of the work folder


def texts(files: list[str]) -> Iterator[dict[str, Any]]:
    """The rollouts of the files."""
    for file in files:
        content = Path(file).read_bytes()
        for line in (gzip.decompress(content) if file.endswith(".gz") else content).splitlines():
            record = json.loads(line)
            yield record.get("rollout", record)


def seen(code: str) -> tuple[set[str], set[str]]:
    """(modules imported, what may lead elsewhere than ./input). SyntaxError: the program did not run."""
    modules: set[str] = set()
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or ".")
            found |= {alias.name for alias in node.names if SEARCHES.fullmatch(alias.name)}
        elif isinstance(node, ast.Attribute) and SEARCHES.fullmatch(node.attr):
            found.add(f".{node.attr}")
        elif isinstance(node, ast.Name) and SEARCHES.fullmatch(node.id):
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and ELSEWHERE.fullmatch(node.value):
            found.add(node.value)
    return modules, found


def main() -> None:
    files = sys.argv[1:] or sorted(map(str, (HERE / "real_lm" / "smollm2").glob("*.jsonl.gz")))
    counts: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    elsewhere: Counter[str] = Counter()
    for rollout in texts(files):
        counts["answers"] += 1
        if rollout["code"] is None:
            continue
        counts["programs"] += 1
        try:
            imported, found = seen(rollout["code"])
        except (SyntaxError, ValueError):
            counts["not Python"] += 1
            imported, found = set(), {match[0] for match in WORDS.finditer(rollout["code"])}
        modules.update(name.partition(".")[0] for name in imported)
        modules.update(name for name in imported if "dataset" in name)
        elsewhere.update(found)
    print(", ".join(f"{number} {name}" for name, number in counts.items()))
    print("imported:", ", ".join(f"{name} ({number})" for name, number in modules.most_common()))
    print("leads elsewhere:", ", ".join(f"{name} ({number})" for name, number in elsewhere.most_common()) or "nothing")


if __name__ == "__main__":
    main()
