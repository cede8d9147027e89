"""What reinforcement does to a real language model, over seeds: the small sizes of the experiments in examples/.

    python benchmarks/real_lm.py rl4mle --seeds 0 1 --arms base full no-credit --hours 2     # again the next night: it goes on
    python benchmarks/real_lm.py smollm2                # prints what is kept of sandmle's small size, MODEL=smollm2

Each seed is `make SIZE=small SEED=...` in the experiment's folder, with tasks, samples and weights of its own; real tables are the
same for all seeds, split anew by each. One part (a seed, an arm, of rl4mle a task) is made after the other, the arms of a seed and
task in turns. What a part came to is kept in benchmarks/real_lm, without prompts and tasks' texts: the fresh answers of the
policy, what it sampled while it learnt, its optimiser steps. A part that is kept is not made again; after --hours all that runs is
killed, and the next call goes on.

Then the arms are compared by their fresh answers. smollm2, sandmle, mle-rl: generated tasks and real tables apart, none of them trained on,
paired by task, a task's value being the mean over seeds and samples, intervals by bootstrap over tasks. rl4mle: one policy
a task, so the pairs are a seed's task, with Student's interval over them. --hours 0 runs nothing. --page writes the report's page of these answers.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import t
from tabulate import tabulate

from mletools.reports.statistics import paired_interval

ROOT = Path(__file__).parent.parent
KEPT = Path(__file__).parent / "real_lm"
KINDS = {"made": "generated tasks", "real": "real tables"}
UNREAD = ("hidden_rule", "mutations", "sanity", "description_checks")  # of a task's provenance
ASKED = ("classes", "probabilities", "numbers")  # what a submission holds
FORM = 0.1  # the milestone reward of an answer that has the form, and nothing more
QUANTITIES = ("reward", "valid", "medal")
REPORT = (sys.executable, str(ROOT / "bin" / "mle-report"), "-q")


@dataclass(frozen=True)
class Part:
    """What is made in one go. files: of the run's folder, by what is kept of each."""

    seed: int
    arm: str
    files: dict[str, str]
    task: str = ""

    def kept(self, folder: Path, what: str) -> Path:
        name = "-".join(str(word) for word in (self.seed, self.arm, self.task) if word != "")
        return folder / f"{name}{'' if what == 'answers' else f'.{what}'}.jsonl.gz"


@dataclass(frozen=True)
class Experiment:
    """folder: of examples/. pairs: the second less the first. tasks: each has policies
    of its own. words: of the Makefile."""

    folder: str
    arms: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    tasks: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def parts(self, seeds: list[int]) -> Iterator[Part]:
        for seed in seeds:
            for task in self.tasks:
                for arm in self.arms:
                    own = f"{arm}/{task}"
                    learnt = {"learning": f"{own}/graded.jsonl", "steps": f"{own}/steps.jsonl"}
                    answers = f"base/{task}.jsonl" if arm == "base" else f"{own}/samples.jsonl"
                    yield Part(seed, arm, {"answers": answers} | ({} if arm == "base" else learnt), task)
            if not self.tasks:
                for arm in self.arms:
                    learnt = {"learning": f"{arm}/graded.jsonl", "steps": f"{arm}/steps.jsonl"}
                    yield Part(seed, arm, {"answers": f"{arm}.graded.jsonl"} | ({} if arm == "base" else learnt))


EXPERIMENTS = {
    "smollm2": Experiment(
        "sandmle",
        ("base", "seed-sft", "sft-sandmle", "sparse"),
        (("base", "seed-sft"), ("seed-sft", "sft-sandmle"), ("seed-sft", "sparse"), ("sparse", "sft-sandmle")),
    ),
    "sandmle": Experiment(
        "sandmle",
        ("base", "sandmle", "sparse"),
        (("base", "sandmle"), ("base", "sparse"), ("sparse", "sandmle")),
        words=("MODEL=qwen2.5-coder-0.5b",),
    ),
    "mle-rl": Experiment(
        "mle-rl",
        ("base", "sft-all", "sft-format", "sft-value"),
        (("base", "sft-all"), ("sft-all", "sft-format"), ("sft-all", "sft-value"), ("sft-format", "sft-value")),
    ),
    "rl4mle": Experiment(
        "rl4mle",
        ("base", "full", "no-credit", "no-duration", "improve"),
        (("base", "full"), ("base", "no-credit"), ("no-credit", "full"), ("no-duration", "full"), ("full", "improve")),
        ("anes96_vote", "breast_cancer", "wine"),
    ),
}


