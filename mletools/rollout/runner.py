"""Plays the episodes of a run: opens what they need, hands out jobs, keeps their tapes, writes their records."""

import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, cast

from .. import prompts
from ..base import workers
from ..base.errors import RecordError, ToolError
from ..base.ids import content_id, derive_seed
from ..base.jsonl import Line
from ..base.options import option
from ..base.output import LEFT
from ..base.tape import Tapes, kinds
from ..grading import RunCode
from ..records import schema
from ..records.rollout import Message, Policy, Rollout
from ..records.task import Task
from ..run import Run
from ..sandbox import Limits, Sandbox
from ..sandbox.options import SandboxOptions, check_protections
from ..scaffolds import SCAFFOLDS
from ..scaffolds.interface import STOP, Job, Needs, Played, Scaffold, Settings, State, Step
from .endless import EndlessOptions
from .environment import RunResources
from .metered_model import RunModels
from .probe import Installed
from .program_facts import LIBRARIES_FOUND, Probe, ProgramFacts, Public, probe_interpreter, probe_sandbox

BY_OWN_SCORES = "searches by the scores that programs print"
NOT_ASKED = "requests for help too long for the ideator"
NOT_IMPLEMENTED = "ideas too long for the implementer"
_FIRST = 20  # answers that are looked at for a form that cannot be read
_LINES, _COLUMNS = 8, 160  # of the answer that is shown then


class Item(NamedTuple):
    """A job of a line of the input."""

    line: Line
    job: Job[Any]
    tape: str  # the name of its tape
    times: int  # its number among the copies that no killed run has completed: a task that stands in the input twice is
    # worked on twice, and alike


@dataclass
class Result:
    """What became of a job: the ids of its records, those that are still to be written, or why it has none.

    again: a killed run may have written some of them.
    """

    again: bool
    ids: list[str] = field(default_factory=list)
    kept: list[Played] = field(default_factory=list)
    problem: RecordError | None = None


@dataclass(frozen=True)
class RunOptions:
    """What else is about a run with any scaffold."""

    group_size: int = option("Rollouts per task.", default=1, at_least=1, flags=("-g", "--group-size"))
    scaffold: str = option(
        f"How the agent works: {', '.join(SCAFFOLDS)}, or module:Name. `--scaffold NAME --help` shows its options.",
        default="single",
        suggested=tuple(SCAFFOLDS),
        metavar="NAME",
    )
    defaults: str = option(
        "Use the papers' settings for training or for evaluation.",
        default="training",
        choices=("training", "evaluation"),
    )
    prompts: str | None = option(
        "Folder whose files NAME.md replace the prompts of the same names (mletools/prompts).",
        kind="existing folder",
        metavar="DIR",
    )
    engine_batch: int = option(
        "Most answers that an hf: engine samples at once.", default=64, at_least=1, metavar="N", machine=True
    )
    sandbox_jobs: int | None = option(
        "Number of programs that run at once (default: the number of cores).", at_least=1, metavar="N", machine=True
    )


class UnreadableAnswers:
    """Counts the first answers of a run, as their rollouts end; `add` has the warning once, when more than half cannot be
    read: then a prompt, a template or a server is wrong, not the agent.
    """

    def __init__(self) -> None:
        self.answers = 0
        self.reasons: Counter[str] = Counter()
        self.example: Message | None = None

    def add(self, rollout: Rollout) -> str | None:
        """The warning, if this rollout's answers make it due."""
        for turn in rollout["turns"]:
            if "format" not in turn or self.answers == _FIRST:
                continue
            self.answers += 1
            if turn["format"]["read"] == "none":
                message = rollout["messages"][turn.get("message", -1)]
                self.reasons[turn["format"]["rule"] or ""] += 1
                self.example = self.example if self.example and self.example["content"] else message
                if self.reasons.total() == _FIRST // 2 + 1:
                    return self._warning()
        return None

    def _warning(self) -> str:
        reasons = ", ".join(f"{reason} {count}" for reason, count in self.reasons.most_common())
        head = f"{self.reasons.total()} of the first {self.answers} answers cannot be read ({reasons}); one of them:"
        return "\n".join([head, *(f"    {line}" for line in (_shown(self.example) if self.example else ()))])


