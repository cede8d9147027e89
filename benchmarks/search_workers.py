"""How busy the workers of a search are, with the barrier of whole rounds and without it.

    python benchmarks/search_workers.py [--nodes 40] [--scale 20] [--workers 2 4] [--seeds 2] [--folder DIR]

A real mle-rollout with the real sandbox and grader: the components of rd-agent but for ideas and programs. These sleep for
1 to 60 seconds, uniformly, divided by --scale, and an idea takes one second, divided by it. Measured are the share of the
workers' time in which programs ran, from the first node's beginning to the last one's end, and that time, multiplied by --scale. The
sandbox's own time is not divided, so that both figures are the worse, the larger --scale is. At --jobs of the number of workers; the
sleep needs no core.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from statistics import fmean

COMPONENTS = '''
import random
import time
from dataclasses import dataclass
from typing import ClassVar

from mletools.scaffolds.search.data import Developed, Hypothesis, Idea

PROGRAM = """import csv, time
time.sleep({seconds})
rows = list(csv.DictReader(open("input/sample_submission.csv")))
names = [name for name in rows[0]]
for at, row in enumerate(rows):
    row[names[-1]] = {worth} + at * 0.001
with open("submission.csv", "w", newline="") as out:
    writer = csv.DictWriter(out, names)
    writer.writeheader()
    writer.writerows(rows)
"""

@dataclass(frozen=True)
class Quick:
    seconds: float = 1.0

    def reason(self, context, question):
        time.sleep(self.seconds)
        return Idea(Hypothesis(f"idea {len(question.graph)}", "Model"))

@dataclass(frozen=True)
class Sleeping:
    scale: float = 20.0
    repairs: ClassVar[bool] = False

    def develop(self, context, brief):
        code = PROGRAM.format(seconds=context.rng.uniform(1, 60) / self.scale, worth=context.rng.random())
        told = context.run(code, 300)
        valid = bool(told["validation"] and told["validation"]["valid"])
        return Developed(code, told, None if valid else "failed")
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--scale", type=float, default=20.0)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="search-workers-"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sleeping.py").write_text(COMPONENTS)
    make = ["mle-gen-task", "-n", "1", "--source", "tabular", "--seed", "0", "--data", ".", "-q", "-o", "tasks.jsonl"]
    subprocess.run([*make, "--resume"], cwd=folder, check=True)
    print("| workers | rounds | busy | minutes |\n|---|---|---|---|")
    for workers in given.workers:
        for rounds in ("whole", "free"):
            found = [searched(folder, given.nodes, given.scale, workers, rounds, seed) for seed in range(given.seeds)]
            busy, minutes = (fmean(each) for each in zip(*found, strict=True))
            print(f"| {workers} | {rounds} | {100 * busy:.0f} % | {minutes:.1f} |", flush=True)
    if given.folder is None:
        shutil.rmtree(folder)


def searched(folder: Path, nodes: int, scale: float, workers: int, rounds: str, seed: int) -> tuple[float, float]:
    """(the share of the workers' time in which programs ran, minutes of the search at its full scale)."""
    own = ["--coding", "sleeping.py:Sleeping", "--reasoning", "sleeping.py:Quick", "--memory", "none"]
    constants = [f"coding.scale={scale}", f"reasoning.seconds={1 / scale}", "planning.role=false"]
    constants += [f"paths.at_once={workers}", f"paths.branches={max(3, workers)}"]
    line = ["mle-rollout", "--scaffold", "search", "--preset", "rd-agent", "--evaluation", "standard", *own]
    line += [word for constant in constants for word in ("--set", constant)]
    line += ["--rounds", rounds, "--max-turns", str(nodes), "--seed", str(seed), "-j", str(workers)]
    line += ["--sandbox-jobs", str(workers), "--data", ".", "-q", "-o", "out.jsonl", "--force", "tasks.jsonl"]
    subprocess.run(line, cwd=folder, check=True)
    record = json.loads((folder / "out.jsonl").read_text())
    ran = sum(turn["execution"]["duration_s"] for turn in record["turns"])
    seconds = record["search"]["elapsed_s"]
    return ran / (workers * seconds), scale * seconds / 60


if __name__ == "__main__":
    main()
