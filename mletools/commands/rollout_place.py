"""What an agent in turns reaches the world through: models, a sandbox and the grader, for mle-rollout.

Covered: the validation view of each task, programs and sessions run and judged, prices, waiting for a free sandbox. Not
covered: what is asked and told (the scaffolds); the options; opening and closing (the command).
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..grading import MAX_BYTES, RunCode, Verdict, check_task, grade, standing
from ..models import ContextExceeded, Model, Reply, Request
from ..models.prices import Price
from ..records.errors import RecordError
from ..records.ids import bytes_digest
from ..sandbox import Cell, Limits, Sandbox, Session
from ..tasks.validation import View, validation_view
from .execution import execution_record, keep, text_record
from .task_data import check_data

# What a turn keeps of the verdict on the test rows; mle-grade says the rest of what is handed in.
MOST_FILES, LOOKED_AT, LINES_LOOKED_AT = 40, 4096, 6  # files listed; bytes, lines of one that are shown
LOOKED_INTO = {".csv", ".tsv", ".json", ".jsonl", ".txt"}
SESSION_S = 24 * 3600.0  # cells have limits of their own, episodes too
VERDICT = ("valid", "reason", "score", "medal", "above_median", "human_rank", "normalised_score")


@dataclass(frozen=True)
class Speaker:
    """A model that answers in an episode, how it is sampled, and what it costs (USD; None: not known)."""

    model: Model
    temperature: float = 1.0
    top_p: float = 1.0
    price: Price | None = None
    alone: threading.Lock = field(default_factory=threading.Lock)

    def say(
        self, role: str, messages: list[dict[str, Any]], seed: int, tools: Any, most: int, task: dict[str, Any]
    ) -> dict[str, Any]:
        """See Place.ask."""
        request = Request(messages, seed, self.temperature, self.top_p, most, task, tools=tools, role=role)
        started = time.perf_counter()
        try:
            reply = self._sample(request)
        except ContextExceeded as error:
            return {"refused": str(error)}
        return self._told(reply, time.perf_counter() - started)

    def _sample(self, request: Request) -> Reply:
        if self.model.batch == 1:
            return self.model.sample([request])[0]
        with self.alone:  # an engine in this process takes one call at a time, and alone, so that -j changes nothing
            return self.model.sample([request])[0]

    def _told(self, reply: Reply, seconds: float) -> dict[str, Any]:
        usd = None
        if self.price is not None and reply.prompt_tokens is not None and reply.completion_tokens is not None:
            usd = self.price.usd(reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens)
        return {
            "text": reply.text,
            "finish_reason": reply.finish_reason,
            "reasoning": reply.reasoning,
            "tool_calls": [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in reply.tool_calls],
            "prompt_token_ids": reply.prompt_token_ids,
            "token_ids": reply.token_ids,
            "logprobs": reply.logprobs,
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
            "seconds": round(seconds, 4),
            "usd": usd,
        }


@dataclass
class World:
    """What all episodes of a run share; see `place`."""

    data: Path
    speakers: Mapping[str, Speaker]
    sandbox: Sandbox | None
    limits: Limits
    free: threading.Semaphore  # so many programs run at once
    validation: float
    reveal_test: bool
    session_start: str = "warm"
    rank_rule: str = "dojo"
    run_code: RunCode | None = None
    _views: dict[str, View | None] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _making: dict[str, threading.Lock] = field(default_factory=dict)

    def place(self, task: dict[str, Any]) -> "TaskPlace":
        """The place of an episode on `task`. RecordError: its data are not there, or no rows can be held out."""
        return TaskPlace(self, task, self._view(task))

    def _view(self, task: dict[str, Any]) -> View | None:
        with self._lock:
            making = self._making.setdefault(task["id"], threading.Lock())
        with making:
            if task["id"] not in self._views:
                check_task(task)
                check_data(self.data / task["data"]["dir"], task)
                held_out = self.validation > 0 and not self.reveal_test
                self._views[task["id"]] = validation_view(task, self.data, self.validation) if held_out else None
            return self._views[task["id"]]


class TaskPlace:
    """A scaffolds.episode.Place: one episode's way to the world. For one thread."""

    def __init__(self, world: World, task: dict[str, Any], view: View | None):
        self._world, self._task, self._view = world, task, view
        self._session: Session | None = None

    @property
    def public(self) -> Path:
        """What programs see as ./input."""
        if self._view is not None:
            return self._view.public
        found = self._world.data / self._task["data"]["dir"] / "public"
        if not found.is_dir():
            raise RecordError(f"{found}: no such folder; is --data the folder that the task was written to?")
        return found

    def ask(
        self, who: str, role: str, messages: list[dict[str, Any]], seed: int, tools: Any, most: int
    ) -> dict[str, Any]:
        """See Place.ask."""
        return self._world.speakers[who].say(role, messages, seed, tools, most, self._task)

    def run(self, code: str, wall_s: float, seed: int, judged: bool = True) -> dict[str, Any]:
        """See Place.run."""
        world = self._world
        assert world.sandbox is not None
        limits = replace(world.limits, wall_s=min(wall_s, world.limits.wall_s))
        with world.free:
            outcome = world.sandbox.run(code, self.public, limits, seed)
        verdicts = self._judge(outcome.submission) if judged else {}
        mine = None if outcome.submission is None else self._test_part(outcome.submission)
        return {"execution": execution_record(replace(outcome, submission=mine), limits, world.data), **verdicts}

    def cell(
        self, kind: str, text: str, wall_s: float, *, before: Sequence[tuple[str, str]], seed: int, known: str | None
    ) -> dict[str, Any]:
        """See Place.cell."""
        world = self._world
        assert world.sandbox is not None
        limits = replace(world.limits, wall_s=min(wall_s, world.limits.wall_s))
        opened = self._session is None
        if self._session is None:
            whole = replace(world.limits, wall_s=SESSION_S)
            self._session = world.sandbox.session(self.public, whole, seed)
        session = self._session
        found = (self._again(before) if opened else None) or self._execute(kind, text, limits.wall_s)
        if not found.alive:
            self.close()
        cell = {
            "status": found.status,
            "output": text_record(found.output),
            "duration_s": round(found.duration_s, 4),
            "alive": found.alive,
        }
        ran_in = {
            "backend": session.backend,
            "start": world.session_start,
            "gpu": None,
            "protections": session.protections,
            "limits": limits.__dict__,
        }
        digest = None if found.submission is None else bytes_digest(found.submission)
        told: dict[str, Any] = {
            "cell": cell,
            "box": ran_in,
            "digest": digest,
            "submission_problem": found.submission_problem,
        }
        if digest is None or digest == known:
            return {**told, "submission": None}
        assert found.submission is not None
        kept = keep(self._test_part(found.submission), world.data)
        return {**told, "submission": kept, **self._judge(found.submission)}

    def _again(self, before: Sequence[tuple[str, str]]) -> Cell | None:
        """Run a killed session's cells once more; the cell of those that ended the new one, if there is such a cell."""
        for kind, text in before:
            found = self._execute(kind, text, self._world.limits.wall_s)  # what was in time then is in time now
            if not found.alive:
                return found
        return None

    def look(self, name: str | None) -> str:
        """See Place.look."""
        if name is not None:
            return self._begins(name)
        found = sorted(path.relative_to(self.public) for path in self.public.rglob("*") if path.is_file())
        lines = [f"{path} ({(self.public / path).stat().st_size} bytes)" for path in found[:MOST_FILES]]
        more = [f"and {len(found) - MOST_FILES} more"] if len(found) > MOST_FILES else []
        tables = [self._begins(str(path)) for path in found if len(path.parts) == 1 and path.suffix in LOOKED_INTO]
        return "\n".join(lines + more) + "\n\n" + "\n\n".join(tables)

    def _begins(self, name: str) -> str:
        try:
            with (self.public / name).open("rb") as file:
                head = file.read(LOOKED_AT)
        except OSError:
            return f"There is no file {name}."
        text = head.decode("utf-8", "replace")
        lines = text.split("\n")[:LINES_LOOKED_AT]
        return f"{name} begins:\n" + "\n".join(line[: LOOKED_AT // 4] for line in lines).rstrip()

    def _execute(self, kind: str, text: str, wall_s: float) -> Cell:
        with self._world.free:
            assert self._session is not None
            return (self._session.python if kind == "python" else self._session.bash)(text, wall_s)

    def close(self) -> None:
        """End the session, if there is one."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _test_part(self, content: bytes) -> bytes:
        return content if self._view is None else self._view.test_part(content)

    def _judge(self, content: bytes | None) -> dict[str, Any]:
        """{validation, grade}: the verdicts on the validation rows, which are told, and on the test rows."""
        if content is None:
            return {"validation": None, "grade": None}
        world, view = self._world, self._view
        folder = world.data / self._task["data"]["dir"]
        test = self._verdict(self._task, folder, self._test_part(content)).as_record()
        shown = None
        if view is not None:
            told = self._verdict(view.task, view.folder, view.validation_part(content))
            shown = {"valid": told.valid, "reason": told.reason, "score": told.score}
        return {"validation": shown, "grade": {name: test[name] for name in VERDICT}}

    def _verdict(self, task: Mapping[str, Any], folder: Path, content: bytes) -> Verdict:
        if len(content) > MAX_BYTES:
            return standing(task, folder, None, f"the file has {len(content)} bytes; at most {MAX_BYTES} are read")
        return grade(task, folder, content, rank_rule=self._world.rank_rule, run_code=self._world.run_code)
