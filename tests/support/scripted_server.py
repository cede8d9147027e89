"""A server that speaks OpenAI's chat protocol and answers each role of the task generator as a test scripts it.

A reply is a text, a function of the conversation's first prompt, a Cut text (finish_reason "length"), or a function
that answers the request handler itself (to drop the line, say).
"""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# What only the prompt of one role says.
MARKS = {
    "dna": "Describe the structure of this task",
    "scenarios": "scenarios from different lines of work",
    "mutations": "disturbances of different types",
    "specification": "You design small machine learning tasks",
    "developer": "`generate_task_env.py`, that generates all data",
    "evaluator": "`evaluator.py`, that scores submissions",
    "writer": "You write the page of a machine learning competition",
}


@dataclass(frozen=True)
class Cut:
    """A reply that ends at the limit of tokens."""

    text: str


@dataclass(frozen=True)
class Raw:
    """What is done to the request's handler instead of an answer."""

    act: Callable[[Any], None]


class RoleServer:
    """`replies` maps a role to its replies in order, the last one for ever; `asked` keeps (role, messages)."""

    def __init__(self, replies: dict[str, list[Any]]):
        self.replies = {role: list(entries) for role, entries in replies.items()}
        self.asked: list[tuple[str, list[dict[str, str]]]] = []
        self.sees: Callable[[dict[str, Any]], object] = lambda body: None
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.sees(body)
                reply = server.next(body["messages"])
                if isinstance(reply, Raw):
                    reply.act(self)
                    return
                cut = isinstance(reply, Cut)
                text = reply.text if cut else reply
                content = json.dumps(
                    {
                        "choices": [{"message": {"content": text}, "finish_reason": "length" if cut else "stop"}],
                        "usage": {"prompt_tokens": 100, "completion_tokens": 10},
                    }
                ).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def next(self, messages: list[dict[str, str]]) -> Any:
        prompt = messages[0]["content"]
        role = next(role for role, mark in MARKS.items() if mark in prompt)
        with self._lock:
            self.asked.append((role, messages))
            entries = self.replies[role]
            reply = entries.pop(0) if len(entries) > 1 else entries[0]
        if callable(reply):
            return reply(prompt)
        return reply

    def count(self) -> Counter[str]:
        """How many questions each role was asked."""
        return Counter(role for role, _ in self.asked)

    def fed_back(self, role: str) -> list[str]:
        """The faults that a role was told, in order."""
        return [messages[-1]["content"] for asked, messages in self.asked if asked == role and len(messages) == 3]

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


# --- good replies -------------------------------------------------------------------------------------------------------

DNA = {
    "modality": "tabular",
    "problem": "regression",
    "inputs": [{"name": "feature_1", "nature": "positive number with a long right tail", "count": 2}],
    "target": {"kind": "number", "cardinality": "continuous", "distribution": "two modes"},
    "imbalance": False,
    "metric_family": "absolute error",
    "size": {"rows": 120, "files": 4},
}
SCENARIOS = [
    {
        "domain": f"trade {at}",
        "scenario": f"saw mill number {at} grades boards",
        "justification": "one row is one board",
    }
    for at in range(5)
]
MUTATIONS = [
    {"type": "label noise", "share": 0.05},
    {"type": "missing values", "share": 0.1},
    {"type": "outliers", "count": 3},
]
RULE = "dry_days equals four times the moisture plus eleven where the knot count exceeds three and noise of half a day"


def specification(prompt: str, **changes: Any) -> dict[str, Any]:
    """A specification for the number of samples that the prompt fixes."""
    found = re.search(r'"n_samples": the number (\d+)', prompt)
    assert found
    return {
        "name": "Kiln days", "title": "Days in the kiln", "modality": "tabular", "problem": "regression",
        "context": "A saw mill weighs and counts each board before it goes into the kiln.", "n_samples": int(found[1]),
        "feature_mapping": {
            "moisture": {"meaning": "moisture of the board", "unit": "%", "generation": "uniform from 10 to 60"},
            "knots": {"meaning": "knots on both sides", "unit": "", "generation": "Poisson with mean 3"},
        },
        "target": {"column": "dry_days", "meaning": "days until the board is dry", "labels": None},
        "hidden_rule_logic": RULE, "submission": {"id": "board", "columns": ["dry_days"]},
        "metric": {"name": "mae"}, "lower_is_better": True,
        "thresholds_logic": {"median": "mean", "bronze": "stump", "silver": "linear model", "gold": "forest"}, **changes,
    }  # fmt: skip


