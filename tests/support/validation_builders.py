"""Tasks whose training rows are held out in tests, and what their files say."""

import csv
import io
import shutil
from pathlib import Path
from typing import Any

from conftest import ROOT, records

from mletools.tasks.draft import draft_world
from mletools.tasks.folder import ANSWERS
from mletools.tasks.procedural.draw import draw_world
from mletools.tasks.record import Parts, finish
from mletools.tasks.table import generator
from mletools.tasks.validation import View

FROZEN = ROOT / "tests" / "frozen"  # tasks that stay as they are when the generator changes
EXAMPLES = {task["name"]: task for task in records((FROZEN / "tasks" / "tasks.jsonl").read_bytes())}

SOURCE = {"source": "test", "seed": 0}


def example(name: str, data: Path) -> dict[str, Any]:
    """One of the example tasks, its folder copied below `data`."""
    task = EXAMPLES[name]
    shutil.copytree(FROZEN / task["data"]["dir"], data / task["data"]["dir"])
    return task


def drawn(modality: str, seed: int, data: Path) -> tuple[dict[str, Any], str]:
    """(a made task without baselines, its form)."""
    draws = generator(seed)
    world = draw_world(modality, draws)
    challenge = draft_world(world, draws)
    grading = {**challenge.grading, "answers": ANSWERS}
    parts = Parts(
        modality, "d", modality, world.target.problem, challenge.public, {ANSWERS: challenge.answers}, grading, SOURCE
    )
    return finish(parts, data, (seed,)), challenge.form.kind


def table(content: bytes | Path) -> list[dict[str, str]]:
    text = (content.read_bytes() if isinstance(content, Path) else content).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def text_of(rows: list[dict[str, str]], **options: Any) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), **{"lineterminator": "\n", **options})
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def perfect(view: View) -> bytes:
    """The validation rows' answers as a submission."""
    spec = view.task["submission"]
    rows = table(view.folder / view.task["answers"])
    return text_of([{name: row[name] for name in (*spec["id"], *spec["target"])} for row in rows])
