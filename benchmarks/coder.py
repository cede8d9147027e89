r"""What a real coder does in every scaffold: Qwen2.5-Coder-Instruct, on real and on generated tables.

    make small-model MODEL=qwen2.5-coder-0.5b
    python benchmarks/coder.py tasks                                      # coder/tasks-SET.jsonl below --data
    python -m vllm.entrypoints.openai.api_server --model qwen2.5-coder-0.5b --served-model-name qwen2.5-coder-0.5b --port 8123 \
      --dtype bfloat16 --generation-config vllm --max-model-len 16384 --max-num-seqs 32 --no-enable-chunked-prefill   # what is not sent is plain
    python benchmarks/coder.py play VARIANT qwen2.5-coder-0.5b --url http://127.0.0.1:8123 --set test [--scaffolds single react]
    python benchmarks/coder.py table                                      # coder.md's tables from the kept rollouts
    python benchmarks/coder.py compare ONE OTHER --set test               # two variants, differences over tasks
    python benchmarks/coder.py own                                        # programs that are no copies
    python benchmarks/coder.py write VARIANT qwen2.5-coder-0.5b --url http://127.0.0.1:8123   # tasks, in mle-gen-task's four roles
    python benchmarks/coder.py roles                                      # how far the drafts came
    python benchmarks/coder.py waste VARIANT --set test                   # what came of each message, by scaffold
    python benchmarks/coder.py show VARIANT [NUMBER ...]                  # kept transcripts, to be read

Two sets of tasks, each of 10 real tables (mle-gen-task --source tables) and 10 generated ones: `dev`, on which prompts
were made and chosen, and `test`, which chose nothing. Every rollout that is counted is kept in
coder/VARIANT/MODEL-SET-SCAFFOLD.jsonl, without what its task can be made again from. Plays are resumed where they were.
A rollout counts as readable by its turns: exact as the prompt asks, lenient where one reading is certain.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tabulate import tabulate

HERE = Path(__file__).resolve().parent / "coder"
SEEDS = {"dev": 41, "test": 42}
SANDBOX = ("--timeout", "60")
LIBRARIES = re.compile(r"/(?:[\w.+-]+/)+?(?=lib/python3)")  # what stands ahead of an interpreter's library
MOST_PROMPT, MOST_OBSERVATION = 200, 600  # characters that are kept
# Options of each scaffold: bounds that an answer of a small model fits into, and rollouts of a task.
SCAFFOLDS = {
    "single": ("--max-tokens", "1200", "-g", "2"),
    "improve": ("--max-answer-tokens", "1200", "-g", "1"),
    "react": ("--max-turns", "6", "--max-answer-tokens", "700", "--format", "lenient", "-g", "1"),
    "codeact": ("--max-turns", "6", "--max-answer-tokens", "700", "--format", "lenient", "-g", "1"),
    "memory": ("--max-turns", "4", "--max-answer-tokens", "1000", "--max-traces", "2", "--format", "lenient", "-g", "1"),
    "search": ("--max-turns", "6", "--max-answer-tokens", "1000", "--max-seconds", "900", "-g", "1"),
    # From states of the simulated agent: the model has the idea, or carries out the simulated ideator's.
    "idea": ("--implementer", "scripted", "--max-tokens", "700", "--format", "lenient", "-g", "1"),
    "implement": ("--max-tokens", "700", "--max-answer-tokens", "1200", "--format", "lenient", "-g", "1"),
}  # fmt: skip
DRAFTS, MOST_REPLY = 10, 3000
FROM_STATES = ("idea", "implement")
STATES = (
    "--scaffold",
    "codeact",
    "--ideator",
    "scripted:ideator",
    "--max-turns",
    "8",
    "--timeout",
    "60",
    "--seed",
    "1",
)


def tasks(data: Path) -> None:
    """Make both sets."""
    for name, seed in SEEDS.items():
        for kind, options in (
            ("real", ("--source", "tables")),
            ("generated", ("--source", "tabular", "--samples", "300-600")),
        ):
            out = data / f"{kind}-{name}.jsonl"
            words = [
                "mle-gen-task",
                "-q",
                "-n",
                "10",
                *options,
                "--seed",
                str(seed),
                "-j",
                "2",
                "-o",
                str(out),
                "--resume",
            ]
            run(words, data)
        words = [
            "mle-rollout",
            "-q",
            "-m",
            "scripted",
            *STATES,
            "-j",
            "2",
            "--write-states",
            str(data / f"states-{name}.jsonl"),
        ]
        words += [str(data / f"{kind}-{name}.jsonl") for kind in ("real", "generated")]
        run([*words, "-o", str(data / f"states-{name}-rollouts.jsonl"), "--resume"], data)


def play(data: Path, variant: str, model: str, given: argparse.Namespace) -> None:
    """Play the scaffolds on a set, grade, and keep what counts. On a server all scaffolds at once: it is never idle."""
    names = [data / f"{kind}-{given.set}.jsonl" for kind in ("real", "generated")]
    real = {json.loads(line)["id"] for line in names[0].read_text().splitlines()}
    if given.each:
        names = [first(name, given.each) for name in names]
    engine = ["--model-url", given.url, "--request-timeout", "3600"] if given.url else ["--dtype", "bfloat16"]

    def one(scaffold: str) -> None:
        out = data / variant / f"{name_of(model)}-{given.set}-{scaffold}"
        out.parent.mkdir(exist_ok=True)
        words = [given.rollout, "-q", *SCAFFOLDS[scaffold], "-j", str(given.jobs)]
        match scaffold:
            case "implement":
                words += ["--scaffold", "idea", "-m", "scripted:ideator", "--implementer", model]
                words += [word.replace("--model-", "--implementer-") for word in engine]
            case _:
                words += ["--scaffold", scaffold, "-m", model, *engine]
        words += ["--defaults", "evaluation", "--seed", "1", *given.more]
        words += ["--temperature", str(given.temperature)] if given.temperature is not None else []
        words += SANDBOX if scaffold != "single" else ()
        states = data / f"states-{given.set}.jsonl"
        sources = names
        if scaffold in FROM_STATES:
            sources = [first(states, given.states) if given.states else states]
        run([*words, *map(str, sources), "-o", f"{out}.rollouts.jsonl", "--resume"], data)
        source = f"{out}.rollouts.jsonl"
        if scaffold == "single":
            words = [given.sandbox, "-q", "--timeout", "60", "-j", "2", source, "-o", f"{out}.runs.jsonl", "--resume"]
            run(words, data)
            source = f"{out}.runs.jsonl"
        rule = ["--reward", "improvement"] if scaffold in FROM_STATES else []
        run(["mle-grade", "-q", *rule, source, "-o", f"{out}.graded.jsonl", "--resume"], data)
        kept = HERE / variant / f"{out.name}.jsonl"
        kept.parent.mkdir(parents=True, exist_ok=True)
        lines = [without_task(json.loads(line), real) for line in Path(f"{out}.graded.jsonl").read_text().splitlines()]
        kept.write_text("".join(json.dumps(line) + "\n" for line in lines))

    with ThreadPoolExecutor(len(SCAFFOLDS) if given.url else 1) as pool:
        list(pool.map(one, given.scaffolds or SCAFFOLDS))


def first(path: Path, number: int) -> Path:
    """A file of the first tasks of `path`, beside it."""
    part = path.with_stem(f"{path.stem}-{number}")
    part.write_text("".join(path.read_text().splitlines(keepends=True)[:number]))
    return part


def write(data: Path, variant: str, model: str, given: argparse.Namespace) -> None:
    """Let the model write tasks like the generated ones of `dev`, and keep its replies."""
    out = data / variant / f"{name_of(model)}-write"
    out.parent.mkdir(exist_ok=True)
    engine = ["--model-url", given.url, "--request-timeout", "3600"] if given.url else ["--dtype", "bfloat16"]
    words = [
        "mle-gen-task",
        "-q",
        "--source",
        "llm",
        "--seeds",
        str(data / "generated-dev.jsonl"),
        "-n",
        str(DRAFTS),
        "-m",
        model,
    ]
    words += [
        *engine,
        "-j",
        str(given.jobs),
        "--journal",
        f"{out}.journal.jsonl",
        "--rejects",
        f"{out}.rejects.jsonl",
        *given.more,
    ]
    run(
        [*words, "--max-tokens", "3000", "-o", f"{out}.jsonl", "--resume"], data, may_fail=True
    )  # it fails where no draft is left
    made = (
        [json.loads(line) for line in Path(f"{out}.jsonl").read_text().splitlines()]
        if Path(f"{out}.jsonl").exists()
        else []
    )
    replies = [json.loads(line) for line in Path(f"{out}.journal.jsonl").read_text().splitlines()]
    names = ("role", "task", "attempt", "prompt_tokens", "completion_tokens", "finish_reason", "error")
    kept = HERE / variant / f"{out.name}.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    rejects = [json.loads(line)["reason"] for line in Path(f"{out}.rejects.jsonl").read_text().splitlines()]
    rows = [{**{name: reply[name] for name in names}, "reply": reply["reply"][:MOST_REPLY]} for reply in replies]
    tasks_made = [{"name": task["name"], "problem": task["problem"], "metric": task["metric"]["name"]} for task in made]
    content = {"drafts": DRAFTS, "made": tasks_made, "rejects": rejects, "replies": rows}
    kept.write_text(json.dumps(without_places(content), indent=1) + "\n")


def roles() -> None:
    """How far the drafts of tasks came: of each role, the drafts that asked it, its replies, and the drafts that went on."""
    for path in sorted(HERE.glob("*/*-write.json")):
        content = json.loads(path.read_text())
        drafts: dict[str, set[str]] = defaultdict(set)
        replies: Counter[str] = Counter()
        cut: Counter[str] = Counter()
        tokens: Counter[str] = Counter()
        for reply in content["replies"]:
            role = reply["role"]
            drafts[role].add(reply["task"])
            replies[role] += 1
            cut[role] += reply["finish_reason"] == "length"
            tokens[role] += reply["completion_tokens"]
        rows = [[role, len(drafts[role]), replies[role], cut[role], tokens[role] // replies[role]] for role in drafts]
        heads = ["role", "drafts that reached it", "replies", "cut off", "tokens per reply"]
        print(
            f"\n## {path.parent.name} {path.stem}: {len(content['made'])} of {content['drafts']} drafts became tasks\n"
        )
        print(tabulate(rows, heads, tablefmt="github"))
        for reason in content["rejects"]:
            print("-", reason[:200])


def name_of(model: str) -> str:
    """The model's own name: the file or folder of a specification, without engine and ending."""
    return Path(model.rpartition(":")[2]).name.removesuffix(".gguf")


