"""Agents in turns, for mle-rollout: opens what they need, plays their episodes, keeps their tapes."""

import importlib
import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from .. import cli, prompts
from ..models import Model
from ..models.embedding import HttpEmbeddings, open_embeddings
from ..models.prices import Price, price_of
from ..records.errors import RecordError, ToolError
from ..records.ids import content_id, derive_seed
from ..records.tape import Tapes
from ..sandbox import Limits
from ..scaffolds import SCAFFOLDS
from ..scaffolds.job import Job, Settings
from .boxes import BoxOptions, check_protections
from .metric_box import CodeBox, opened
from .model_options import ModelOptions
from .rollout_endless import Endless, Source
from .rollout_options import TurnOptions
from .rollout_place import World
from .rollout_speaker import Speaker

Asked = tuple[cli.Line, Job, str]  # the line, the job, and the name of its tape


def play_turns(
    run: cli.Run,
    scaffold: str,
    models: ModelOptions,
    temperature: float,
    top_p: float,
    turns: TurnOptions,
    box: BoxOptions,
    group_size: int,
    max_tokens: int | None,
    endless: Endless,
) -> None:
    """Work on the tasks (or states) of the run's input with an agent in turns."""
    room = importlib.import_module(SCAFFOLDS[scaffold])
    settings = turns.settings(room, box.timeout, max_tokens)
    settings = room.check(settings)
    if run.dry_run:
        count = sum(1 for _ in run.lines(room.INPUT))
        each = (
            f"messages of {models.model}"
            if scaffold != "search"
            else f"nodes, by {models.model}:\n{room.in_words(settings)}"
        )
        run.say(
            f"would play {count * group_size} rollouts ({count} {room.INPUT}s x {group_size}), "
            f"each of at most {settings.max_turns} {each}{', again and again' if endless.forever else ''}"
        )
        return
    if settings.own.get("max_traces", 0) is None:
        run.say(f"a run goes on for {settings.max_seconds:g} s of asking and running; --max-traces ends it sooner")
    run.open()
    tapes = Tapes(run.beside("tape"), run.resume)
    with ExitStack() as stack:
        speakers = _speakers(run, stack, models, temperature, top_p, turns, settings, endless)
        version = policy_version(run, models, speakers["policy"].model, turns)
        at_once = turns.sandbox_jobs or len(os.sched_getaffinity(0))
        limits = box.limits(settings.execution_seconds)
        sandbox = stack.enter_context(box.open(run, run.jobs if room.SESSIONS else min(run.jobs, at_once)))
        check_protections(run, sandbox)
        stack.enter_context(opened)
        graphs = stack.enter_context(_graphs(run, turns)) if scaffold == "search" else None
        world = World(
            run.data,
            speakers,
            sandbox,
            limits,
            threading.Semaphore(at_once),
            settings.validation,
            settings.reveal_test,
            "cold" if box.start == "cold" else "warm",
            run_code=CodeBox(box.backend, Limits(memory_mb=4096, wall_s=300.0)),
            graphs=graphs,
            go_on=run.resume,
            jobs=run.jobs,
            embeddings=_embeddings(stack, models, turns),
            progress=_progress(run),
        )
        policy = {
            "model": models.model,
            "version": version,
            "sampling": {
                "temperature": temperature,
                "top_p": top_p,
                "max_tokens": settings.max_answer_tokens,
            },
        }
        source = endless.tasks(run, room.INPUT, group_size)
        _Player(run, room, world, tapes, settings, policy, source, turns.states, turns.steps).play(scaffold)
        if graphs is not None and not turns.graph:
            shutil.rmtree(graphs, ignore_errors=True)
    tapes.close(complete=True)


@contextmanager
def _graphs(run: cli.Run, turns: TurnOptions) -> Iterator[Path]:
    """The folder of the searches' graphs: the user's own, or one beside the output, which is kept until all is done."""
    beside = Path(turns.graph) if turns.graph else run.beside("graph")
    if beside is not None:
        if not run.resume and not turns.graph:
            shutil.rmtree(beside, ignore_errors=True)
        yield beside
        return
    with tempfile.TemporaryDirectory(prefix="mle-rollout-") as folder:  # the output is a pipe: nothing to go on with
        yield Path(folder)


def _progress(run: cli.Run) -> Callable[[int], None]:
    counting = threading.Lock()

    def told(nodes: int) -> None:
        with counting:
            run.counts["nodes"] += nodes
            run.note(f"{run.counts['nodes']} nodes")

    return told


def _embeddings(stack: ExitStack, models: ModelOptions, turns: TurnOptions) -> HttpEmbeddings | None:
    if turns.embedding_model is None:
        return None
    url = turns.embedding_url or models.model_url
    return stack.enter_context(
        closing(
            open_embeddings(
                turns.embedding_model,
                url=url,
                key_file=models.model_key_file,
                timeout=models.request_timeout,
                retries=models.retries,
            )
        )
    )


def policy_version(run: cli.Run, models: ModelOptions, engine: Model, turns: TurnOptions) -> str | int | None:
    """The version of the policy for the records. ToolError: the run that is resumed had another."""
    version = turns.policy_version if engine.version is None else engine.version
    if run.earlier is not None and run.earlier["policy"]["version"] != version:
        raise ToolError(
            f"cannot resume with another policy: {models.model} was at version {run.earlier['policy']['version']}, "
            f"now at {version}; choose another -o"
        )
    return version


