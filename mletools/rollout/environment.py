"""The environment of an episode: models, a sandbox, and the grader, whose answers are kept on the job's tape.

Covered: the validation view of each task, programs and sessions run and scored, waiting for a free sandbox, what searches
need (graphs, embeddings, nodes at once), which arguments an answer on the tape is known by. Not covered: messages (the
scaffolds), models (metered_model), opening and closing (the runner), the tape's file (base.tape).
"""

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, cast

from ..base import workers
from ..base.errors import RecordError, ToolError, data_advice
from ..base.ids import bytes_digest
from ..base.tape import Answer, Tape
from ..grading import RunCode, Verdict, check_task, grade
from ..grading.private_data import check_data, task_folder
from ..models import OfferedTool
from ..records.rollout import Execution, Feedback, Message, SubmissionFile, TurnGrade
from ..records.sample import submission_mb
from ..records.task import Task
from ..sandbox import Cell, Limits, Sandbox, Session
from ..sandbox.outputs import SUBMISSION
from ..sandbox.programs import (
    ROLLOUT,
    Watch,
    execution_record,
    keep,
    limits_for,
    refuse_known_answers,
    text_record,
)
from ..scaffolds.data_preview import beginning, data_preview, listing
from ..scaffolds.interface import CellResult, Ensemble, Refusal, Reply, RunResult, Selection, SessionFacts, Verdicts
from ..tasks.validation import NoValidation, SplitView, View, split_view, validation_view
from .metered_model import MeteredModel
from .program_facts import ProgramFacts

if TYPE_CHECKING:
    from ..models.embedding import HttpEmbeddings

Item = TypeVar("Item")
Result = TypeVar("Result")
MOST_EMBEDDED = 4000  # characters of a text whose embedding is asked for
SESSION_S = 24 * 3600.0  # cells have limits of their own, episodes too
# What a turn keeps of the verdict on the test rows; mle-grade says the rest of what is handed in.
VERDICT = (
    *("valid", "reason", "score", "medal", "above_median", "position"),
    *("human_rank", "human_rank_rule", "normalised_score", "metric_error"),
)


@dataclass
class RunResources:
    """What all episodes of a run share; see `environment`."""

    data: Path
    models: Mapping[str, MeteredModel]
    sandbox: Sandbox | None
    limits: Limits
    free: threading.Semaphore  # so many programs run at once
    validation: float
    reveal_test: bool
    facts: ProgramFacts
    instrument: bool = False  # programs are watched, and report their progress
    session_start: Literal["warm", "cold"] = "warm"
    rank_rule: str = "dojo"
    run_code: RunCode | None = None
    graphs: Path | None = None  # where searches keep their graphs
    resume: bool = False  # continue the graphs that are there
    force: bool = False  # discard them
    jobs: int = 1  # nodes of searches that are developed at once
    embeddings: "HttpEmbeddings | None" = None  # None: TF-IDF
    selection: bool = False  # selection rows are held out, too
    progress: Callable[[int], None] = lambda nodes: None  # told how many more nodes searches have
    metric_fails: Callable[[], None] = lambda: None  # told of each submission on which a metric that is code fails
    no_validation: dict[str, str] = field(default_factory=dict)  # why no rows are held out, by task id
    developing: threading.Semaphore = field(init=False)
    _views: "_Once[View | None]" = field(default_factory=lambda: _Once())  # by task id and part
    _previews: "_Once[str]" = field(default_factory=lambda: _Once())  # by task id

    def __post_init__(self) -> None:
        self.developing = threading.Semaphore(self.jobs)

    def environment(self, task: Task, name: str, tape: Tape) -> "TaskEnvironment":
        """The environment of the episode `name` on `task`. RecordError: its data are not there; without a sandbox they
        are not looked at. Where no rows can be held out, `no_validation` says why, and programs have all rows.
        """
        return TaskEnvironment(self, task, self.view(task) if self.sandbox else None, name, tape)

    def view(self, task: Task, part: str = "") -> View | None:
        """The task with training rows held out: those that agents are told scores on, or another `part`.

        None: no rows are to be held out, or none can be. NoValidation: of a part.
        """

        def make() -> View | None:
            check_task(task)
            check_data(task_folder(self.data, task), task)
            if self.validation == 0 or self.reveal_test:
                return None
            try:
                if self.selection and not part:
                    return split_view(task, self.data, self.validation)
                return validation_view(task, self.data, self.validation, part)
            except NoValidation as problem:
                if part:
                    raise
                self.no_validation[task["id"]] = problem.reason
                return None

        return self._views.get((task["id"], part), make)

    def preview(self, task: str, public: Path) -> str:
        """What the files that agents see of the task (its id) look like; made once."""
        return self._previews.get((task,), lambda: data_preview(public))