def run(words: list[str], data: Path, may_fail: bool = False) -> None:
    done = subprocess.run(words, env={**os.environ, "MLE_DATA": str(data)})
    if done.returncode and not may_fail:
        sys.exit(f"{' '.join(words)}: exit status {done.returncode}")


def without_places(record: dict[str, Any]) -> dict[str, Any]:
    """The record without the folders of this machine, which tracebacks of programs quote."""
    text = LIBRARIES.sub("ENVIRONMENT/", json.dumps(record)).replace(str(HERE.parent.parent), "PROJECT")
    return dict(json.loads(text))


def without_task(record: dict[str, Any], real: set[str]) -> dict[str, Any]:
    record = without_places(record)  # before texts are cut, also within a path
    task = record["task"]
    record["task"] = {
        "id": task["id"],
        "source": "real" if task["id"] in real else "generated",
        "metric": task["metric"]["name"],
    }
    for message in record["messages"]:
        for name in ("token_ids", "prompt_token_ids", "logprobs"):
            message.pop(name, None)
    for at, message in enumerate(record["messages"]):  # prompts are made from the task again
        if message["role"] != "assistant":
            message["content"] = message["content"][: MOST_PROMPT if at < 2 else MOST_OBSERVATION]
    for holder in (record, *record["turns"]):
        if holder.get("execution"):
            for name in ("stdout", "stderr"):
                if isinstance(holder["execution"].get(name), str):
                    holder["execution"][name] = holder["execution"][name][-2000:]
    record.pop("lineage")
    record.pop("state", None)
    return record