def made(experiment: Experiment, part: Part, out: Path, words: list[str], end: float) -> bool:
    """One part to its end; False where the time is up before."""
    command = ["make", "-s", "-C", str(ROOT / "examples" / experiment.folder), "SIZE=small"]
    command += [f"SEED={part.seed}", f"OUT={out}", *experiment.words, *words, str(out / part.files["answers"])]
    making = subprocess.Popen(command, stdout=sys.stderr, start_new_session=True)
    try:
        status = making.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(making.pid, signal.SIGKILL)
        making.wait()
        return False
    if status:
        sys.exit(f"{part}: make ended with {status}; its files are in {out}")
    return True


def keep(folder: Path, part: Part, out: Path) -> None:
    """What the part came to; the answers last, so that a part that has them is whole."""
    real = out / "real.jsonl"
    known = {json.loads(line)["id"] for line in real.read_text().splitlines()} if real.exists() else None
    for what, source in sorted(part.files.items(), key=lambda entry: entry[0] == "answers"):
        if what != "answers" and not (out / source).exists():  # imitation samples nothing
            continue
        records = [json.loads(line) for line in elsewhere((out / source).read_text(), out).splitlines()]
        lines = records if what == "steps" else [judged(rollout, known) for rollout in records]
        file = part.kept(folder, what)
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".partial")
        text = "".join(json.dumps(line) + "\n" for line in lines)
        unfinished.write_bytes(gzip.compress(text.encode(), mtime=0))
        unfinished.replace(file)


def judged(rollout: dict[str, Any], real: set[str] | None) -> dict[str, Any]:
    """{"kind", "rollout"}, without what a report does not read."""
    task = rollout["task"]
    told = {name: value for name, value in task["provenance"].items() if name not in UNREAD}
    answers = [
        {name: message[name] for name in ("role", "content", "loss")}
        for message in rollout["messages"]
        if message["role"] == "assistant"
    ]
    rollout = rollout | {"lineage": [], "messages": answers, "plan": ""}
    rollout["task"] = task | {"lineage": [], "description": "", "provenance": told}
    return {"kind": "real" if real is None or task["id"] in real else "made", "rollout": rollout}


def elsewhere(text: str, folder: Path) -> str:
    """The text without where this machine keeps the run, the installation and Python (in records' models and tracebacks)."""
    places = {str(folder): "runs/small", sys.prefix: ".venv", str(ROOT): ".", sys.base_prefix: "python"}
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    return text


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]


