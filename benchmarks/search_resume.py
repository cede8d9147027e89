"""How long a search of 500 nodes takes to go on after kill -9, and how much memory it holds.

    python benchmarks/search_resume.py [--nodes 500] [--folder DIR]

A real mle-rollout in a process of its own: real sandbox, real grader, aide's components but for one: the programs are
written by a component in a file here, so that 500 of them run in half a minute. It is killed when the graph has all but a
few of its nodes, and begun again. Measured are the seconds from the start of the second process to its first new answer and
its first new node, beside those of a search that begins with nothing (what starting the command and the sandbox takes, with and without the
libraries that it imports ahead), and
the resident memory of the process, by the number of nodes.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

# With the usual libraries imported ahead of all programs, which takes a second or two, and without.
SANDBOXES = {"warm": (), "without libraries": ("--preimport", "")}
COMPONENT = '''
from dataclasses import dataclass
from typing import ClassVar

from mletools.scaffolds.search.data import Developed

PROGRAM = """import csv
rows = list(csv.DictReader(open("input/sample_submission.csv")))
names = [name for name in rows[0]]
for at, row in enumerate(rows):
    row[names[-1]] = {worth} + at * 0.001
with open("submission.csv", "w", newline="") as out:
    writer = csv.DictWriter(out, names)
    writer.writeheader()
    writer.writerows(rows)
print("x" * 3000)
"""

@dataclass(frozen=True)
class Quick:
    repairs: ClassVar[bool] = False

    def develop(self, context, brief):
        context.answer("develop", "search-draft", "Write a program.\\n" + "Words. " * 1500)
        code = PROGRAM.format(worth=context.rng.random()) + "# " + "text " * 1000
        told = context.run(code, 30)
        valid = bool(told["validation"] and told["validation"]["valid"])
        return Developed(code, told, None if valid else "failed")
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="search-resume-"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "quick.py").write_text(COMPONENT)
    make = ["mle-gen-task", "-n", "1", "--source", "tabular", "--seed", "0", "--data", ".", "-q", "-o", "tasks.jsonl"]
    subprocess.run([*make, "--resume"], cwd=folder, check=True)
    for name, libraries in SANDBOXES.items():
        answer, node = started(folder, 2, f"fresh-{name}.jsonl", wait_for=1, libraries=libraries)
        print(
            f"a search that begins, sandbox {name}: {answer:.2f} s to its first answer, {node:.2f} s to its first node"
        )
    memory = killed(folder, given.nodes)
    for nodes, kilobytes in memory:
        print(f"{nodes:4} nodes: {kilobytes / 1024:.0f} MB")
    there = nodes_in(folder / "long.jsonl.graph")
    size = sum(file.stat().st_size for file in (folder / "long.jsonl.graph").iterdir())
    print(f"killed with {there} nodes in a graph of {size / 2**20:.1f} MB")
    for name, libraries in SANDBOXES.items():
        copy = f"again-{name}.jsonl"
        for suffix in ("partial", "tape", "graph"):
            source, target = folder / f"long.jsonl.{suffix}", folder / f"{copy}.{suffix}"
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
        answer, node = started(folder, given.nodes, copy, wait_for=there + 1, libraries=libraries)
        what = f"a search of {there} nodes that goes on, sandbox {name}"
        print(f"{what}: {answer:.2f} s to its next answer, {node:.2f} s to its next node")
    record = json.loads((folder / copy).read_text())
    print(f"complete with {len(record['turns'])} nodes")
    if given.folder is None:
        shutil.rmtree(folder)


def command(nodes: int, output: str, libraries: tuple[str, ...] = ()) -> list[str]:
    search = ["--scaffold", "search", "--preset", "aide", "--coding", "quick.py:Quick", "--set", "paths.drafts=8"]
    bounds = ["--max-turns", str(nodes), "--evaluation", "standard", "-q"]
    return ["mle-rollout", *search, *bounds, *libraries, "--data", ".", "--resume", "-o", output, "tasks.jsonl"]


def nodes_in(folder: Path) -> int:
    return sum(file.read_bytes().count(b'"nodes_of_round": ') for file in folder.glob("*.jsonl"))


def started(
    folder: Path, nodes: int, output: str, wait_for: int, libraries: tuple[str, ...] = ()
) -> tuple[float, float]:
    """Seconds from the start of the command until its tape grows, and until the graph has so many nodes; waits for its end."""
    tape, first = folder / f"{output}.tape", 0.0
    size = tape.stat().st_size if tape.exists() else 0
    begin, answered = time.perf_counter(), 0.0
    process = subprocess.Popen(command(nodes, output, libraries), cwd=folder)
    while process.poll() is None:
        now = time.perf_counter() - begin
        if not answered and tape.exists() and tape.stat().st_size > size:
            answered = now
        if answered and not first and nodes_in(folder / f"{output}.graph") >= wait_for:
            first = now
        time.sleep(0.005)
    if process.returncode:
        raise SystemExit(f"mle-rollout ended with {process.returncode}")
    return answered, first


def killed(folder: Path, nodes: int) -> list[tuple[int, int]]:
    """Run the search until a few nodes before its end, then kill it: (nodes, kB of resident memory) on the way."""
    process = subprocess.Popen(command(nodes, "long.jsonl"), cwd=folder, start_new_session=True)
    found: list[tuple[int, int]] = []
    marks = [nodes // 10, nodes // 4, nodes // 2, nodes - 10]
    while marks:
        if process.poll() is not None:
            raise SystemExit(f"mle-rollout ended with {process.returncode} before it could be killed")
        there = nodes_in(folder / "long.jsonl.graph")
        if there >= marks[0]:
            status = Path(f"/proc/{process.pid}/status").read_text()
            found.append((there, int(status.partition("VmRSS:")[2].split()[0])))
            marks.pop(0)
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return found


if __name__ == "__main__":
    main()