def kept(variant: str, model: str = "*", of: str = "*", scaffold: str = "*") -> list[dict[str, Any]]:
    found = []
    for path in sorted((HERE / variant).glob(f"{model}-{of}-{scaffold}.jsonl")):
        stem, of_set, name = path.stem.rsplit("-", 2)
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        found += [{**row, "played": (stem, of_set, name)} for row in rows]
    return found


MOST_TASKS_OF_ONE = 2  # one program in episodes of more tasks is copied from what their prompts show
LEAST_LINES = 5


def own_programs(rows: list[dict[str, Any]]) -> list[int]:
    """Of each rollout of one scaffold, how many programs are its own: of LEAST_LINES lines, no earlier one of the episode
    again, and none that episodes of several tasks share."""
    texts = []
    for row in rows:
        codes = [turn.get("code") for turn in row["turns"]] if any("code" in turn for turn in row["turns"]) else []
        texts.append([" ".join(code.split()) for code in codes or [row.get("code")] if code])
    sizes = {
        " ".join(code.split()): len([line for line in code.splitlines() if line.strip()])
        for row in rows
        for code in [row.get("code"), *(turn.get("code") for turn in row["turns"])]
        if code
    }
    tasks_of = defaultdict(set)
    for row, programs in zip(rows, texts, strict=True):
        for text in programs:
            tasks_of[text].add(row["task"]["id"])
    return [
        sum(sizes[text] >= LEAST_LINES and len(tasks_of[text]) <= MOST_TASKS_OF_ONE for text in dict.fromkeys(programs))
        for programs in texts
    ]


