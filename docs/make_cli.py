"""Write docs/cli.md from every command's --help, or with --check say whether it is in step."""

import subprocess
import sys
from pathlib import Path

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
    """The whole page; every command in bin/ must stand in ORDER."""
    names = [f"mle-{name}" for name in ORDER]
    assert sorted(names) == sorted(path.name for path in (ROOT / "bin").iterdir()), (
        "docs/make_cli.py: ORDER is not bin/"
    )
    parts = ["# Commands\n\nGenerated from `--help` by `make docs`.\n"]
    for name in names:
        help = subprocess.run(
            [str(Path(sys.executable).parent / name), "--help"],
            capture_output=True, text=True, check=True, env={"COLUMNS": "120", "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        parts.append(f"\n## {name}\n\n```text\n{help.stdout.rstrip()}\n```\n")
    return "".join(parts)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != page():
            sys.exit("docs/cli.md is not what --help says: run `make docs`")
    else:
        PAGE.write_text(page())
