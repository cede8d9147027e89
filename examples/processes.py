"""Run a command, and note each mle command that it starts: with which words, on which cards, beside which others.

    python3 processes.py LOG -- COMMAND...             # exit code 1 where two that run together share a card unasked
    python3 processes.py LOG --pretend -- COMMAND...   # the mle commands, and launchers of trainers, only pretend

LOG gets a JSON object for each: `group`, the same for the commands of one pipe and for what they start themselves;
`words`; `cards` (CUDA_VISIBLE_DEVICES) and `engine` (MLE_ENGINE_OPTION) as they were; `validates`, whether it is part of a
--validate; `stdin`, the number of records that a pretending one was given there. One that pretends writes records with the
fields that the Makefiles' own commands (jq, head, sed) look at, as many as there would be, and trains nothing.
"""

import itertools
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = sorted(path.name for path in (ROOT / "bin").glob("mle-*"))
LAUNCHERS = ("accelerate", "torchrun")
AS = "--as"  # the first word where this file stands in for another command
TRAINER, SAMPLER, VALIDATION, PROGRAMS = "the trainer", "the sampler's model", "validation's model", "programs"
OUTPUT = ("-o", "--output")
# options whose value is a file that is not the input
FILES = {
    *OUTPUT,
    "--rejects",
    "--state",
    "--write-states",
    "--write-steps",
    "--pool",
    "--seeds",
    "--tasks",
    "--dropped",
}
FILES |= {"--train-steps", "--exclude", "--disjoint-from", "--journal"}
COMPETITIONS = ROOT / "mletools/tasks/importing/competitions.jsonl"
REQUESTS = 2  # for help, of a run that pretends


class Process(NamedTuple):
    """A command of LOG."""

    group: str
    words: list[str]
    cards: str
    engine: str
    stdin: int
    validates: bool = False

    @property
    def command(self) -> list[str]:
        """From the name of the mle command on, behind a launcher."""
        at = next((at for at, word in enumerate(self.words) if Path(word).name in COMMANDS), len(self.words))
        return [Path(word).name if not place else word for place, word in enumerate(self.words[at:])]

    def value(self, *flags: str) -> str | None:
        """Of the last of these options."""
        pairs = zip(self.words, self.words[1:], strict=False)
        return next((value for flag, value in reversed(list(pairs)) if flag in flags), None)


# ---- what runs together


class User(NamedTuple):
    """What is on cards. share: of each card; None: as much as it wants."""

    what: str
    cards: tuple[str, ...]
    share: float | None


def cards_of(text: str | None) -> tuple[str, ...]:
    return tuple(part for part in (text or "").split(",") if part)


def share_of(engine: str) -> float | None:
    found = re.search(r"gpu_memory_utilization=([\d.]+)", engine)
    return float(found.group(1)) if found else None


def users(processes: Iterable[Process]) -> list[User]:
    """Of the processes of a group, those that compute on cards, and the programs that they run."""
    found = []
    for each in processes:
        name, *words = each.command or [""]
        local = any(re.match(r"(hf|vllm):", word) for word in words)
        if name.startswith("mle-train-"):
            found.append(User(TRAINER, cards_of(each.cards), None))
        elif local:
            what = VALIDATION if each.validates else SAMPLER if name == "mle-rollout" else f"the model of {name}"
            found.append(User(what, cards_of(each.cards), share_of(each.engine)))
        if gpus := each.value("--gpus"):
            found.append(User(PROGRAMS, cards_of(gpus), None))
    return list(dict.fromkeys(found))  # a trainer has a process for each card


def validation(trainer: Process) -> list[Process]:
    """The commands of a trainer's --validate."""
    found = []
    for part in (trainer.value("--validate") or "").split("|"):
        words = shlex.split(part)
        settings = dict(
            word.split("=", 1) for word in itertools.takewhile(lambda word: re.match(r"[A-Z_]+=", word), words)
        )
        cards, engine = settings.get("CUDA_VISIBLE_DEVICES", trainer.cards), settings.get("MLE_ENGINE_OPTION", "")
        found.append(Process(trainer.group, words[len(settings) :], cards, engine, 0, True))
    return [each for each in found if each.command]


def shared(together: Sequence[User]) -> Iterator[str]:
    """A line for each two that are on one card without room for both: a trainer takes what shares of it leave."""
    for one, other in itertools.combinations(together, 2):
        both = [card for card in one.cards if card in other.cards]
        bounded = all(each.what == TRAINER or each.share is not None for each in (one, other))
        if both and not (bounded or one.what == other.what == PROGRAMS):
            yield f"{' and '.join(sorted((one.what, other.what)))} are both on card {', '.join(both)}"


def read(log: Path) -> dict[str, list[Process]]:
    """The processes by group, in the order of their beginning."""
    groups: dict[str, list[Process]] = defaultdict(list)
    for line in log.read_text().splitlines():
        each = Process(**json.loads(line))
        groups[each.group].append(each)
    return dict(groups)


# ---- in the place of a command


def group() -> str:
    """That of the process that started this one, or one for all that its shell starts."""
    parent = Path(f"/proc/{os.getppid()}/stat").read_text()
    place = f"{os.getppid()}-{parent.rpartition(')')[2].split()[19]}"
    return os.environ.get("PROCESSES_GROUP") or (place if "sh)" in parent else f"{place}-{os.getpid()}")


def piped() -> bool:
    return stat.S_ISFIFO(os.fstat(0).st_mode)


def inputs(words: Sequence[str]) -> list[Path]:
    pairs = zip(["", *words], words, strict=False)
    return [
        Path(word) for before, word in pairs if word.endswith(".jsonl") and before not in FILES and Path(word).is_file()
    ]