def own() -> None:
    """Programs of the model's own, by variant, model, set and scaffold."""
    rows = []
    for variant in sorted(path.name for path in HERE.iterdir() if path.is_dir()):
        groups = defaultdict(list)
        for row in kept(variant):
            groups[row["played"]].append(row)
        for (model, of, scaffold), group in sorted(groups.items()):
            counts = own_programs(group)
            messages = sum(len(row["turns"]) for row in group)
            rows.append(
                [variant, model, of, scaffold, len(group), sum(counts), f"{sum(map(bool, counts)) / len(counts):.0%}"]
            )
            rows[-1].append(f"{sum(counts) / messages:.0%}")
    heads = ["variant", "model", "set", "scaffold", "n", "own programs", "episodes with one", "of all messages"]
    print(tabulate(rows, heads, tablefmt="github"))


def measures(record: dict[str, Any]) -> dict[str, float]:
    """Of a rollout, each between 0 and 1 but for the counts."""
    reads = [turn["format"]["read"] for turn in record["turns"] if "format" in turn]
    grade = record.get("grade") or {}
    return {
        "exact": reads.count("exact") / len(reads) if reads else 0.0,
        "readable": (len(reads) - reads.count("none")) / len(reads) if reads else 0.0,
        "valid": float(bool(grade.get("valid"))),
        "above median": float(bool(grade.get("above_median"))),
        "medal": float(bool(grade.get("medal"))),
        "turns": len(record["turns"]),
        "programs": sum(bool(turn.get("execution") or turn.get("code")) for turn in record["turns"]),
        "tokens": record["usage"]["completion_tokens"] or 0,
        "seconds": record["usage"]["seconds"],
    }