class _Once(Generic[Result]):
    """The values of keys, each made once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[str, ...], Result] = {}
        self._making: dict[tuple[str, ...], threading.Lock] = {}

    def get(self, key: tuple[str, ...], make: Callable[[], Result]) -> Result:
        """The result of the first `make` for this key that raised nothing; others wait for it."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            if key not in self._values:
                self._values[key] = make()
            return self._values[key]


class TaskEnvironment:
    """The Environment of scaffolds.interface for one episode, or for a part of it, which has no session.

    tape: the answers that a killed episode gets again for nothing, for one thread. sent: what the policy's server was
    really sent; see Reply.sampling.
    """

    def __init__(self, resources: RunResources, task: Task, view: View | None, name: str, tape: Tape):
        self._resources, self._task, self._view, self._name = resources, task, view, name
        self._tape, self.sent = tape, dict[str, object]()
        self._answered = set[str]()  # the models that have answered a question of the episode
        self._session: Session | None = None

    def part(self, name: str, kept_only: bool = False) -> "TaskEnvironment":
        other = copy.copy(self)
        other._tape = self._tape.part(name, kept_only)
        return other

    @property
    def replays(self) -> bool:
        return self._tape.replays

    def done(self) -> None:
        self._tape.done()

    def remember(self, what: str, about: object, make: Callable[[], Answer]) -> Answer:
        return self._tape.play(what, about, make)

    @property
    def public(self) -> Path:
        """What programs see as ./input."""
        return self._view.public if self._view is not None else self._all_public

    @property
    def _all_public(self) -> Path:
        """The public files, with all training rows."""
        folder: Path = self._resources.data / self._task["data"]["dir"] / "public"
        if not folder.is_dir():
            raise RecordError(f"{folder}: no such folder; {data_advice()}")
        return folder

    def ask(
        self,
        who: str,
        role: str,
        messages: list[Message],
        seed: int,
        tools: list[OfferedTool] | None,
        most: int,
        refusable: bool = False,
    ) -> Reply | Refusal:
        model, about = self._resources.models[who], [who, role, messages, seed, tools, most]

        def answer() -> Reply | Refusal:
            try:
                return model.ask(role, messages, seed, tools, most, self._task)
            except RecordError as error:
                if not refusable or who not in self._answered:
                    raise
                return {"refused": str(error)}

        reply = self._tape.play("ask", about, answer)
        if "refused" not in reply:
            self._answered.add(who)
        if who == "policy" and "refused" not in reply:
            self.sent.update(reply.get("sampling") or {})
        return reply

    def count_tokens(self, who: str, messages: list[Message]) -> int | None:
        return self._resources.models[who].count_tokens(messages)

    def run(
        self,
        code: str,
        wall_s: float,
        seed: int,
        judged: bool = True,
        *,
        arguments: Sequence[str] = (),
        rows: str = "validation",
    ) -> RunResult:
        about = [code, seed, judged, list(arguments), rows]  # `wall_s` depends on measured times
        return self._tape.play("run", about, lambda: self._run(code, wall_s, seed, judged, arguments, rows))

    def _run(self, code: str, wall_s: float, seed: int, judged: bool, arguments: Sequence[str], rows: str) -> RunResult:
        resources = self._resources
        assert resources.sandbox is not None
        own = {"validation": self._view, "all": None}
        view = own[rows] if rows in own else resources.view(self._task, rows)
        public = view.public if view else self._all_public
        limits = limits_for(public, replace(resources.limits, wall_s=min(wall_s, resources.limits.wall_s)))
        watch = Watch.of(code, public) if resources.instrument else Watch()
        refuse_known_answers(self._task, resources.sandbox.protections)
        with resources.free:
            outcome = resources.sandbox.run(code, public, limits, seed, arguments, observer=watch.observer)
        refuse_known_answers(self._task, outcome.protections)  # of a cluster's other node
        verdicts: Verdicts = self._judge(outcome.submission, view) if judged else {}
        mine = None if outcome.submission is None else _test_part(outcome.submission, view)
        if judged and isinstance(view, SplitView) and outcome.submission is not None:
            verdicts["selection"] = self._selection(view, view.selection_part(outcome.submission))
        outcome = replace(outcome, outputs={} if mine is None else {SUBMISSION: mine})
        record = execution_record(outcome, limits, resources.data, ROLLOUT, watch.nonce, watch.markers)
        return {"execution": record, **verdicts}

    def _selection(self, view: SplitView, content: bytes) -> Selection:
        verdict = self._verdict(view.outer.task, view.outer.folder, content)
        told = Feedback(valid=verdict.valid, reason=verdict.reason, score=verdict.score)
        return {"file": keep(content, self._resources.data), "verdict": told}

    def ensemble(self, members: Sequence[tuple[SubmissionFile, SubmissionFile]]) -> Ensemble | None:
        about = [[file["digest"] for file in member] for member in members]
        return self._tape.play("ensemble", about, lambda: self._ensemble(members))

    def _ensemble(self, members: Sequence[tuple[SubmissionFile, SubmissionFile]]) -> Ensemble | None:
        from ..scaffolds.search.ensemble import combined

        columns, regression = self._task["submission"]["id"], "regression" in self._task["problem"]
        data = self._resources.data
        handed_in, selection = (
            combined([(data / member[at]["file"]).read_bytes() for member in members], columns, regression)
            for at in (0, 1)
        )
        assert isinstance(self._view, SplitView)
        if handed_in is None or selection is None:
            return None
        verdict = self._selection(self._view, selection)["verdict"]
        return {"submission": keep(handed_in, data), "verdict": verdict}

    def submission(self, execution: Execution) -> tuple[bytes, bytes | None]:
        kept, sample = execution["submission"], self.public / "sample_submission.csv"
        assert kept is not None
        try:
            content = (self._resources.data / kept["file"]).read_bytes()
            return content, sample.read_bytes() if sample.is_file() else None
        except OSError as error:
            raise ToolError(f"{error.filename}: {error.strerror}") from None

    def similar(self, texts: Sequence[str]) -> list[float]:
        answer = self._tape.play("similar", list(texts), lambda: {"cosines": self._similar(texts)})
        cosines: list[float] = answer["cosines"]
        return cosines

    def _similar(self, texts: Sequence[str]) -> list[float]:
        from ..scaffolds.search.similarity import cosines, tf_idf_cosines

        embeddings = self._resources.embeddings
        if embeddings is None:
            return tf_idf_cosines(texts)
        # an agent's text, which servers refuse where it is empty or too long
        return cosines(embeddings.embed([text.strip()[:MOST_EMBEDDED] or "nothing" for text in texts]))

    def at_once(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        resources = self._resources

        def in_turn(item: Item) -> Result:
            with resources.developing:
                return work(item)

        results = []
        jobs = min(resources.jobs, max(len(items), 1))
        for _, result, error in workers.run(in_turn, items, jobs, keep_order=True):
            if error is not None:
                raise error
            results.append(result)
        return results  # type: ignore[return-value]

    def progress(self, nodes: int) -> None:
        self._resources.progress(nodes)

    def graph(self) -> tuple[Path, bool]:
        assert self._resources.graphs is not None
        path = self._resources.graphs / f"{self._name}.jsonl"
        from ..scaffolds.search.graph import holds_work

        if not (self._resources.resume or self._resources.force) and path.exists() and holds_work(path):
            raise ToolError(
                f"{path}: holds an earlier search; --from-graph and another --graph begin with its nodes, --resume (of an -o "
                "FILE) continues it, --force discards it"
            )
        return path, self._resources.resume

    def cell(
        self,
        kind: str,
        text: str,
        wall_s: float,
        *,
        before: Sequence[tuple[str, str]],
        seed: int,
        known: str | None,
        outputs: Sequence[str] = (),
    ) -> CellResult:
        about = [kind, text, list(before), seed, *([list(outputs)] if outputs else [])]
        return self._tape.play("cell", about, lambda: self._cell(kind, text, wall_s, before, seed, known, outputs))

    def _cell(
        self,
        kind: str,
        text: str,
        wall_s: float,
        before: Sequence[tuple[str, str]],
        seed: int,
        known: str | None,
        outputs: Sequence[str],
    ) -> CellResult:
        resources = self._resources
        assert resources.sandbox is not None
        limits = limits_for(self.public, replace(resources.limits, wall_s=min(wall_s, resources.limits.wall_s)))
        opened = self._session is None
        if self._session is None:
            whole = replace(limits, wall_s=SESSION_S)
            self._session = resources.sandbox.session(self.public, whole, seed, (SUBMISSION, *outputs))
            refuse_known_answers(self._task, self._session.protections)
        session = self._session
        outcome = (self._again(before) if opened else None) or self._execute(kind, text, limits.wall_s)
        if not outcome.alive:
            self.close()
        ran_in: SessionFacts = {
            "by": ROLLOUT,
            "backend": session.backend,
            "start": resources.session_start,
            "gpu": session.gpu,
            "protections": session.protections,
            "machine": session.machine,
            "limits": limits.__dict__,
        }
        digest = None if outcome.submission is None else bytes_digest(outcome.submission)
        result: CellResult = {
            "cell": {
                "status": outcome.status,
                "output": text_record(outcome.output),
                "duration_s": round(outcome.duration_s, 4),
                "alive": outcome.alive,
            },
            "box": ran_in,
            "digest": digest,
            "submission_problem": outcome.submission_problem,
            "submission": None,
        }
        if outputs:
            found = {name: outcome.outputs[name] for name in outputs if name in outcome.outputs}
            result["outputs"] = {name: content.decode("utf-8", "replace") for name, content in found.items()}
        if outcome.submission is None or digest == known:
            return result
        kept = keep(_test_part(outcome.submission, self._view), resources.data)
        return {**result, "submission": kept, **self._judge(outcome.submission, self._view)}

    def _again(self, before: Sequence[tuple[str, str]]) -> Cell | None:
        """Run a killed session's cells once more; the cell of those that ended the new one, if there is such a cell."""
        for kind, text in before:
            outcome = self._execute(kind, text, self._resources.limits.wall_s)  # what was in time then is in time now
            if not outcome.alive:
                return outcome
        return None

    def fact(self, name: str) -> str:
        resources = self._resources
        if name in ("limits", "sizes"):
            return resources.facts.limits.text(resources.facts.gpus, time=name == "limits")
        if name == "libraries":
            return resources.facts.libraries(lambda: self.public)
        return resources.preview(self._task["id"], self.public)

    def look(self, name: str | None) -> str:
        return listing(self.public) if name is None else beginning(self.public, name)

    def _execute(self, kind: str, text: str, wall_s: float) -> Cell:
        with self._resources.free:
            assert self._session is not None
            return (self._session.python if kind == "python" else self._session.bash)(text, wall_s)

    def close(self) -> None:
        """End the session, if there is one."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _judge(self, content: bytes | None, view: View | None) -> Verdicts:
        """The verdicts on the rows that `view` holds out, which are told, and on the test rows."""
        if content is None:
            return {"validation": None, "grade": None}
        folder = self._resources.data / self._task["data"]["dir"]
        test = self._verdict(self._task, folder, _test_part(content, view)).as_record()
        failed, shown = "metric_error" in test, None
        if view is not None:
            verdict = self._verdict(view.task, view.folder, view.validation_part(content))
            shown = Feedback(valid=verdict.valid, reason=verdict.reason, score=verdict.score)
            failed |= verdict.metric_error is not None
        if failed:
            self._resources.metric_fails()
        return {
            "validation": shown,
            "grade": cast(TurnGrade, {name: value for name, value in test.items() if name in VERDICT}),
        }

    def _verdict(self, task: Task, folder: Path, content: bytes) -> Verdict:
        resources = self._resources
        most = submission_mb(folder / "public", resources.limits.submission_mb)
        return grade(
            task, folder, content, rank_rule=resources.rank_rule, run_code=resources.run_code, max_bytes=most << 20
        )


def _test_part(content: bytes, view: View | None) -> bytes:
    return content if view is None else view.test_part(content)
