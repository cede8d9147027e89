"""Write docs/cli.md from every command's --help, or with --check compare only."""

import subprocess
import sys
from pathlib import Path

from mletools.scaffolds import IN_TURNS

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "cli.md"
ORDER = [
    "gen-task",
    "import",
    "rollout",
    "instrument",
    "sandbox",
    "grade",
    "filter",
    "train-sft",
    "train-grpo",
    "report",
    "show",
    "classify-ideas",
]


def page() -> str:
    """The whole page; ORDER must list every command in bin/."""
    names = [f"mle-{name}" for name in ORDER]
    assert sorted(names) == sorted(path.name for path in (ROOT / "bin").iterdir()), (
        "docs/make_cli.py: ORDER is not bin/"
    )
    parts = ["# Commands\n\nGenerated from `--help` by `make docs`.\n"]
    for name in names:
        parts.append(f"\n## {name}\n\n```text\n{help_of(name)}\n```\n")
        if name == "mle-gen-task":
            section = options_of(help_of(name, "--source", "llm"), "Roles (--source llm):")
            parts.append(f"\n### mle-gen-task --source llm\n\n```text\n{section}\n```\n")
        if name == "mle-rollout":
            for scaffold in IN_TURNS:
                section = options_of(help_of(name, "--scaffold", scaffold), f"Scaffold {scaffold}:")
                parts.append(f"\n### mle-rollout --scaffold {scaffold}\n\n```text\n{section}\n```\n")
    return "".join(parts)


def help_of(name: str, *args: str) -> str:
    """The text of `name ... --help`."""
    line = [str(Path(sys.executable).parent / name), *args, "--help"]
    environment = {"COLUMNS": "100", "PATH": "/usr/bin:/bin"}
    return subprocess.run(line, capture_output=True, text=True, check=True, env=environment).stdout.rstrip()


def options_of(text: str, heading: str) -> str:
    """The section of a help text under a heading."""
    _, found, rest = text.partition(f"\n{heading}\n")
    assert found, f"no {heading} in the help"
    return rest.partition("\n\n")[0]


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != page():
            sys.exit("docs/cli.md differs from --help: run `make docs`")
    else:
        PAGE.write_text(page())