SHARES = ("exact", "readable", "valid", "above median", "medal")


def table() -> None:
    """A line for each variant, model, set and scaffold."""
    for variant in sorted(path.name for path in HERE.iterdir() if path.is_dir()):
        groups = defaultdict(list)
        for row in kept(variant):
            groups[row["played"]].append(row)
        rows = []
        for (model, of, scaffold), group in sorted(groups.items()):
            found = [measures(row) for row in group]
            mean = {name: statistics.fmean(each[name] for each in found) for name in found[0]}
            stops = Counter(row["stop_reason"] for row in group)
            rows.append(
                [model, of, scaffold, len(group), *(f"{mean[name]:.0%}" for name in SHARES)]
                + [f"{mean[name]:.1f}" for name in ("turns", "programs")]
                + [f"{mean[name]:.0f}" for name in ("tokens", "seconds")]
                + [", ".join(f"{name} {count}" for name, count in stops.most_common(3))]
            )
        heads = ["model", "set", "scaffold", "n", *SHARES, "turns", "programs", "tokens", "seconds", "ended by"]
        print(f"\n## {variant}\n\n{tabulate(rows, heads, tablefmt='github')}")


def compare(one: str, other: str, of: str) -> None:
    """Differences of two variants on the same tasks: means over tasks, with intervals of 95 % (Student's t)."""
    rows = []
    by: dict[str, dict[Any, dict[str, list[dict[str, float]]]]] = {}
    for name in (one, other):
        groups: dict[Any, dict[str, list[dict[str, float]]]] = defaultdict(lambda: defaultdict(list))
        for row in kept(name, of=of):
            groups[row["played"]][row["task"]["id"]].append(measures(row))
        by[name] = groups
    for played in sorted(by[one].keys() & by[other].keys()):
        before, after = by[one][played], by[other][played]
        both = sorted(before.keys() & after.keys())
        line = [played[0], played[2], len(both)]
        for name in ("exact", "readable", "valid", "above median", "tokens"):
            gains = [mean_of(after[task], name) - mean_of(before[task], name) for task in both]
            line.append(interval(gains, 1 if name == "tokens" else 100))
        rows.append(line)
    heads = ["model", "scaffold", "tasks", "exact", "readable", "valid", "above median", "tokens"]
    print(f"{other} less {one}, points of 100 (tokens: tokens)\n\n{tabulate(rows, heads, tablefmt='github')}")


def waste(variant: str, of: str) -> None:
    """What came of each message, as counts by scaffold."""
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for row in kept(variant, of=of):
        groups[row["played"][2]].update(outcomes(row))
    names = sorted({name for counts in groups.values() for name in counts}, key=lambda name: OUTCOMES.index(name))
    rows = [[name, *(groups[scaffold][name] or "" for scaffold in groups)] for name in names]
    print(
        tabulate(
            [*rows, ["messages", *(counts.total() for counts in groups.values())]], ["", *groups], tablefmt="github"
        )
    )


OUTCOMES = (
    "valid submission", "submission is invalid", "program ends, hands in nothing", "program fails", "program is stopped",
    "action without a program", "asks for the score of nothing", "ends with nothing to hand in", "program in no form that is read",
    "words alone, again as before", "words alone", "cut off",
)  # fmt: skip