def _shown(message: Message) -> list[str]:
    """The first lines of a message."""
    text = message["content"]
    if not text.strip():
        return [f"(empty; {len(message.get('reasoning') or '')} characters of reasoning were set apart)"]
    lines = text.strip()[: _LINES * _COLUMNS * 2].split("\n")
    shown = [line[:_COLUMNS] + ("…" if len(line) > _COLUMNS else "") for line in lines[:_LINES]]
    return [*shown, "…"] if len(lines) > _LINES else shown


@dataclass
class Runner:
    """One run of a scaffold; `play` does it all."""

    run: Run
    scaffold: Scaffold[Any]
    settings: Settings
    models: RunModels
    options: RunOptions
    endless: EndlessOptions
    sandbox: SandboxOptions
    run_code: RunCode
    counting: threading.Lock = field(default_factory=threading.Lock)
    unreadable: UnreadableAnswers = field(default_factory=UnreadableAnswers)
    rejected: set[str] = field(default_factory=set)  # places of lines
    refused: Counter[str] = field(default_factory=Counter)  # rollouts of an endless run that have failed, by group
    broken_off: set[str] = field(default_factory=set)  # tapes of jobs that were refused, and had answers by then
    unscored: set[str] = field(default_factory=set)  # tasks of which no validation rows can be held out
    batch: int = 1  # jobs that are played side by side, so that the engine samples their questions in one call

    def play(self) -> None:
        """Work on the tasks (or states) of the run's input."""
        folder = self.options.prompts
        with prompts.replaced(Path(folder) if folder else None):
            self._play_all()

    def _play_all(self) -> None:
        run, settings = self.run, self.settings
        needs = self.scaffold.needs(settings)
        if needs.workers > run.jobs:
            run.say(
                f"-j {run.jobs} is less than --workers {needs.workers}: nodes under way wait for their turn, while the clock "
                f"on the wall goes on; give -j {needs.workers}, or --workers {run.jobs}"
            )
        self.sandbox.check_place(needs.shown, needs.loopback)
        if run.dry_run:
            self._describe()
            return
        if needs.note is not None:
            run.say(needs.note)
        run.open()
        self._refuse_what_is_left()
        with ExitStack() as stack:
            batch = self.options.engine_batch
            models = self.models.open(stack, lambda: self.endless.model(run, self.models.options, batch))
            engine = models["policy"].model
            self.policy = self.models.policy(engine, cast(Rollout | None, run.earlier))
            if needs.one_answer and engine.batch is not None and engine.batch > 1:
                self.batch = engine.batch
                run.jobs = 1  # batches; their jobs have a thread each
            # A resumed run samples unfinished batches again, as a whole.
            self.tapes = Tapes(run.sidecar_path("tape") if self.batch == 1 else None, run.resume)
            at_once = self.options.sandbox_jobs or len(os.sched_getaffinity(0))
            sandbox = self._sandbox(stack, at_once, needs) if self.scaffold.executes else None
            graphs = stack.enter_context(self._graphs(needs.graph_folder)) if needs.graphs else None
            limits = self.sandbox.limits(settings.execution_seconds)
            self.resources = RunResources(
                run.data,
                models,
                sandbox,
                limits,
                threading.Semaphore(at_once),
                settings.validation,
                settings.reveal_test,
                ProgramFacts(
                    limits, self.sandbox.gpus is not None, self._probe(sandbox, limits), self.tapes.tape("run")
                ),
                settings.instrument,
                "cold" if self.sandbox.start == "cold" else "warm",
                run_code=self.run_code,
                graphs=graphs,
                resume=run.resume,
                force=run.force,
                jobs=run.jobs,
                embeddings=self.models.embeddings(stack),
                selection=needs.selection,
                progress=self._count_nodes,
                metric_fails=self._count_metric_failure,
            )
            self.source = self.endless.tasks(run, self.scaffold.inputs, self.options.group_size)
            try:
                self._work_through(needs)
            except BaseException as error:
                if graphs is not None and not isinstance(error, Exception):
                    run.say(self._what_is_left(needs))
                raise
            left = graphs is not None and any((graphs / f"{name}.jsonl").exists() for name in self.broken_off)
            paid = not self.broken_off.isdisjoint(self.tapes.jobs_with("ask") if self.broken_off else ())
            if graphs is not None and not needs.graph_folder and not left:
                shutil.rmtree(graphs, ignore_errors=True)
            if left and run.sidecar_path("") is not None:
                run.say("--resume works on the refused searches again, with the nodes that they have")
            elif paid:
                run.say("--resume works on the refused rollouts again, with the answers that they have")
        self.tapes.close(complete=not left and not paid)

    def _refuse_what_is_left(self) -> None:
        """ToolError where a killed run has left paid answers or nodes, and this one would discard them unasked.

        What a run that never reached its model has left is neither.
        """
        if self.run.resume or self.run.force:
            return
        from ..scaffolds.search.graph import holds_work

        tape, graphs = self.run.sidecar_path("tape"), self.run.sidecar_path("graph")
        if tape is not None and tape.exists() and kinds(tape) - {LIBRARIES_FOUND}:
            raise ToolError(f"{tape}: {LEFT}")
        if graphs is not None and any(map(holds_work, graphs.glob("*"))):
            raise ToolError(f"{graphs}: {LEFT}")

    def _what_is_left(self, needs: Needs) -> str:
        """What a user can do with the nodes of searches that are stopped."""
        if self.run.sidecar_path("") is not None:
            return "--resume goes on with the nodes so far; with --max-seconds 1 it hands in the best of them"
        if needs.graph_folder:
            return f"the nodes so far are in {needs.graph_folder}: --from-graph begins with them"
        return "the nodes so far are lost: -o FILE or --graph DIR would have kept them"

    def _describe(self) -> None:
        self.models.check(self.endless.follow is None)
        if self.scaffold.executes:
            self.sandbox.check()
        size = self.options.group_size
        kinds = Counter(line.record["kind"] for line in self.run.lines(*self.scaffold.inputs))
        told = " and ".join(f"{number} {kind}s" for kind, number in kinds.items()) or f"0 {self.scaffold.input}s"
        again = ", again and again" if self.endless.forever else ""
        self.run.say(
            f"would play {kinds.total() * size} rollouts of {self.models.options.model} ({told} x {size}{again}), "
            f"each of at most {self.scaffold.describe(self.settings)}"
        )
        costs = self.scaffold.costs(self.settings, self.models.prices())
        if costs is not None:
            self.run.say(f"each: {costs}")

    def _sandbox(self, stack: ExitStack, at_once: int, needs: Needs) -> Sandbox:
        slots = self.run.jobs if self.scaffold.sessions else min(self.run.jobs, at_once)
        sandbox = stack.enter_context(self.sandbox.open(slots, self.run.say, needs.shown, needs.loopback))
        check_protections(sandbox, self.run.say)
        return sandbox

    def _probe(self, sandbox: Sandbox | None, limits: Limits) -> Probe:
        """How the Python of programs is asked for its libraries, also where this run has no sandbox (scaffold single)."""
        if sandbox is not None:
            return partial(probe_sandbox, sandbox, limits)
        if self.sandbox.backend == "local" and self.sandbox.on is None and self.sandbox.weights is None:
            return probe_interpreter

        def probe(public: Public) -> Installed:
            with self.sandbox.open(1, self.run.say) as other:
                return probe_sandbox(other, limits, public)

        return probe

    @contextmanager
    def _graphs(self, folder: str | None) -> Iterator[Path]:
        """The folder of the searches' graphs: the user's own, or one beside the output until all is done."""
        sidecar_path = Path(folder) if folder else self.run.sidecar_path("graph")
        if sidecar_path is not None:
            if not self.run.resume and not folder:
                shutil.rmtree(sidecar_path, ignore_errors=True)
            (sidecar_path / STOP).unlink(missing_ok=True)
            yield sidecar_path
            return
        # The output is a pipe: no run can resume it.
        with tempfile.TemporaryDirectory(prefix="mle-rollout-") as temporary:
            yield Path(temporary)

    def _count_nodes(self, nodes: int) -> None:
        with self.counting:
            self.run.counts["nodes"] += nodes
            self.run.note(f"{self.run.counts['nodes']} nodes")

    def _count_metric_failure(self) -> None:
        with self.counting:
            self.run.counts["submissions on which the metric fails"] += 1

    # --- jobs -----------------------------------------------------------------------------------------------------

    def _work_through(self, needs: Needs) -> None:
        run = self.run
        self.states = run.side_output(needs.states) if needs.states else None
        self.steps = run.side_output(needs.steps) if needs.steps else None
        for output in (run, self.states, self.steps):
            if output is not None:
                output.settled(self.tapes.settled)
        run.progress(lambda: run.count_lines(self.options.group_size), "rollouts")
        for batch, results, error in run.map(self._work, self._batches()):
            if error is not None:
                raise error
            for item, result in zip(batch, results, strict=True):
                self._settle(item, result)

    def _settle(self, item: Item, result: Result) -> None:
        for played in result.kept:  # also of a job that was refused later on
            self._emit(played, result.again)
        if result.problem is not None:
            if item.line.place not in self.rejected:  # most of a group's rollouts fail for the same reason
                self.run.reject(item.line, str(result.problem))
            self.rejected.add(item.line.place)
            self.broken_off.add(item.tape)
            self.run.counts["rollouts refused"] += 1
            if self.source is not None:
                self.refused[item.job.group] += 1
                self.source.refuse(item.line.record["id"], 1, self.refused[item.job.group] == item.job.group_size)
            return
        self.tapes.done(item.tape, result.ids)
        if self.source is not None:
            self.source.finished(1)

    def _batches(self) -> Iterator[list[Item]]:
        """Jobs that are worked on together; cut before finished ones are skipped, so a resumed run cuts them alike."""
        for stream in self._streams(self._groups()):
            items = iter(stream)
            while batch := list(islice(items, self.batch)):
                if not all(map(self._finished, batch)):
                    yield batch

    def _streams(self, groups: Iterator[list[Item]]) -> Iterator[Iterable[Item]]:
        """Jobs of which batches may be made. An endless run does not wait for a group to fill a batch."""
        if self.source is None:
            yield chain.from_iterable(groups)
            return
        for first in groups:
            items = list(first)
            while len(items) + self.options.group_size <= self.batch and self.source.another():
                if (further := next(groups, None)) is None:
                    break
                items += further
            yield items

    def _groups(self) -> Iterator[list[Item]]:
        """The jobs of each line of the input."""
        copies, undone = Counter[str](), Counter[str]()
        name, size, fields = self.options.scaffold, self.options.group_size, self.models.fields
        tasks = ((line, self.run.seed) for line in self.run.lines(*self.scaffold.inputs))
        for line, seed in tasks if self.source is None else self.source:
            policy = self.resources.models["policy"].stamped(self.policy)
            items = []
            for job in group_jobs(
                self.scaffold, name, self.settings, cast(Task | Rollout, line.record), policy, size, seed, *fields
            ):
                copies[job.id] += 1
                tape = job.id if copies[job.id] == 1 else f"{job.id}-{copies[job.id]}"
                undone[job.id] += not self.tapes.is_done(tape)
                items.append(Item(line, job, tape, undone[job.id]))
            yield items

    def _finished(self, item: Item) -> bool:
        # a job of several records has more to come after the first, as long as there is a tape that says so
        written = self.run.finished(item.job.id, self.tapes.settled[item.job.id] + item.times)
        return self.tapes.is_done(item.tape) or (written and not self.tapes.has(item.tape))

    def _work(self, batch: list[Item]) -> list[Result]:
        """Play jobs; those of a batch side by side."""
        if self.batch == 1:
            return [self._play(item) for item in batch]
        with self.resources.models["policy"].batch(len(batch)) as company:

            def play(item: Item) -> Result:
                try:
                    return self._play(item)
                finally:
                    company.leave()

            results = []
            for _, result, error in workers.run(play, batch, len(batch), keep_order=True):
                if error is not None:
                    raise error
                assert result is not None
                results.append(result)
            return results

    def _play(self, item: Item) -> Result:
        """Play a job. Its records leave as they are made, unless the order of the input is to be kept."""
        job = replace(item.job, policy=self.resources.models["policy"].stamped(item.job.policy))
        # without a tape what is written is of the first copies
        result = Result(again=item.times == 1 or self.tapes.has(item.tape) or self._finished(item))
        try:
            environment = self.resources.environment(job.task, item.tape, self.tapes.tape(item.tape))
            reason = self.resources.no_validation.get(job.task["id"])
            if reason is not None:
                job = self._without_validation(job, reason)
            with closing(environment):
                for played in self.scaffold.play(job, environment):
                    record = played.record if isinstance(played, State | Step) else played
                    note_sent(record, environment.sent)
                    if reason is not None:
                        record["no_validation"] = reason
                    self._check(record)
                    result.ids.append(record["id"])
                    if self.run.keep_order or self.batch > 1:
                        result.kept.append(played)
                    else:
                        self._emit(played, result.again)
        except RecordError as error:
            result.problem = error
        return result

    def _check(self, record: Rollout) -> None:
        """ToolError where a scaffold, which may be anyone's, has made a record that no other command would read."""
        try:
            schema.check(record, "rollout")
        except RecordError as error:
            raise ToolError(f"--scaffold {self.options.scaffold} has made a record that is none: {error}") from error

    def _without_validation(self, job: Job[Any], reason: str) -> Job[Any]:
        """The job as it is played on a task of which no rows can be held out. RecordError: the scaffold needs scores."""
        task = job.task["id"]
        try:
            settings = self.scaffold.without_validation(job.settings)
        except ToolError as error:
            raise RecordError(f"task {task}: no validation rows can be held out: {reason}: {error}") from None
        with self.counting:
            first, self.unscored = task not in self.unscored, self.unscored | {task}
        if first:
            self.run.say(
                f"task {task}: no validation rows can be held out: {reason}: its programs have all training rows, and "
                f"{self.scaffold.without_rows(settings)}"
            )
        return replace(job, settings=settings)

    def _emit(self, played: Played, again: bool) -> None:
        match played:
            case State(record):
                if self.states is not None:
                    self.states.emit(cast(Any, record), again)
            case Step(record):
                if self.steps is not None:
                    self.steps.emit(cast(Any, record), again)
            case rollout if self.run.emit(cast(Any, self.source.stamped(rollout) if self.source else rollout), again):
                self._count(rollout)

    def _count(self, rollout: Rollout) -> None:
        refused = [why for turn in rollout["turns"] if (why := (turn.get("help") or {}).get("refused"))]
        with self.counting:
            self.run.counts[rollout["stop_reason"]] += 1
            if why := (rollout.get("implementer") or {}).get("refused"):
                if not self.run.counts[NOT_IMPLEMENTED]:
                    self.run.say(f"the implementer cannot be asked, so mle-grade gives no reward: {why}")
                self.run.counts[NOT_IMPLEMENTED] += 1
            warning = self.unreadable.add(rollout)
            if warning is not None:
                self.run.say(warning)
            if "search" in rollout:
                self.run.counts["answers read leniently"] += sum(rollout["search"].get("lenient", {}).values())
                self.run.counts["fallbacks"] += sum(rollout["search"].get("fallbacks", {}).values())
                self.run.counts[BY_OWN_SCORES] += "evaluation_asked" in rollout["search"]
            if refused:
                if not self.run.counts[NOT_ASKED]:
                    self.run.say(f"the ideator cannot be asked, and the agent is told so: {refused[0]}")
                self.run.counts[NOT_ASKED] += len(refused)


def note_sent(rollout: Rollout, sent: Mapping[str, object]) -> None:
    """Put what the policy's server was really sent into `policy.sampling`; see Reply.sampling."""
    if sent:
        policy = rollout["policy"]
        rollout["policy"] = {**policy, "sampling": {**policy["sampling"], **sent}}


def group_jobs(
    scaffold: Scaffold[Any],
    name: str,
    settings: Settings,
    record: Task | Rollout,
    policy: Policy,
    size: int,
    seed: int,
    *fields: dict[str, object],
) -> list[Job[Any]]:
    """The `size` jobs of an input record, sample 0 first. A larger group repeats the samples of a smaller one.

    fields: {role: further fields of its requests}, of the roles that have some.
    """
    task = record if record["kind"] == "task" else record["task"]
    identity, start = scaffold.start(record, settings, seed)
    same = ["rollout", record["id"], name, policy, *identity, *fields]
    group, ids = content_id(*same), [content_id(*same, sample) for sample in range(size)]
    return [
        Job(id, group, size, sample, derive_seed(seed, id), task, policy, name, settings, record, start)
        for sample, id in enumerate(ids)
    ]