def _speakers(
    run: cli.Run,
    stack: ExitStack,
    models: ModelOptions,
    temperature: float,
    top_p: float,
    turns: TurnOptions,
    settings: Settings,
    endless: Endless,
) -> dict[str, Speaker]:
    """The models of a run by who they are; closed with `stack`."""

    def opened_model(name: str | None, url: str | None, price: Price | None) -> Speaker:
        engine = stack.enter_context(closing(models.open(name, url)))
        found = price or price_of(name or models.model or "", url or models.model_url)
        return Speaker(engine, temperature, top_p, found)

    price = Price.of(*turns.price) if turns.price else None
    policy = stack.enter_context(closing(endless.model(run, models)))
    found = price or price_of(models.model or "", models.model_url or "")
    speakers = {"policy": Speaker(policy, temperature, top_p, found)}
    for who, name, url in (
        ("ideator", turns.ideator, turns.ideator_url),
        ("implementer", turns.implementer, turns.implementer_url),
        ("researcher", turns.research_model, turns.research_url),
        ("developer", turns.develop_model, turns.develop_url),
    ):
        if name is not None and name not in ("null", "vague"):
            speakers[who] = opened_model(name, url, None)
    for who, speaker in speakers.items() if settings.max_usd is not None else ():
        if speaker.price is None:
            give = ": give --price PROMPT,COMPLETION" if who == "policy" else ", the " + who
            raise click.UsageError(f"--max-usd: no price is known for {speaker.model.name}{give}")
    return speakers


UNASKED = "requests for help too long for the ideator"


@dataclass
class _Player:
    run: cli.Run
    room: Any
    world: World
    tapes: Tapes
    settings: Settings
    policy: dict[str, Any]
    source: Source
    states_path: str | None
    steps_path: str | None
    counting: threading.Lock = field(default_factory=threading.Lock)

    def play(self, scaffold: str) -> None:
        run = self.run
        self.states = run.side_output(Path(self.states_path)) if self.states_path else None
        self.steps = run.side_output(Path(self.steps_path)) if self.steps_path else None
        run.progress(lambda: (run.count_lines() or 0) * self.source.group_size or None, "rollouts")
        rejected: set[str] = set()
        for (line, _, tape), rollouts, error in run.map(self._work, self._jobs(scaffold)):
            if isinstance(error, RecordError):
                if line.place not in rejected:  # the other rollouts of a group fail for the same reason
                    run.reject(line, str(error))
                rejected.add(line.place)
                continue
            if error is not None:
                raise error
            for rollout in rollouts:
                self._emit(rollout)
            self.tapes.done(tape)
            self.source.finished(1)

    def _finished(self, job: Job, tape: str, times: int) -> bool:
        # a job of several records has more to come after the first, as long as there is a tape that says so
        return self.tapes.is_done(tape) or (self.run.finished(job.id, times) and not self.tapes.has(tape))

    def _jobs(self, scaffold: str) -> Iterator[Asked]:
        settings = asdict(self.settings)
        words = [prompts.text(name) for name in self.room.PROMPTS]
        met: Counter[str] = Counter()
        size = self.source.group_size
        for line, line_seed in self.source:
            record = line.record
            task = record if self.room.INPUT == "task" else record["task"]
            policy = self.source.of_now(self.policy, self.world.speakers["policy"].model)
            same = ["rollout", record["id"], scaffold, policy, settings, words, line_seed]
            group = content_id(*same)
            for sample in range(size):
                id = content_id(*same, sample)
                seed = derive_seed(line_seed, id)
                job = Job(id, group, size, sample, seed, task, policy, scaffold, self.settings, record)
                met[id] += 1  # a task that stands in the input twice is worked on twice, and alike
                tape = id if met[id] == 1 else f"{id}-{met[id]}"
                if not self._finished(job, tape, met[id]):
                    yield line, job, tape

    def _work(self, asked: Asked) -> list[dict[str, Any]]:
        """Play a job. Its records leave as they are made, unless the order of the input is to be kept."""
        _, job, tape = asked
        job = replace(job, policy=self.source.of_now(job.policy, self.world.speakers["policy"].model))
        kept = []
        with closing(self.world.place(job.task, tape)) as place:
            for rollout in self.room.work(job, place, self.tapes.tape(tape)):
                if self.run.keep_order:
                    kept.append(rollout)
                else:
                    self._emit(rollout)
        return kept

    def _emit(self, rollout: dict[str, Any]) -> None:
        if rollout["stop_reason"] == "asked":
            if self.states is not None:
                self.states.emit(rollout)
        elif "step" in rollout:
            if self.steps is not None:
                self.steps.emit(rollout)
        elif self.run.emit(self.source.told(rollout, rollout["policy"]["version"])):
            refused = [why for turn in rollout["turns"] if (why := (turn.get("help") or {}).get("refused"))]
            with self.counting:
                self.run.counts[rollout["stop_reason"]] += 1
                if refused:
                    if not self.run.counts[UNASKED]:
                        self.run.say(f"the ideator cannot be asked, so its answers count as none: {refused[0]}")
                    self.run.counts[UNASKED] += len(refused)
