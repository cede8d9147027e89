"""Rollouts written by hand for the tests of mle-show: react, codeact with a question to an ideator, a single answer."""

from typing import Any

FIRST = """import pandas as pd
train = pd.read_csv("input/train.csv")
sub = pd.read_csv("input/sample_submission.csv")

def predicted(rows):
\treturn rows["a"] * 2

sub["y"] = predicted(train)
sub.to_csv("submission.csv", index=False)
"""
SECOND = FIRST.replace("* 2", "* 3")
EXECUTION: dict[str, Any] = {
    "status": "ok",
    "exit_code": 0,
    "duration_s": 1.5,
    "cpu_s": 1.0,
    "peak_memory_mb": 120.0,
    "stdout": {"head": "fold 1\nfold 2\n", "tail": "", "bytes": 14},
    "stderr": {"head": "", "tail": "", "bytes": 0},
    "markers": [],
    "submission": {"file": "submissions/aa/aa.csv", "digest": "sha256:aa", "bytes": 420},
    "submission_problem": None,
    "backend": "local",
    "start": "warm",
    "gpu": None,
    "protections": {},
    "limits": {},
}
FAILED = {
    **EXECUTION,
    "status": "error",
    "exit_code": 1,
    "stderr": {"head": "KeyError: 'a'\n", "tail": "", "bytes": 14},
    "submission": None,
    "submission_problem": "submission.csv is not there",
}


def usage(prompt: int | None, completion: int | None, usd: float | None = None) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "seconds": 2.0, "usd": usd}


def grade(score: float | None, medal: str | None = None, reason: str | None = None) -> dict[str, Any]:
    return {
        "valid": score is not None,
        "reason": reason,
        "score": score,
        "medal": medal,
        "above_median": medal is not None,
        "thresholds": {"median": 2.0, "bronze": 1.5, "silver": 1.2, "gold": 1.0},
        "position": 3,
        "teams": 40,
        "metric": "rmse",
        "lower_is_better": True,
        "digest": "sha256:aa",
        "reward": {"rule": "milestone", "format_rate": 1.0},
    }


def score(value: float) -> dict[str, Any]:
    return {"valid": True, "reason": None, "score": value}


def task() -> dict[str, Any]:
    return {
        "kind": "task",
        "version": 1,
        "id": "pond-1",
        "lineage": [],
        "name": "pond",
        "description": "# Pond",
        "modality": "tabular",
        "problem": "regression",
        "data": {"dir": "tasks/pond", "public": ["train.csv"], "digest": "sha256:00", "private_digest": "sha256:11"},
        "submission": {"id": ["id"], "target": ["y"], "parse": "number", "rows": 20},
        "metric": {"name": "rmse", "params": {}, "lower_is_better": True},
        "answers": "private/answers.csv",
        "thresholds": {"median": 2.0, "bronze": 1.5, "silver": 1.2, "gold": 1.0},
        "provenance": {"source": "by hand", "seed": 0, "baselines": [], "sanity": {}},
    }


def rollout(scaffold: str, id: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": "rollout",
        "version": 1,
        "id": id,
        "lineage": [],
        "task": task(),
        "group": f"group-of-{id}",
        "group_size": 4,
        "sample": 1,
        "seed": 7,
        "scaffold": scaffold,
        "policy": {"model": "pond-8b", "version": 3, "sampling": {"temperature": 1.0}},
        "usage": usage(4000, 300, 0.0123),
        "stop_reason": "finished",
        **more,
    }


def react() -> dict[str, Any]:
    """Think and run, a message without an action, run what changed, ask for the score, answer."""
    asked = [{"role": "system", "content": "You work in turns."}, {"role": "user", "content": "Predict y."}]
    prompt = "\n".join(f"rule {number} of the house" for number in range(60))
    said = [
        f"<think>Twice a may do.</think>\n<python>\n{FIRST}</python>",
        "<think>Hm.</think> I am not sure.",
        f"<think>Thrice, then.</think>\n<python>\n{SECOND}</python>",
        "<think>How good is it?</think>\n<score></score>",
        "<think>Good enough.</think>\n<answer>submission.csv</answer>",
    ]
    told = ["KeyError: 'a'", "Your message takes no action.", "fold 1\nfold 2", "validation score 1.1", ""]
    messages = [asked[0], {"role": "user", "content": prompt}]
    for own, answer in zip(said, told, strict=True):
        messages.append({"role": "assistant", "content": own, "loss": True})
        if answer:
            messages.append({"role": "user", "content": answer})
    common = {"duration_s": 3.5, "usage": usage(800, 60, 0.002), "problem": None}
    turns = [
        {"action": "python", "message": 2, **common, "code": FIRST, "execution": FAILED, "validation": None},
        {"action": "none", "message": 4, **common, "problem": "missing"},
        {
            **{"action": "python", "message": 6, **common, "code": SECOND, "execution": EXECUTION},
            **{"validation": score(1.1), "grade": grade(1.3, "bronze")},
        },
        {"action": "score", "message": 8, **common, "validation": score(1.1), "dropped": [2, 3, 5]},
        {"action": "answer", "message": 10, **common},
    ]
    made = {"messages": messages, "turns": turns, "code": SECOND, "execution": EXECUTION}
    graded = {"validation": score(1.1), "grade": grade(1.3, "bronze"), "reward": 0.8, "format_rate": 0.8}
    return rollout("react", "react-1", **made, **graded)


def codeact() -> dict[str, Any]:
    """Two cells and a command in a session, and a question to an ideator between them."""
    said = [
        "<execute_ipython>import pandas as pd\nx = 1</execute_ipython>",
        "<seek_help>stuck</seek_help>",
        "<execute_bash>ls -la</execute_bash>",
        "<execute_ipython>print(x)</execute_ipython>",
    ]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Predict y."}]
    for at, own in enumerate(said):
        messages.append({"role": "assistant", "content": own, "reasoning": f"thought {at}", "loss": True})
        messages.append({"role": "user", "content": f"observation {at}"})
    cell = {"status": "ok", "output": {"head": "1\n", "tail": "", "bytes": 2}, "duration_s": 0.2, "alive": True}
    turns: list[dict[str, Any]] = [
        {"action": "python", "message": 1, "duration_s": 1.0, "code": "import pandas as pd\nx = 1", "cell": cell},
        {
            "action": "seek_help",
            "message": 3,
            "duration_s": 1.0,
            "help": {
                "query": {"problem_statement": "It does not learn.", "goal": "A medal."},
                "analysis": "Too few trees.",
                "action": "Use more trees.",
                "rationale": "They help.",
            },
        },
        {"action": "bash", "message": 5, "duration_s": 1.0, "code": "ls -la", "cell": cell},
        {
            "action": "python",
            "message": 7,
            "duration_s": 1.0,
            "code": "print(x)",
            "cell": {**cell, "status": "memory", "alive": False},
            "submission": EXECUTION["submission"],
            "validation": {"valid": False, "reason": "3 rows are missing", "score": None},
        },
    ]
    code = "import pandas as pd\nx = 1\n\nprint(x)"
    return rollout("codeact", "codeact-1", messages=messages, turns=turns, code=code, stop_reason="max_turns")


def single(**more: Any) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": "Predict y."},
        {"role": "assistant", "content": f"A plan.\n```python\n{FIRST}```", "loss": True},
    ]
    made = {"messages": messages, "turns": [{"action": "solve", "duration_s": 0.5}], "code": FIRST}
    return rollout("single", "single-1", **{**made, "execution": EXECUTION, "grade": grade(0.9, "gold"), **more})
