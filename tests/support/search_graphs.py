"""Graphs of solutions that are built by hand."""

from pathlib import Path
from typing import Any

from mletools.scaffolds.search.graph import Graph, Node

TELL_TALE = 0.7411  # the test grade, which nobody may be told

TASK: dict[str, Any] = {
    "name": "wine", "modality": "tabular", "description": "# Wine\n\nWhich grower?\n", "problem": "multiclass_classification",
    "data": {"public": ["test.csv", "train.csv"]}, "submission": {"id": ["id"], "target": ["grower"]},
    "metric": {"name": "f1_macro", "params": {}, "lower_is_better": False},
    "answers": "private/0.7411.csv", "thresholds": {"gold": TELL_TALE},
}  # fmt: skip


def made(number: int, hypothesis: str = "", **changes: Any) -> dict[str, Any]:
    """All that a graph keeps of a node; one that works unless `changes` say otherwise."""
    score = changes.get("score", 0.8)
    printed = {"head": f"epoch 1\nValidation score: {score}\n", "tail": "", "bytes": 30}
    node = {
        "number": number, "parents": [], "operation": "draft", "branch": number, "depth": 0, "repairs": 0, "round": number,
        "hypothesis": hypothesis or f"idea {number}", "component": "Model", "problem": None, "why": "", "score": score,
        "lesson": "",
        "seconds": 1.0, "elapsed": float(number), "usage": {}, "code": f"print({number})\n",
        "execution": {"stdout": printed, "stderr": {"head": "", "tail": "", "bytes": 0}, "duration_s": 12.0,
                      "status": "ok"},
        "validation": {"valid": True, "score": 0.8, "reason": None},
        "grade": {"valid": True, "score": TELL_TALE, "reason": None, "thresholds": [TELL_TALE]},
        "trials": [], "asked": [],
    }  # fmt: skip
    return {**node, **changes}


def graph_of(tmp_path: Path, *nodes: dict[str, Any], lower: bool = False, **shown: Any) -> Graph:
    graph = Graph(tmp_path / "graph.jsonl", lower, **shown)
    for each in nodes:
        graph.add([each])
    return graph


def child(number: int, parent: int, branch: int, depth: int = 1, **changes: Any) -> dict[str, Any]:
    return made(number, parents=[parent], operation="improve", branch=branch, depth=depth, **changes)


def node(**changes: Any) -> Node:
    known = {name: value for name, value in made(7, "Use trees.").items() if name in Node.__dataclass_fields__}
    return Node(**{**known, "parents": (), **changes})