def pretend(words: list[str]) -> int:
    """Write what the command would; the number of records that came by standard input."""
    process = Process("", words, "", "", 0)
    name, *words = process.command or [""]
    files = inputs(words)
    given = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    from_stdin = [json.loads(line) for line in sys.stdin] if piped() and not files else []
    records = list(written(name, process, [*given, *from_stdin]))
    text = "".join(json.dumps(record) + "\n" for record in records)
    target = process.value(*OUTPUT)
    if target:
        Path(target).write_text("" if name.startswith(("mle-report", "mle-train")) else text)
    elif name not in ("mle-report", "mle-classify-ideas") and not name.startswith("mle-train"):
        sys.stdout.write(text)
    return len(from_stdin)


def written(name: str, process: Process, given: list[Any]) -> Iterator[Any]:
    if name == "mle-import":
        yield from imported(process)
    elif name == "mle-gen-task":
        if rejects := process.value("--rejects"):
            Path(rejects).write_text("")
        yield from (task(f"task-{at}", "train") for at in range(int(process.value("-n") or 1)))
    elif name == "mle-rollout":
        size = int(process.value("-g") or 1)
        played = [
            {"kind": "rollout", "id": f"{at}", "task": each.get("task", each), "name": each["name"], "sample": at, "reward": 0.5}
            for each in given for at in range(size)
        ]  # fmt: skip
        if states := process.value("--write-states"):
            Path(states).write_text("".join(json.dumps(each) + "\n" for each in played for _ in range(REQUESTS)))
        yield from [] if "--forever" in process.words else played
    elif name == "mle-filter" and (most := process.value("--sample")):
        taken: dict[str, int] = defaultdict(int)
        for each in given:
            taken[each["name"]] += 1
            if taken[each["name"]] <= int(most):
                yield each
    elif name.startswith("mle-train"):
        folder = Path(process.value("--run-dir") or "run")
        for made in ("latest", "best"):
            (folder / made).mkdir(parents=True, exist_ok=True)
    else:
        yield from given


def task(name: str, split: str | None) -> dict[str, Any]:
    return {"kind": "task", "id": name, "name": name, "provenance": {"split": split, "competition": name}}


def imported(process: Process) -> Iterator[Any]:
    """The competitions that are named, or lie in the folder; of a benchmark that is not prepared all that are known of it."""
    known = [json.loads(line) for line in COMPETITIONS.read_text().splitlines()]
    benchmark = process.value("--format") or "mle-bench"
    splits = {each["competition"]: each.get("split") for each in known if each["benchmark"] == benchmark}
    pairs = zip(process.words, process.words[1:], strict=False)
    folders = [Path(word) for before, word in pairs if not before.startswith("-") and not word.startswith("-")]
    named = [folder.name for folder in folders]
    if not all(name in splits for name in named):
        named = [path.name for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())] or list(
            splits
        )
    yield from (task(name, splits.get(name)) for name in named)


def stand_in(name: str, words: list[str]) -> None:
    """Note the command, and become it, or pretend."""
    pretending, own = "PROCESSES_PRETEND" in os.environ, group()
    if pretending or name not in LAUNCHERS:
        count = pretend([name, *words]) if pretending else 0
        cards, engine = os.environ.get("CUDA_VISIBLE_DEVICES", ""), os.environ.get("MLE_ENGINE_OPTION", "")
        with open(os.environ["PROCESSES_LOG"], "a", encoding="utf-8") as log:
            each = Process(own, [name, *words], cards, engine, count, "MLE_POLICY" in os.environ)
            log.write(json.dumps(each._asdict()) + "\n")
    if pretending:
        return
    others = os.environ["PATH"].split(os.pathsep)
    others.remove(os.environ["PROCESSES_FOLDER"])
    real = shutil.which(name, path=os.pathsep.join(others))
    if real is None:
        sys.exit(f"{name}: not found")
    os.execve(real, [name, *words], {**os.environ, "PROCESSES_GROUP": own})


def run(log: Path, command: Sequence[str], pretending: bool, quiet: bool = False) -> int:
    """Run the command so; its exit code. quiet: nothing that it prints is seen."""
    log.write_text("")
    with tempfile.TemporaryDirectory(prefix="mle-processes-") as folder:
        for name in (*COMMANDS, *LAUNCHERS):
            words = map(shlex.quote, (sys.executable, "-SE", str(Path(__file__).resolve()), AS, name))
            (Path(folder) / name).write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
            (Path(folder) / name).chmod(0o755)
        settings = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
        settings |= {"PROCESSES_FOLDER": folder, "PROCESSES_LOG": str(log.resolve())}
        settings |= {"PROCESSES_PRETEND": "1"} if pretending else {}
        unseen = subprocess.DEVNULL if quiet else None
        done = subprocess.run(command, env={**os.environ, **settings}, stdout=unseen, stderr=unseen, check=False)
        return done.returncode


def main() -> int:
    if sys.argv[1:2] == [AS]:
        stand_in(sys.argv[2], sys.argv[3:])
        return 0
    if "--" not in sys.argv[2:]:
        sys.exit(__doc__)
    at = sys.argv.index("--")
    log = Path(sys.argv[1])
    code = run(log, sys.argv[at + 1 :], "--pretend" in sys.argv[2:at])
    faults = [line for each in read(log).values() for line in shared(users(each))] if code == 0 else []
    print(*dict.fromkeys(faults), sep="\n", end="\n" if faults else "", file=sys.stderr)
    return code or bool(faults)


if __name__ == "__main__":
    sys.exit(main())