GENERATOR = """
import json
import numpy as np
import pandas as pd

rng = np.random.RandomState(7)
total = {rows}
tested = round(total / 6)
moisture = rng.uniform(10, 60, total).round(3)
knots = rng.poisson(3, total)
rule = 4 * moisture / 10 + 11 * (knots > 3)
days = (rule + rng.normal(0, 0.5, total)).round(2)
table = pd.DataFrame({{"board": rng.permutation(9000)[:total] + 1000, "moisture": moisture, "knots": knots, "dry_days": days}})
train, test = table[tested:], table[:tested]
train.to_csv("train.csv", index=False)
test.drop(columns="dry_days").to_csv("test.csv", index=False)
answer = test[["board", "dry_days"]]
answer.to_csv("answer.csv", index=False)
answer.assign(dry_days=rule[:tested].round(2)).to_csv("ceiling_submission.csv", index=False)
answer.assign(dry_days=60.0).to_csv("sample_submission.csv", index=False)
mean = train.dry_days.mean()
error = {{}}
for name, skill in (("median", 0.1), ("bronze", 0.4), ("silver", 0.6), ("gold", 0.8)):
    guess = mean + skill * (test.dry_days - mean)
    error[name + "_threshold"] = round(float((guess - test.dry_days).abs().mean()), 4)
with open("threshold.json", "w") as file:
    json.dump(error, file)
"""


def generator(prompt: str) -> str:
    found = re.search(r'"n_samples": (\d+)', prompt)
    assert found
    return "Here it is.\n\n```python\n" + GENERATOR.format(rows=found[1]) + "```\n"


EVALUATOR = """
import argparse, json, os
import numpy as np
import pandas as pd

THRESHOLDS = {thresholds}
LOWER = {lower}
KEY, TARGETS = {key!r}, {targets!r}

def score(truth, guess):
    {body}

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--submission_path", default="sample_submission.csv")
    path = parser.parse_args().submission_path
    here = os.path.dirname(os.path.abspath(__file__))
    truth = pd.read_csv(os.path.join(here, "answer.csv"))
    guess = pd.read_csv(path)
    if [KEY, *TARGETS] != list(guess.columns):
        raise ValueError("wrong columns")
    if sorted(guess[KEY]) != sorted(truth[KEY]):
        raise ValueError("wrong ids")
    if guess[TARGETS].isna().any().any():
        raise ValueError("empty cells")
    both = truth.merge(guess, on=KEY, suffixes=("_true", ""))
    right = both[[name + "_true" for name in TARGETS]].to_numpy()
    return float(score(right, both[TARGETS].to_numpy()))

try:
    print(json.dumps({{"score": main(), **THRESHOLDS, "is_lower_better": LOWER}}))
except Exception as error:
    print(json.dumps({{"error": str(error)}}))
"""
MAE = "return np.abs(truth - guess).mean()"


def evaluator(prompt: str, body: str = MAE, targets: tuple[str, ...] = ("dry_days",), key: str = "board") -> str:
    thresholds = re.search(r"stand as constants in the script: (\{.*?\})", prompt)
    lower = re.search(r"`is_lower_better`, which is (\w+) here", prompt)
    assert thresholds and lower
    code = EVALUATOR.format(thresholds=thresholds[1], lower=lower[1], key=key, targets=list(targets), body=body)
    return f"```python\n{code}```"


PAGE = """# Days in the kiln

A saw mill dries its boards in a kiln. Boards that come out too early warp, and boards that stay too long cost money, so
the foreman would like to know beforehand how long each one takes.

## Files

In `./input/`: `train.csv`, `test.csv`, `sample_submission.csv`, `description.md`.

| column | meaning |
|---|---|
| `board` | number of the board |
| `moisture` | moisture, in % |
| `knots` | knots on both sides |
| `dry_days` | days until the board is dry, the target |

## Metric

`{metric}`, averaged over the boards. Lower is better.

## Submission

Write `./submission.csv` with the columns `board` and `dry_days`, a row for each row of `test.csv`.
"""


def good(**changes: Any) -> dict[str, list[Any]]:
    """Replies that make a task at the first attempt, with a metric that has a name."""
    replies: dict[str, list[Any]] = {
        "dna": [json.dumps(DNA)],
        "scenarios": [f"```json\n{json.dumps(SCENARIOS)}\n```"],
        "mutations": [json.dumps(MUTATIONS)],
        "specification": [lambda prompt: json.dumps(specification(prompt))],
        "developer": [generator],
        "evaluator": [evaluator],
        "writer": [PAGE.format(metric="mae")],
    }
    return {**replies, **changes}


CUSTOM = {"name": "custom", "title": "mean drying error", "definition": "The mean absolute difference in days."}


def custom(prompt: str) -> str:
    """A specification whose metric has no name."""
    return json.dumps(
        specification(prompt, metric=CUSTOM, submission={"id": "board", "columns": ["dry_days"], "form": "number"})
    )