class Kept:
    """The answers that are kept of an experiment's seeds."""

    def __init__(self, experiment: Experiment, seeds: list[int], kept: Path, folder: Path) -> None:
        self.experiment, self._kept, self._folder = experiment, kept, folder
        parts = [part for part in experiment.parts(seeds) if part.kept(kept, "answers").exists()]
        self._parts = {(part.arm, part.seed, part.task): part for part in parts}

    def units(self, *arms: str) -> list[tuple[int, str]]:
        """The seeds, with a task of which policies are, that all the arms have."""
        found = [{key[1:] for key in self._parts if key[0] == arm} for arm in arms]
        return sorted(set.intersection(*found))

    def file(self, arm: str, kind: str, units: list[tuple[int, str]]) -> Path:
        """Their rollouts of one kind of task as a file; a real table, which each seed splits anew, is one task of them all."""
        file = self._folder / f"{arm}.jsonl"
        lines = []
        for seed, task in units:
            for record in read(self._parts[arm, seed, task].kept(self._kept, "answers")):
                record["rollout"]["plan"] = ""
                own = record["rollout"]["task"]
                if kind == "real":
                    own["id"] = f"{own['name']}-{seed}" if task else own["name"]
                if record["kind"] == kind:
                    lines.append(json.dumps(record["rollout"]) + "\n")
        file.write_text("".join(lines))
        return file

    def levels(self, kind: str) -> str:
        """A line for each arm: means over tasks, and how many rollouts of how many seeds."""
        lines = []
        for arm in self.experiment.arms:
            if not (having := self.units(arm)):
                continue
            records = report("--label", arm, str(self.file(arm, kind, having)))
            found = [record for record in records if record["task"] == "all"]
            for one in found:
                shares = [f"{100 * one[name]:.1f}" for name in ("valid", "above_median", "medal")]
                seeds = len({seed for seed, _ in having})
                lines.append([arm, seeds, len(having), one["rollouts"], *shares, f"{one['reward_mean']:.3f}"])
        headers = ["arm", "seeds", "policies", "rollouts", "valid, %", "above median, %", "medal, %", "reward"]
        return tabulate(lines, headers, "github", disable_numparse=True)

    def kinds(self) -> str:
        """A line for each arm: valid of all its answers, generated and real tables together, by what is asked for."""
        lines = []
        for arm in self.experiment.arms:
            found: dict[str, list[bool]] = {}
            for unit in self.units(arm):
                for record in read(self._parts[arm, *unit].kept(self._kept, "answers")):
                    rollout = record["rollout"]
                    found.setdefault(asked(rollout["task"]), []).append(rollout["grade"]["valid"])
            if found:
                counts = (found.get(what, []) for what in ASKED)
                lines.append([arm, *(f"{sum(valid)} of {len(valid)}" for valid in counts)])
        return tabulate(lines, ["arm", *ASKED], "github", disable_numparse=True)

    def differences(self, kind: str) -> str:
        """A line for each pair of arms and quantity, paired by task."""
        lines = []
        for pair in self.experiment.pairs:
            if not (having := self.units(*pair)):
                continue
            files = [self.file(arm, kind, having) for arm in pair]
            if not all(file.stat().st_size for file in files):
                continue
            for by in QUANTITIES:
                compared = self._over_policies if self.experiment.tasks else over_tasks
                lines.append([f"{pair[1]} - {pair[0]}", by, *compared(pair, files, by)])
        headers = ["pair", "quantity", "difference", "95 %", "win", "tie", "loss"]
        return tabulate(lines, headers, "github", disable_numparse=True)

    def page(self, file: Path, name: str, arms: Sequence[str]) -> None:
        """Write the report's page: of the seeds and tasks that all of `arms` with answers have, those about real tables, and the steps."""
        arms = [arm for arm in arms if self.units(arm)]
        units, words = self.units(*arms), ["--html", "--title", f"benchmarks/real_lm.py {name}"]
        for arm in arms:
            words += ["--label", arm]
            for unit in units:
                if (steps := self._parts[arm, *unit].kept(self._kept, "steps")).exists():
                    trained = self._folder / steps.with_suffix("").name
                    trained.write_bytes(gzip.decompress(steps.read_bytes()))
                    words += ["--train-steps", str(trained)]
        words += [str(self.file(arm, "real", units)) for arm in arms]
        subprocess.run([*REPORT, *words, "--force", "-o", str(file)], check=True)

    def _over_policies(self, pair: tuple[str, str], files: list[Path], by: str) -> list[str]:
        name = {"reward": "reward_mean"}.get(by, by)
        values = [
            {each["task"]: each[name] for each in report("--label", arm, str(file)) if each["task"] != "all"}
            for arm, file in zip(pair, files, strict=True)
        ]
        each = [values[1][task] - value for task, value in values[0].items()]
        interval = ""
        if len(each) > 1:
            half = t.ppf(0.975, len(each) - 1) * statistics.stdev(each) / len(each) ** 0.5
            interval = f"{statistics.mean(each) - half:+.3f} to {statistics.mean(each) + half:+.3f}"
        ahead = [sum(sign(value) == wanted for value in each) for wanted in (1, 0, -1)]
        return [f"{statistics.mean(each):+.3f}", interval, *map(str, ahead)]


def sign(value: float) -> int:
    return (value > 0) - (value < 0)


def over_tasks(pair: tuple[str, str], files: list[Path], by: str) -> list[str]:
    words = [word for arm, file in zip(pair, files, strict=True) for word in ("--label", arm, str(file))]
    (found,) = report("--compare", "--by", by, *words)
    ends = paired_interval([task["difference"] for task in found["tasks"]], found["confidence"], found["seed"])
    interval = " to ".join(f"{end:+.3f}" for end in ends or ())
    return [f"{found['difference_mean']:+.3f}", interval, *(str(found[name]) for name in ("win", "tie", "loss"))]


