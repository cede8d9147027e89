"""What credit for part of the way is worth to a policy that mostly fails: first valid solution, and share of valid ones.

    python benchmarks/partial_credit.py --run-dir runs/credit [--seeds 5] [--rounds 60] [--beta 0.04] [--learning-rate 5e-4]

Two real tables and a program of seven parts (imports, data, columns, model, fit, prediction, submission). Each part has one
right form and three wrong ones, which raise as beginners' mistakes do, or hand in what cannot be graded. mle-train-sft teaches
a tiny policy programs whose parts are right one time in three, so about one in two thousand is valid. From there, on the
same seeds, each arm draws rounds of 128 rollouts and trains on them as mle-train-grpo does:

    none       a failure earns -10, whatever it came to
    credit     a failure earns -10 and 0.1 for each of the seven reports that arrived (RL for MLE agents, section 3.2)

A valid solution earns its score in both. Whatever the policy writes is run by mle-instrument | mle-sandbox | mle-grade, once:
a text that was seen before has the outcome that it had. A round in which no group has different rewards trains nothing and
counts. What is there already is not run again.

Not covered: policies of a useful size, the sampler and the trainer as commands of a pipe (async.py has them).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from duration_family import command, read

from mletools.base.ids import content_id, derive_seed
from mletools.grading.rewards import partial_credit

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

ARMS = {"none": 0.0, "credit": 0.1}
GROUP, RIGHT, TAUGHT, MAX_TOKENS, LAST = 64, 1 / 3, 600, 240, 5
PARTS = (
    (
        "from sklearn.tree import DecisionTreeClassifier as Model",
        "from sklearn.trees import DecisionTreeClassifier as Model",
        "from sklearn.tree import DecisionTree as Model",
        "from sklearn import DecisionTreeClassifier as Model",
    ),
    (
        'train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")',
        'train, test = pd.read_csv("train.csv"), pd.read_csv("test.csv")',
        'train, test = pd.read_csv("input/train.tsv"), pd.read_csv("input/test.tsv")',
        'train, test = pd.load_csv("input/train.csv"), pd.load_csv("input/test.csv")',
    ),
    (
        'sub = pd.read_csv("input/sample_submission.csv")\nx, y = test.columns[1:], sub.columns[1]',
        'sub = pd.read_csv("input/sample_submission.csv")\nx, y = test.columns[1:], sub.columns[2]',
        'sub = pd.read_csv("input/submission.csv")\nx, y = test.columns[1:], sub.columns[1]',
        'sub = pd.read_csv("input/sample_submission.csv")\nx, y = test.names[1:], sub.columns[1]',
    ),
    (
        "model = Model(max_depth=4)",
        "model = Model(depth=4)",
        "model = Model(max_depth=4, trees=9)",
        "model = models.Model(max_depth=4)",
    ),
    (
        "model.fit(train[x], train[y])",
        "model.train(train[x], train[y])",
        "model.fit(train[x])",
        "model.fit(train[x], test[y])",
    ),
    (
        "found = model.predict(test[x])",
        "found = model.predict(test)",
        "found = model.prediction(test[x])",
        "found = model.predict(test[y])",
    ),
    (
        'sub[y] = found\nsub.to_csv("submission.csv", index=False)',
        'sub["found"] = found\nsub.to_csv("submission.csv", index=False)',
        'sub[y] = found\nsub.to_csv("solution.csv", index=False)',
        "sub[y] = found\nsub.to_csv()",
    ),
)


def text_of(forms: Sequence[int]) -> str:
    body = "\n".join(part[form] for part, form in zip(PARTS, forms, strict=True))
    return f"```python\nimport pandas as pd\n{body}\n```"


class NoFacts:
    """The prompt single-brief tells nothing of where programs run."""

    def fact(self, name: str) -> str:
        raise KeyError(name)


def question(job: Any) -> str:
    from mletools.scaffolds.messages import task_prompt

    return task_prompt("single-brief", job, NoFacts())


def jobs_of(task: dict[str, Any], seed: int, version: int | None, count: int) -> list[Any]:
    from mletools.rollout.runner import group_jobs
    from mletools.scaffolds.single import Single, SingleSettings

    scaffold = Single()
    settings = scaffold.check(SingleSettings(prompt="single-brief"))
    policy = {"model": "tiny", "version": version, "sampling": {"temperature": 1.0, "top_p": 1.0, "max_tokens": 1024}}
    return group_jobs(scaffold, "single", settings, task, policy, count, seed)


def record(job: Any, reply: Any) -> dict[str, Any]:
    from mletools.rollout.metered_model import as_answer
    from mletools.scaffolds.single import record_of

    return record_of(job, {"role": "user", "content": question(job)}, as_answer(reply, 0.0))


def taught(out: Path) -> tuple[list[dict[str, Any]], Path]:
    """The tasks, and the policy that was taught to write programs with mistakes."""
    from mletools.models import Reply

    tasks, teacher, folder = out / "tasks.jsonl", out / "teacher.jsonl", out / "sft"
    if not tasks.exists():
        command(
            "mle-gen-task", "--source", "sklearn:wine,breast_cancer", "-n", "2", "--data", str(out), "-o", str(tasks)
        )
    if not (folder / "done").exists():
        draw, records = random.Random(0), []
        for task in read(tasks):
            for job in jobs_of(task, 0, None, TAUGHT // 2):
                forms = [0 if draw.random() < RIGHT else draw.randint(1, 3) for _ in PARTS]
                records.append(record(job, Reply(text=text_of(forms), finish_reason="stop")))
        teacher.write_text("".join(json.dumps(each) + "\n" for each in records))
        shutil.rmtree(folder, ignore_errors=True)
        rates = ["--learning-rate", "6e-3", "--batch", "50", "--micro-batch", "50", "--save-steps", "1000000"]
        where = ["--from-scratch", "nano", "--run-dir", str(folder), "-o", str(out / "sft.steps.jsonl")]
        command("mle-train-sft", *where, *rates, "--epochs", "30", str(teacher))
        (folder / "done").touch()
    return read(tasks), folder / "latest"


class Judge:
    """Runs programs through the commands, each text on each task once; what is known stays in a file."""

    def __init__(self, out: Path) -> None:
        self._file = out / "outcomes.jsonl"
        self._known = {each["key"]: each for each in read(self._file)} if self._file.exists() else {}
        lines = [
            ["mle-instrument", "-q"],
            ["mle-sandbox", "-q", "-j", "2", "--data", str(out), "--timeout", "20"],
            ["mle-grade", "-q", "--data", str(out), "--reward", "partial-credit"],
        ]
        self._pipe: list[subprocess.Popen[str]] = []
        for line in lines:
            program = [str(Path(sys.executable).parent / line[0]), *line[1:]]
            source = self._pipe[-1].stdout if self._pipe else subprocess.PIPE
            self._pipe.append(subprocess.Popen(program, stdin=source, stdout=subprocess.PIPE, text=True))

    def outcomes(self, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """score (None where it is not valid), lower (is better), markers: of each."""
        keys = [content_id([each["task"]["id"], each["code"]]) for each in records]
        unseen = {key: each for key, each in zip(keys, records, strict=True) if key not in self._known}
        source, sink = self._pipe[0].stdin, self._pipe[-1].stdout
        assert source is not None and sink is not None
        lines = "".join(json.dumps(each) + "\n" for each in unseen.values())
        writer = threading.Thread(target=lambda: (source.write(lines), source.flush()))  # or the pipe would fill up
        writer.start()
        key_of = {each["id"]: key for key, each in unseen.items()}
        with self._file.open("a") as kept:
            for _ in unseen:
                graded = json.loads(sink.readline())
                told = {
                    "key": key_of[graded["id"]], "markers": len(graded["execution"]["markers"]),
                    "score": graded["grade"]["score"], "lower": graded["grade"]["lower_is_better"],
                    "status": graded["execution"]["status"],
                }  # fmt: skip
                self._known[told["key"]] = told
                kept.write(json.dumps(told) + "\n")
        writer.join()
        return [self._known[key] for key in keys]

    def close(self) -> None:
        assert self._pipe[0].stdin is not None
        self._pipe[0].stdin.close()
        for process in self._pipe:
            process.wait()


def rounds(
    run: Any, tasks: Sequence[dict[str, Any]], judge: Judge, credit: float, told: list[dict[str, Any]],
    policy: Path, count: int, seed: int,
) -> Iterator[Any]:  # fmt: skip
    """The steps of an arm; `told` gets what each round came to."""
    from mletools.models.hf import HfModel
    from mletools.training.group_buffer import GroupBuffer

    sampler = HfModel(policy, threads=1)
    sampler._model = run.policy  # the one that is trained, in place of a copy
    for number in range(count):
        run.policy.eval()
        drawn = derive_seed(seed, number)
        jobs = [job for task in tasks for job in jobs_of(task, drawn, run.policy_version, GROUP)]
        requests = [request(job) for job in jobs]
        records = [record(job, reply) for job, reply in zip(jobs, sampler.sample(requests), strict=True)]
        run.policy.train()
        outcomes = judge.outcomes(records)
        pool = GroupBuffer(run.recipe, {}, run.dropped)
        for each, found in zip(records, outcomes, strict=True):
            reward = partial_credit(found["score"], found["lower"], found["markers"], credit=credit)
            pool.add(run.sample({**each, "reward": reward}))
        pool.end()
        step = pool.take()
        scores = [found["score"] for found in outcomes if found["score"] is not None]
        reports = statistics.fmean(found["markers"] for found in outcomes)
        told.append({"valid": len(scores) / len(outcomes), "reports": reports, "trained": step is not None})
        if step is not None:
            yield step


def request(job: Any) -> Any:
    from mletools.models import Request

    return Request([{"role": "user", "content": question(job)}], job.seed, max_tokens=MAX_TOKENS)


def play(
    arm: str, seed: int, tasks: Sequence[dict[str, Any]], policy: Path, judge: Judge, given: argparse.Namespace
) -> Any:
    """The rounds of one run; kept as a file, which is read where it is there."""
    out: Path = given.run_dir
    file = out / f"{arm}-{seed}-{given.beta:g}-{given.learning_rate:g}.json"
    if not file.exists():
        from mletools.training.grpo import GrpoOptions, GrpoRun

        class Watched(GrpoRun):
            policy: Any = None

            def begin(self, trainer: Any, optimizer: Any) -> None:
                super().begin(trainer, optimizer)
                self.policy = trainer.model

        options = GrpoOptions(
            groups_per_step=len(tasks),
            learning_rate=given.learning_rate,
            beta=given.beta,
            mismatch="clip",
            micro_batch=GROUP,
            lora_rank=0,
            save_steps=10**9,
            seed=seed,
        )
        folder, told = out / f"run-{arm}-{seed}", list[dict[str, Any]]()
        shutil.rmtree(folder, ignore_errors=True)
        run = Watched(str(policy), folder, options)
        # the steps are made of the policy of the moment, in place of a pipe that is read
        for _ in run._drive(rounds(run, tasks, judge, ARMS[arm], told, policy, given.rounds, seed), 1.0, None):
            print(f"\r{arm} {seed}: round {len(told)}: {told[-1]}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        shutil.rmtree(folder)
        file.write_text(json.dumps(told))
    return json.loads(file.read_text())


def said(values: Iterable[float], digits: int = 1) -> str:
    values = list(values)
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):.{digits}f} ± {error:.{digits}f}"


def first_valid(told: Sequence[dict[str, Any]]) -> int:
    """The round, from 1; one more than there were where there was none."""
    return next((at for at, each in enumerate(told, 1) if each["valid"]), len(told) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=60, help="of 128 rollouts")
    parser.add_argument("--beta", type=float, default=0.04, help="of the KL term; default that of GRPO's paper")
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    given = parser.parse_args()
    import torch
    from tabulate import tabulate

    torch.set_num_threads(1)
    given.run_dir.mkdir(parents=True, exist_ok=True)
    tasks, policy = taught(given.run_dir)
    judge = Judge(given.run_dir)
    found: dict[str, list[Any]] = {arm: [] for arm in ARMS}
    for seed in range(given.seeds):
        for arm, runs in found.items():
            runs.append(play(arm, seed, tasks, policy, judge, given))
    judge.close()
    marks = [mark for mark in (1, 10, 20, 40, 60, 80) if mark <= given.rounds]
    rows = []
    for arm, runs in found.items():
        firsts = [first_valid(told) for told in runs]
        row = [arm, f"{sum(first <= given.rounds for first in firsts)} of {len(runs)}", ", ".join(map(str, firsts))]
        row += [said(100 * statistics.fmean(each["valid"] for each in told[max(0, mark - LAST) : mark]) for told in runs)
                for mark in marks]  # fmt: skip
        row += [said(statistics.fmean(each["reports"] for each in told[-LAST:]) for told in runs)]
        rows.append([*row, said(100 * statistics.fmean(each["trained"] for each in told) for told in runs)])
    heads = ["", "found a valid one", "in round", *(f"valid at {mark}, %" for mark in marks), "reports at the end",
             "rounds that trained, %"]  # fmt: skip
    print(tabulate(rows, heads, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