def outcomes(row: dict[str, Any]) -> list[str]:
    """One of OUTCOMES for each message of a policy."""
    said = [message["content"] for message in row["messages"] if message["role"] == "assistant"]
    found = []
    for at, (turn, content) in enumerate(zip(row["turns"], said, strict=False)):
        single = row["played"][2] in ("single", "improve")
        execution = (
            turn.get("execution")
            or turn.get("cell")
            or (row.get("execution") if single and row.get("code") and at == len(row["turns"]) - 1 else None)
        )
        grade = turn.get("grade") or turn.get("validation") or (row.get("grade") if single else None) or {}
        problem = turn.get("problem") or ((turn.get("format") or {}).get("rule") if not execution else None)
        if execution and execution.get("status") not in ("no_code", None):
            handed_in = turn.get("submission") or execution.get("submission")
            if execution["status"] == "error":
                found.append("program fails")
            elif execution["status"] != "ok":
                found.append("program is stopped")
            else:
                valid = "valid submission" if grade.get("valid") else "submission is invalid"
                found.append(valid if handed_in else "program ends, hands in nothing")
        elif problem == "early" or turn.get("action") in ("finish", "answer"):
            found.append("ends with nothing to hand in")
        elif turn.get("action") == "score":
            found.append("asks for the score of nothing")
        elif problem == "length":
            found.append("cut off")
        elif turn.get("action") not in (None, "none") and not problem:
            found.append("action without a program")
        elif "import " in content or "```" in content:
            found.append("program in no form that is read")
        else:
            found.append("words alone, again as before" if at and content == said[at - 1] else "words alone")
    return found


def mean_of(rows: Iterable[dict[str, float]], name: str) -> float:
    return statistics.fmean(row[name] for row in rows)


def interval(values: list[float], scale: float) -> str:
    from scipy.stats import t

    mean = scale * statistics.fmean(values)
    half = scale * statistics.stdev(values) / math.sqrt(len(values)) * t.ppf(0.975, len(values) - 1)
    return f"{mean:+.0f} ({mean - half:.0f} to {mean + half:.0f})"


def show(variant: str, numbers: list[int], given: argparse.Namespace) -> None:
    rows = kept(variant, of=given.set, scaffold=given.scaffolds[0] if given.scaffolds else "*")
    for number in numbers or range(len(rows)):
        row = rows[number]
        print(
            f"\n{'=' * 100}\n{number} {row['played']} {row['task']} {row['stop_reason']} grade {row.get('grade', {}).get('reason')}"
        )
        for message in row["messages"]:
            if message["role"] != "system":
                print(f"---- {message['role']}\n{message['content'][: given.characters]}")
        if row["played"][2] == "single":
            execution = row.get("execution") or {}
            print("----", execution.get("status"), (execution.get("stderr") or "")[-600:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tasks", "play", "write", "roles", "table", "compare", "own", "waste", "show"))
    parser.add_argument("words", nargs="*")
    parser.add_argument("--data", type=Path, default=Path("runs/coder"))
    parser.add_argument("--set", default="dev", choices=tuple(SEEDS))
    parser.add_argument("--each", type=int, help="play only so many real tables and so many generated ones")
    parser.add_argument("--states", type=int, help="play only so many states")
    parser.add_argument("--scaffolds", nargs="*", choices=tuple(SCAFFOLDS))
    parser.add_argument("--rollout", default="mle-rollout", help="the command, of the environment with the engine")
    parser.add_argument("--jobs", "-j", type=int, default=16)
    parser.add_argument("--sandbox", default="mle-sandbox", help="the command, of the environment that programs run in")
    parser.add_argument("--url", help="a server of the model: all scaffolds are played at once")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument(
        "--own-sampling", dest="temperature", action="store_const", const=None, help="send no temperature"
    )
    parser.add_argument("--characters", type=int, default=3000)
    parser.add_argument("--more", nargs=argparse.REMAINDER, default=[], help="further options of mle-rollout, last")
    given = parser.parse_args()
    data = given.data.resolve()
    data.mkdir(parents=True, exist_ok=True)
    match given.what:
        case "tasks":
            tasks(data)
        case "play":
            variant, model = given.words
            play(data, variant, model, given)
        case "write":
            variant, model = given.words
            write(data, variant, model, given)
        case "roles":
            roles()
        case "table":
            table()
        case "compare":
            before, after = given.words
            compare(before, after, given.set)
        case "own":
            own()
        case "waste":
            waste(given.words[0], given.set)
        case "show":
            show(given.words[0], [int(word) for word in given.words[1:]], given)


if __name__ == "__main__":
    main()