def report(*words: str) -> list[dict[str, Any]]:
    """The records that mle-report writes."""
    done = subprocess.run([*REPORT, "--json", *words], check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def learning(parts: Iterator[Part], kept: Path) -> str:
    """Of each policy the minutes of training, how many of them waiting for what is sampled and run, how many groups of samples
    had spread in their rewards (how many by the answers' form alone), and the entropy of a sampled token at the first and
    the last step, and of each version the valid of its samples and their mean reward.
    """
    lines = []
    for part in parts:
        file = part.kept(kept, "learning")
        if not file.exists():
            continue
        by_version: dict[int, list[tuple[bool, float]]] = {}
        groups: dict[str, list[float]] = {}
        for record in read(file):
            rollout = record["rollout"]
            row = (rollout["grade"]["valid"], rollout["reward"])
            groups.setdefault(rollout["group"], []).append(rollout["reward"])
            by_version.setdefault(rollout["policy"]["version"] or 0, []).append(row)
        cells = []
        for _, rows in sorted(by_version.items()):
            valid, rewards = zip(*rows, strict=True)
            cells.append(f"{sum(valid)}/{len(rows)} {statistics.mean(rewards):.2f}")
        steps = read(part.kept(kept, "steps"))
        waited, trained = (sum(step[name] for step in steps) / 60 for name in ("waited_s", "duration_s"))
        spread = [max(rewards) for rewards in groups.values() if max(rewards) > min(rewards)]
        formal = sum(highest <= FORM for highest in spread)
        counts = f"{len(spread)} of {len(groups)} ({formal})"
        where = part.task or counts  # a policy for each task is sampled without groups
        told = [step["entropy"] for step in steps if step["entropy"]]  # a step without a gradient has none
        entropy = f"{told[0]:.3f} to {told[-1]:.3f}" if told else ""
        lines.append([part.seed, part.arm, where, f"{waited:.0f}", f"{trained:.0f}", entropy, *cells])
    heads = [
        "seed",
        "arm",
        "task, or groups with spread (by form alone)",
        "waited, min",
        "trained, min",
        "entropy, nats",
    ]
    versions = range(max((len(line) for line in lines), default=0) - len(heads))
    return tabulate(lines, [*heads, *map(str, versions)], "github", disable_numparse=True) if lines else ""


def imitation(parts: Iterator[Part], kept: Path) -> str:
    """Of each policy that only imitates: how many answers, in how many optimiser steps, the minutes, the mean loss a token of the first and the last eight steps."""
    lines = []
    for part in parts:
        file = part.kept(kept, "steps")
        if part.kept(kept, "learning").exists() or not file.exists():
            continue
        steps = read(file)
        answers, seconds = (sum(step[name] for step in steps) for name in ("rollouts", "duration_s"))
        losses = [statistics.mean(step["loss"] for step in some) for some in (steps[:8], steps[-8:])]
        loss = " to ".join(f"{one:.3f}" for one in losses)
        lines.append([part.seed, part.arm, answers, len(steps), f"{seconds / 60:.0f}", loss])
    heads = ["seed", "arm", "answers", "steps", "minutes", "loss, nats"]
    return tabulate(lines, heads, "github", disable_numparse=True) if lines else ""


def wording(parts: Iterator[Part], kept: Path, words: list[str]) -> str:
    """Of each policy's answers, those of training by version and the fresh ones, by task or by what is asked for: how many, how many
    valid ones, mean tokens, how many hold each word.
    """
    lines = []
    for part in parts:
        answers: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for what in ("learning", "answers"):
            file = part.kept(kept, what)
            for record in read(file) if file.exists() else ():
                rollout = record["rollout"]
                version = "fresh" if what == "answers" else str(rollout["policy"]["version"] or 0)
                answers.setdefault((version, part.task or asked(rollout["task"])), []).append(rollout)
        for (version, task), rollouts in sorted(answers.items()):
            valid = sum(rollout["grade"]["valid"] for rollout in rollouts)
            tokens = statistics.mean(rollout["usage"]["completion_tokens"] for rollout in rollouts)
            texts = ["".join(message["content"] for message in rollout["messages"]) for rollout in rollouts]
            counts = [sum(word in text for text in texts) for word in words]
            lines.append([part.seed, task, part.arm, version, len(rollouts), valid, f"{tokens:.0f}", *counts])
    heads = ["seed", "task", "arm", "version", "answers", "valid", "tokens", *words]
    return tabulate(lines, heads, "github", disable_numparse=True)


def improving(parts: Iterator[Part], kept: Path) -> str:
    """Of each policy's answers that improve on a program, those of training and the fresh ones: how many improve on a program that had
    failed, how many of these are valid, how many the same program once more; and the same of programs that had not. In training a
    program is improved on that has left a submission, and has failed where that is invalid; of fresh answers, whatever it was, and it
    has failed where it left none (the two answers are graded as one).
    """
    lines = []
    for part in parts:
        pairs: dict[str, list[tuple[bool, bool, bool]]] = {}
        sampled = part.kept(kept, "learning")
        earlier: dict[str, dict[str, Any]] = {}
        for record in read(sampled) if sampled.exists() else ():
            rollout = earlier[record["rollout"]["id"]] = record["rollout"]
            if rollout["turns"][0].get("action") == "improve":
                before = earlier[rollout["state"]["rollout"]]
                valid = [each["grade"]["valid"] for each in (before, rollout)]
                pairs.setdefault("training", []).append(
                    (*valid, before["code"].split() == (rollout["code"] or "").split())
                )
        answers = part.kept(kept, "answers")
        for record in read(answers) if answers.exists() else ():
            turns, messages = record["rollout"]["turns"], record["rollout"]["messages"]
            if len(turns) == 2:
                valid = [bool((turn.get("execution") or {}).get("submission")) for turn in turns]
                first, second = (message["content"].split() for message in messages)
                pairs.setdefault("fresh", []).append((*valid, first == second))
        for what, found in pairs.items():
            cells = []
            for worked in (False, True):
                after = [(valid, same) for before, valid, same in found if before is worked]
                cells += [len(after), sum(valid for valid, _ in after), sum(same for _, same in after)]
            lines.append([part.seed, part.task, what, *cells])
    heads = ["seed", "task", "answers", "on failed ones", "valid", "the same", "on valid ones", "valid", "the same"]
    return tabulate(lines, heads, "github", disable_numparse=True) if lines else ""


def asked(task: dict[str, Any]) -> str:
    """Which of ASKED."""
    if task["problem"] == "regression":
        return "numbers"
    return "probabilities" if task["submission"].get("range") else "classes"


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument(
        "--arms", nargs="*", help="make these alone, and let the page be of them; default: all of the experiment"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "real_lm")
    parser.add_argument("--hours", type=float, default=0.0, help="kill what runs after so long; default: run nothing")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of the Makefile; repeatable")
    parser.add_argument("--kept", type=Path, default=KEPT, help="folder of what is kept")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the report's page to this file")
    parser.add_argument("--count", nargs="*", metavar="WORD", help="of each policy the answers that hold these words")
    given = parser.parse_args()
    name, experiment = given.experiment, EXPERIMENTS[given.experiment]
    end, folder = time.monotonic() + 3600 * given.hours, given.kept / name
    for part in experiment.parts(given.seeds) if given.hours else ():
        if part.kept(folder, "answers").exists() or part.arm not in (given.arms or experiment.arms):
            continue
        out = given.out.resolve() / name / f"seed-{part.seed}"
        if not made(experiment, part, out, given.set, end):
            print(f"{part}: the time is up; the same command goes on", file=sys.stderr)
            break
        keep(folder, part, out)
    with tempfile.TemporaryDirectory() as work:
        kept = Kept(experiment, given.seeds, folder, Path(work))
        for kind, title in KINDS.items():
            if kind == "made" and experiment.tasks:
                continue
            print("\n\n".join([f"## {title.capitalize()}", kept.levels(kind), kept.differences(kind)]), end="\n\n")
        if not experiment.tasks:
            print(f"## Valid answers, by what is asked for\n\n{kept.kinds()}", end="\n\n")
        if given.page:
            kept.page(given.page, name, given.arms or experiment.arms)
    if table := learning(experiment.parts(given.seeds), folder):
        print(f"## While it learnt: valid of sampled, mean reward, by version\n\n{table}")
    if table := imitation(experiment.parts(given.seeds), folder):
        print(f"## What was imitated\n\n{table}")
    if table := improving(experiment.parts(given.seeds), folder):
        print(f"\n## Asked to improve on a program\n\n{table}")
    if given.count:
        print(f"\n## Answers that hold a word\n\n{wording(experiment.parts(given.seeds), folder, given.count)}")


if __name__ == "__main__":
    main()
