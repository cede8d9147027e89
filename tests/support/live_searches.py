"""Graphs of searches on disk, as a search that is running leaves them."""

from pathlib import Path
from typing import Any

from search_graphs import made
from search_records import search
from shown_rollouts import EXECUTION, FAILED, usage

from mletools.scaffolds.search.graph import Graph

IDEA = {
    "challenge": None,
    "origin": None,
    "scores": {},
    "action": None,
    "considered": [],
    "recalled": [],
    "challenges": [],
}


def node(number: int, parents: tuple[int, ...], score: float | None, elapsed: float, **more: Any) -> dict[str, Any]:
    """All that a graph keeps of a node; without a score it failed."""
    own: dict[str, Any] = {
        "parents": list(parents),
        "operation": "improve" if parents else "draft",
        "branch": 0,
        "problem": None if score is not None else "failed",
        "why": "" if score is not None else "KeyError: 'a'",
        "supported": None,
        "stage": "draft",
        "guidance": "",
        "idea": IDEA,
        "elapsed": elapsed,
        "seconds": 30.0,
        "grade": None,
        "execution": EXECUTION if score is not None else FAILED,
        "usage": {"research": usage(50, 20, 0.25), "develop": usage(50, 20, 0.5)},
    }
    return made(number, **{"score": score, **own, **more})


NODES = (
    node(0, (), 1.8, 60),
    node(1, (), None, 90),
    node(2, (0,), 1.5, 200, stage="improvement"),
    node(3, (1,), None, 230, operation="debug", problem="slow", why=""),
    node(4, (2,), 1.6, 3700, selection={"file": {}, "verdict": {"valid": True, "reason": None, "score": 1.4}}),
)
BUDGET = {"seconds": 36000.0, "nodes": 500, "usd": 40.0}


def graph(path: Path, *nodes: dict[str, Any], id: str = "3f2a", clock: str = "wall") -> Graph:
    """The graph of a search that works on it until it is closed."""
    opened = Graph(path, True)
    about = search(id, budget=BUDGET)
    about["search"]["clock"] = clock
    opened.tell(about)
    for each in nodes:
        opened.add([each])
    return opened
