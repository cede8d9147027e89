"""Earlier solutions to improve on: the set D_prev of "RL for MLE agents" (section 3.3, algorithm 1, prompt in C.2).

Covered: reading them from recorded rollouts in bounded memory, also while these are written, a seeded draw, and a program's
output, shortened and safe for a prompt. Not covered: the share of rollouts that improve instead of starting from scratch (half in the paper; the scaffold
decides), the wording of the question, solutions of single turns (mle-filter --cut-steps), fences or instructions in agents'
output, which remains untrusted text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from ..base.errors import RecordError, ToolError
from ..base.growing import GrowingFile
from ..base.ids import canonical, content_id, derive_seed
from ..base.jsonl import loads, read_files
from ..base.visible import to_stderr
from ..records import schema
from ..records.common import LongText
from ..records.rollout import Execution, Rollout
from .messages import escaped, fenced, progress_sentences

MOST = 1000  # solutions of a task
OUTPUT_CHARS = 4000
STDERR_SHARE = 4  # at most a quarter of the characters; scores are printed on stdout


@dataclass(frozen=True)
class Previous:
    """A solution that was executed: the agent's own plan and code, before instrumentation."""

    rollout: str  # its id
    task: str  # the task's id
    plan: str
    code: str
    output: str  # what a question tells of its run; see `shown_output`
    status: str  # of its execution
    score: float | None  # the validation score shown to the agent; None without a valid submission


class PreviousPool:
    """Solutions by task id."""

    def __init__(self, solutions: Mapping[str, Sequence[Previous]]):
        self._solutions = {task: sorted(of_task, key=lambda item: item.rollout) for task, of_task in solutions.items()}

    @classmethod
    def read(cls, paths: Sequence[Path], most: int = MOST) -> "PreviousPool":
        """The solutions in files of executed rollouts (`code` and `execution`), read as a stream.

        Only programs that ended normally and left a submission: the paper reports that small models learn little from
        failed ones. Of more than `most` of a task a sample stays that depends on the rollouts' ids alone, not on the
        order of files and lines or on repeated rollouts.

        RecordError, with file and line, for a line that is no rollout; ToolError for a file that cannot be read.
        """
        solutions: dict[str, dict[str, Previous]] = {}
        for line in read_files([str(path) for path in paths]) if paths else ():
            if line.problem:
                raise RecordError(f"{line.place}: {line.problem}")
            previous = _checked(line.record, line.place)
            if previous is None:
                continue
            of_task = solutions.setdefault(previous.task, {})
            other = of_task.get(previous.rollout, previous)
            of_task[previous.rollout] = min(previous, other, key=lambda item: canonical(asdict(item)))
            if len(of_task) > 2 * most:
                solutions[previous.task] = _sample(of_task, most)
        return cls({task: list(_sample(of_task, most).values()) for task, of_task in solutions.items()})

    def draw(self, task: str, seed: int) -> Previous | None:
        """A solution of the task drawn uniformly by the seed, or None."""
        solutions = self._solutions.get(task)
        return solutions[derive_seed(seed, "previous", task) % len(solutions)] if solutions else None

    def count(self, task: str) -> int:
        """The number of solutions of the task."""
        return len(self._solutions.get(task, ()))


class GrowingPool(PreviousPool):
    """The newest `most` solutions of each task, in files that grow while they are drawn from: a policy's own latest ones.

    What was appended is read before each draw, up to the last whole line. A line that is torn is left out, which `say` is
    told; else errors are those of `read`.
    """

    def __init__(self, paths: Sequence[Path], most: int, say: Callable[[str], None] = to_stderr):
        super().__init__({})
        self.most, self._say = most, say
        self._files = [GrowingFile(path) for path in dict.fromkeys(paths)]

    def draw(self, task: str, seed: int) -> Previous | None:
        """See PreviousPool.draw."""
        for growing in self._files:
            try:
                for place, line in growing.new():
                    self._add(line, place)
            except OSError as error:
                raise ToolError(f"{growing.path}: cannot be read: {error.strerror}") from error
        return super().draw(task, seed)

    def _add(self, line: bytes, place: str) -> None:
        try:
            record = loads(line)
        except ValueError as error:
            # a killed pipe leaves the beginning of a line, and the next run writes on behind it
            self._say(f"{place}: left out: {error}")
            return
        if not isinstance(record, dict):
            raise RecordError(f"{place}: not a JSON object")
        previous = _checked(record, place)
        if previous is not None:
            newest = self._solutions.setdefault(previous.task, [])
            newest.append(previous)
            del newest[: -self.most]


def shown_output(execution: Execution) -> str:
    """What a question tells of a run: the stages that the sandbox saw, and what the program printed; no score, no status."""
    printed = output(execution)
    return "\n\n".join([*progress_sentences(execution), *([fenced(printed)] if printed else [])])


def output(execution: Execution, chars: int = OUTPUT_CHARS) -> str:
    """The stdout, then the stderr of a recorded execution, in at most `chars` characters.

    stdout keeps its head and tail, stderr its end. Hidden characters are spelled out (`messages`).
    """
    errors = escaped(_whole(execution["stderr"])).strip("\n")
    errors = _shortened(errors, chars // STDERR_SHARE, head=0.0) if errors.strip() else ""
    room = chars - len(errors) - 1 if errors else chars
    printed = _shortened(escaped(_whole(execution["stdout"])).strip("\n"), room, head=0.5)
    return "\n".join(part for part in (printed, errors) if part)


def _checked(record: Mapping[str, object], place: str) -> Previous | None:
    """The solution of a record; see _previous. RecordError: it is no rollout."""
    try:
        schema.check(record, "rollout")
    except RecordError as error:
        raise RecordError(f"{place}: {error}") from None
    return _previous(cast(Rollout, record))


def _previous(rollout: Rollout) -> Previous | None:
    """The solution; None: its program did not end well, or left no submission."""
    execution, validation, code = rollout.get("execution"), rollout.get("validation"), rollout["code"] or ""
    if execution is None or execution["status"] != "ok" or execution["submission"] is None or not code.strip():
        return None
    return Previous(
        rollout=rollout["id"],
        task=rollout["task"]["id"],
        plan=rollout.get("plan", ""),
        code=code,
        output=shown_output(execution),
        status=execution["status"],
        score=validation["score"] if validation and validation["valid"] else None,
    )


def _sample(solutions: dict[str, Previous], most: int) -> dict[str, Previous]:
    """The `most` solutions with the smallest hashed ids: a sample that depends on the ids alone."""
    return {id: solutions[id] for id in sorted(solutions, key=lambda id: content_id("previous", id))[:most]}


def _whole(text: LongText) -> str:
    """A recorded output as one text, with a line for the part that is not recorded."""
    return f"{text['head']}\n[not recorded]\n{text['tail']}" if text["tail"] else str(text["head"])


def _shortened(text: str, chars: int, head: float) -> str:
    """At most `chars` characters: a share `head` of them from the beginning, the rest from the end."""
    if len(text) <= chars:
        return text
    note = f"[{len(text)} characters, shortened]"
    note = f"\n{note}\n" if head else f"{note}\n"
    room = chars - len(note)
    if room <= 0:
        return text[len(text) - chars :] if chars > 0 else ""
    first = int(room * head)
    return text[:first] + note + text[len(text) - (room - first) :]
