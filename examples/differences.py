"""Print what the rehearsal of an experiment has other than the paper's size; fail where its recipes differ by more.

    make -C examples/NAME differences        # or: cd examples/NAME && python ../differences.py

The variables that may differ are those that ../rehearsal.mk sets. With a placeholder for each of them, both sizes must
give the same commands, letter by letter. Exit 1 and a diff where they do not.
"""

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path("../rehearsal.mk")
ASSIGNMENT = re.compile(r"^([A-Z_]+) *[:?]?=", re.MULTILINE)


def make(*arguments: str, text: str = "") -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS", "MLE_"))}
    environment.pop("SIZE", None)
    command = ["make", "--no-print-directory", *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def commands(size: str, variables: list[str], *more: str) -> list[str]:
    placeholders = [f"{name}={name}" for name in variables]
    return make("-n", "--always-make", "results", f"SIZE={size}", *placeholders, *more).splitlines()


def values(size: str, variables: list[str]) -> dict[str, str]:
    """What each variable is in this size; of those that the experiment does not have, nothing."""
    page = "include Makefile\nprint-values:\n" + "".join(f"\t$(info {name}=$({name}))\n" for name in variables)
    lines = make("-s", "-f", "-", "print-values", f"SIZE={size}", text=page).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def main() -> None:
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    variables = ASSIGNMENT.findall(PAGE.read_text())
    paper, rehearsal = (commands(size, ["OUT", *variables]) for size in ("paper", "rehearsal"))
    if paper != rehearsal:
        print("\n".join(difflib.unified_diff(paper, rehearsal, "paper", "rehearsal", lineterm="", n=0)))
        sys.exit("the recipes differ by more than the variables of rehearsal.mk")
    makefile = Path("Makefile").read_text() + Path("../paper.mk").read_text()
    used = [name for name in variables if re.search(rf"\b{name}\b", makefile)]
    before, after = values("paper", used), values("rehearsal", used)
    for name in used:
        if before.get(name, "") != after.get(name, ""):
            print(f"{name}: {before.get(name, '') or '(none)'} -> {after.get(name, '') or '(none)'}")


if __name__ == "__main__":
    main()
