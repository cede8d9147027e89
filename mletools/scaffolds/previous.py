"""Earlier solutions to improve on: the set D_prev of "RL for MLE agents" (section 3.3, algorithm 1, prompt in C.2).

Covered: reading them out of recorded rollouts in bounded memory, a draw that a seed decides, and what a program printed,
shortened and made fit for a prompt. Not covered: how often to improve rather than begin from scratch (half the time in
the paper; the scaffold decides), the wording of the question, solutions of single turns (mle-filter --cut-steps cuts those
out), fences or instructions in what agents printed: it stays an agent's text.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..records import schema
from ..records.errors import RecordError
from ..records.ids import canonical, content_id, derive_seed
from ..records.jsonl import read_files
from .quoting import shown

MOST = 1000  # solutions of a task
OUTPUT_CHARS = 4000
STDERR_SHARE = 4  # at most a quarter of them; the numbers that tell how good a program is stand on stdout


@dataclass(frozen=True)
class Previous:
    """A solution that was run: the agent's own plan and code, without what mle-instrument inserted."""

    rollout: str  # its id
    task: str  # the task's id
    plan: str
    code: str
    output: str  # what it printed: `output`
    status: str  # of its execution
    score: float | None  # the validation score that the agent was shown; None without a valid one


class PreviousPool:
    """Solutions by task. `skipped` counts the rollouts that gave none, by reason."""

    def __init__(self, solutions: Mapping[str, Sequence[Previous]], skipped: Mapping[str, int] | None = None):
        """`solutions` by task id."""
        self.skipped = dict(skipped or {})
        self._solutions = {task: sorted(found, key=lambda one: one.rollout) for task, found in solutions.items()}

    @classmethod
    def read(
        cls, paths: Sequence[Path], most: int = MOST, failed: bool = False, chars: int = OUTPUT_CHARS
    ) -> "PreviousPool":
        """The solutions in files of rollouts that were run (`code` and `execution`), read as a stream.

        Only programs that ended well and handed something in: the paper found that small models learn little from
        failed ones. `failed` keeps all that ran. Of more than `most` of a task a sample stays that the rollouts' ids
        decide, so neither the order of files and lines nor a rollout that stands there twice changes what is drawn.

        RecordError, with file and line, for a line that is no rollout; ToolError for a file that cannot be read.
        """
        solutions: dict[str, dict[str, Previous]] = {}
        skipped: Counter[str] = Counter()
        for line in read_files([str(path) for path in paths]) if paths else ():
            if line.problem:
                raise RecordError(f"{line.place}: {line.problem}")
            try:
                schema.check(line.record, "rollout")
            except RecordError as error:
                raise RecordError(f"{line.place}: {error}") from None
            reason = _reason_to_skip(line.record, failed)
            if reason:
                skipped[reason] += 1
                continue
            previous = _previous(line.record, chars)
            of_task = solutions.setdefault(previous.task, {})
            other = of_task.get(previous.rollout, previous)
            of_task[previous.rollout] = min(previous, other, key=lambda one: canonical(asdict(one)))
            if len(of_task) > 2 * most:
                solutions[previous.task] = _sample(of_task, most)
        kept = {task: list(_sample(of_task, most).values()) for task, of_task in solutions.items()}
        return cls(kept, skipped)

    def draw(self, task: str, seed: int) -> Previous | None:
        """One solution of the task, each as likely as the others, the same for the same seed; None if it has none."""
        solutions = self._solutions.get(task)
        return solutions[derive_seed(seed, "previous", task) % len(solutions)] if solutions else None

    def count(self, task: str) -> int:
        """How many solutions of the task there are."""
        return len(self._solutions.get(task, ()))


def output(execution: Mapping[str, Any], chars: int = OUTPUT_CHARS) -> str:
    """What a terminal would have shown of a recorded execution: stdout, then stderr, in at most `chars` characters.

    Of stdout head and tail are kept, of stderr the end. What is hidden in it is spelled out (`quoting`).
    """
    errors = shown(_whole(execution["stderr"])).strip("\n")
    errors = _shortened(errors, chars // STDERR_SHARE, head=0.0) if errors.strip() else ""
    room = chars - len(errors) - 1 if errors else chars
    printed = _shortened(shown(_whole(execution["stdout"])).strip("\n"), room, head=0.5)
    return "\n".join(part for part in (printed, errors) if part)


def _reason_to_skip(rollout: Mapping[str, Any], failed: bool) -> str | None:
    if not (rollout["code"] or "").strip():
        return "no code"
    execution = rollout.get("execution")
    if execution is None or execution["status"] == "no_code":
        return "not run"
    if not failed and execution["status"] != "ok":
        return "failed"
    return "nothing handed in" if not failed and execution["submission"] is None else None


def _previous(rollout: Mapping[str, Any], chars: int) -> Previous:
    shown, plan = rollout.get("validation"), rollout.get("plan")
    return Previous(
        rollout=rollout["id"],
        task=rollout["task"]["id"],
        plan=plan if isinstance(plan, str) else "",
        code=rollout["code"],
        output=output(rollout["execution"], chars),
        status=rollout["execution"]["status"],
        score=shown["score"] if shown and shown["valid"] else None,
    )


def _sample(solutions: dict[str, Previous], most: int) -> dict[str, Previous]:
    """The `most` solutions whose ids come first when hashed: as good as drawn, and the same for the same ids."""
    kept = sorted(solutions, key=lambda id: content_id("previous", id))[:most]
    return {id: solutions[id] for id in kept}


def _whole(text: Mapping[str, Any]) -> str:
    """A recorded output as one text; between head and tail a line says that the record holds no more."""
    head, tail = str(text["head"]), str(text["tail"])
    return f"{head}\n[not recorded]\n{tail}" if tail else head


def _shortened(text: str, chars: int, head: float) -> str:
    """At most `chars` characters: a share `head` of the room from the beginning, the rest from the end."""
    if len(text) <= chars:
        return text
    note = f"[{len(text)} characters, shortened]"
    note = f"\n{note}\n" if head else f"{note}\n"
    room = chars - len(note)
    if room <= 0:
        return text[len(text) - chars :] if chars > 0 else ""
    first = int(room * head)
    return text[:first] + note + text[len(text) - (room - first) :]
