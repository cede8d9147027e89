"""Plays the episodes of a run: opens what they need, hands out jobs, keeps their tapes, writes their records."""

import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import prompts
from ..grading import RunCode
from ..models import Model
from ..models.embedding import HttpEmbeddings, open_embeddings
from ..models.options import ModelOptions
from ..models.prices import Price, price_of, read_price
from ..records.errors import OptionError, RecordError, ToolError
from ..records.ids import content_id, derive_seed
from ..records.jsonl import Line
from ..records.options import option
from ..records.tape import Tapes
from ..run import Run
from ..sandbox.options import SandboxOptions, check_protections
from ..scaffolds import SCAFFOLDS
from ..scaffolds.interface import Job, Scaffold, Settings
from ..scaffolds.loading import source_of
from .endless import EndlessOptions
from .environment import RunResources
from .metered_model import MeteredModel
from .taped import TapedEnvironment

Item = tuple[Line, Job[Any], str]  # the line, the job, and the name of its tape
NOT_ASKED = "requests for help too long for the ideator"


@dataclass(frozen=True)
class Sampling:
    """How the policy is sampled, and what is recorded of it."""

    temperature: float = option("0 takes the likeliest token.", default=1.0, at_least=0)
    top_p: float = option("Nucleus sampling.", default=1.0, above=0, at_most=1)
    policy_version: str | None = option(
        "Stamped on the records, where the engine does not know it itself.", metavar="V"
    )
    price: tuple[float, float] | None = option(
        "USD per million tokens of the policy (default: list price, where known).",
        read=read_price,
        metavar="PROMPT,COMPLETION",
    )


@dataclass(frozen=True)
class RunOptions:
    """What else is about a run with any scaffold."""

    group_size: int = option("Rollouts a task.", default=1, at_least=1, flags=("-g", "--group-size"))
    scaffold: str = option(
        f"How the agent works: {', '.join(SCAFFOLDS)}, or module:Name. `--scaffold NAME --help` shows its options.",
        default="single",
        suggested=tuple(SCAFFOLDS),
        metavar="NAME",
    )
    defaults: str = option(
        "The papers' settings for training, or for evaluation.", default="training", choices=("training", "evaluation")
    )
    sandbox_jobs: int | None = option(
        "Programs that run at once (default: the cores).", at_least=1, metavar="N", machine=True
    )


@dataclass
class Runner:
    """One run of a scaffold in turns; `play` does it all."""

    run: Run
    scaffold: Scaffold[Any]
    settings: Settings
    models: ModelOptions
    sampling: Sampling
    options: RunOptions
    endless: EndlessOptions
    sandbox: SandboxOptions
    run_code: RunCode
    counting: threading.Lock = field(default_factory=threading.Lock)

    def play(self) -> None:
        """Work on the tasks (or states) of the run's input."""
        run, settings = self.run, self.settings
        if run.dry_run:
            self._describe()
            return
        if getattr(settings, "max_traces", 0) is None:
            run.say(f"a run goes on for {settings.max_seconds:g} s of asking and running; --max-traces ends it sooner")
        run.open()
        self.tapes = Tapes(run.beside("tape"), run.resume)
        with ExitStack() as stack:
            models = self._models(stack)
            version = policy_version(run, self.models, models["policy"].model, self.sampling)
            at_once = self.options.sandbox_jobs or len(os.sched_getaffinity(0))
            slots = run.jobs if self.scaffold.sessions else min(run.jobs, at_once)
            sandbox = stack.enter_context(self.sandbox.open(slots, run.say))
            check_protections(sandbox, run.say)
            graph = getattr(settings, "graph", None)
            graphs = stack.enter_context(self._graphs(graph)) if hasattr(settings, "graph") else None
            self.resources = RunResources(
                run.data,
                models,
                sandbox,
                self.sandbox.limits(settings.execution_seconds),
                threading.Semaphore(at_once),
                settings.validation,
                settings.reveal_test,
                "cold" if self.sandbox.start == "cold" else "warm",
                run_code=self.run_code,
                graphs=graphs,
                resume=run.resume,
                jobs=run.jobs,
                embeddings=self._embeddings(stack),
                progress=self._count_nodes,
            )
            self.policy = {
                "model": self.models.model,
                "version": version,
                "sampling": {
                    "temperature": self.sampling.temperature,
                    "top_p": self.sampling.top_p,
                    "max_tokens": settings.max_answer_tokens,
                },
            }
            self.source = self.endless.tasks(run, self.scaffold.input, self.options.group_size)
            self._work_through()
            if graphs is not None and not graph:
                shutil.rmtree(graphs, ignore_errors=True)
        self.tapes.close(complete=True)

    def _describe(self) -> None:
        kind, size = self.scaffold.input, self.options.group_size
        count = sum(1 for _ in self.run.lines(kind))
        description = self.scaffold.describe(self.settings)
        each = f"nodes, by {self.models.model}:\n{description}" if description else f"messages of {self.models.model}"
        self.run.say(
            f"would play {count * size} rollouts ({count} {kind}s x {size}), "
            f"each of at most {self.settings.max_turns} {each}{', again and again' if self.endless.forever else ''}"
        )

    @contextmanager
    def _graphs(self, folder: str | None) -> Iterator[Path]:
        """The folder of the searches' graphs: the user's own, or one beside the output until all is done."""
        beside = Path(folder) if folder else self.run.beside("graph")
        if beside is not None:
            if not self.run.resume and not folder:
                shutil.rmtree(beside, ignore_errors=True)
            yield beside
            return
        with tempfile.TemporaryDirectory(
            prefix="mle-rollout-"
        ) as folder_name:  # the output is a pipe: no run can resume it
            yield Path(folder_name)

    def _count_nodes(self, nodes: int) -> None:
        with self.counting:
            self.run.counts["nodes"] += nodes
            self.run.note(f"{self.run.counts['nodes']} nodes")

    def _embeddings(self, stack: ExitStack) -> HttpEmbeddings | None:
        model = getattr(self.settings, "embedding_model", None)
        if model is None:
            return None
        embeddings = open_embeddings(
            model,
            url=getattr(self.settings, "embedding_url", None) or self.models.model_url,
            key_file=self.models.model_key_file,
            timeout=self.models.request_timeout,
            retries=self.models.retries,
        )
        return stack.enter_context(closing(embeddings))

    def _models(self, stack: ExitStack) -> dict[str, MeteredModel]:
        """The models of the run by their roles; closed with `stack`."""
        sampling, options = self.sampling, self.models

        def metered(engine: Model, price: Price | None) -> MeteredModel:
            return MeteredModel(stack.enter_context(closing(engine)), sampling.temperature, sampling.top_p, price)

        own_price = Price.of(*sampling.price) if sampling.price else None
        policy_price = own_price or price_of(options.model or "", options.model_url or "")
        models = {"policy": metered(self.endless.model(self.run, options), policy_price)}
        for role, (name_field, url_field) in self.settings.MODELS.items():
            name, url = getattr(self.settings, name_field), getattr(self.settings, url_field)
            if name is not None and name not in ("null", "vague"):
                models[role] = metered(options.open(name, url), price_of(name, url or options.model_url))
        for role, model in models.items() if self.settings.max_usd is not None else ():
            if model.price is None:
                hint = ": give --price PROMPT,COMPLETION" if role == "policy" else ", the " + role
                raise OptionError(f"--max-usd: no price is known for {model.model.name}{hint}")
        return models

    # --- jobs -----------------------------------------------------------------------------------------------------

    def _work_through(self) -> None:
        run = self.run
        states, steps = (getattr(self.settings, name, None) for name in ("states", "steps"))
        self.states = run.side_output(Path(states)) if states else None
        self.steps = run.side_output(Path(steps)) if steps else None
        run.progress(lambda: (run.count_lines() or 0) * self.source.group_size or None, "rollouts")
        rejected: set[str] = set()
        for (line, _, tape), rollouts, error in run.map(self._work, self._jobs()):
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

    def _jobs(self) -> Iterator[Item]:
        settings, name = self.settings.as_record(), self.options.scaffold
        texts = [prompts.text(prompt) for prompt in self.scaffold.prompts]
        if name not in SCAFFOLDS:
            texts.append(source_of(type(self.scaffold)))
        met: Counter[str] = Counter()
        size = self.source.group_size
        for line, line_seed in self.source:
            record = line.record
            task = record if self.scaffold.input == "task" else record["task"]
            policy = self.source.newest(self.policy, self.resources.models["policy"].model)
            same = ["rollout", record["id"], name, policy, settings, texts, line_seed]
            group = content_id(*same)
            for sample in range(size):
                id = content_id(*same, sample)
                seed = derive_seed(line_seed, id)
                job = Job(id, group, size, sample, seed, task, policy, name, self.settings, record)
                met[id] += 1  # a task that stands in the input twice is worked on twice, and alike
                tape = id if met[id] == 1 else f"{id}-{met[id]}"
                if not self._finished(job, tape, met[id]):
                    yield line, job, tape

    def _finished(self, job: Job[Any], tape: str, times: int) -> bool:
        # a job of several records has more to come after the first, as long as there is a tape that says so
        return self.tapes.is_done(tape) or (self.run.finished(job.id, times) and not self.tapes.has(tape))

    def _work(self, item: Item) -> list[dict[str, Any]]:
        """Play a job. Its records leave as they are made, unless the order of the input is to be kept."""
        _, job, tape = item
        job = replace(job, policy=self.source.newest(job.policy, self.resources.models["policy"].model))
        kept = []
        environment = TapedEnvironment(self.resources.environment(job.task, tape), self.tapes.tape(tape))
        with closing(environment):
            for rollout in self.scaffold.play(job, environment):
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
        elif self.run.emit(self.source.stamped(rollout, rollout["policy"]["version"])):
            refused = [why for turn in rollout["turns"] if (why := (turn.get("help") or {}).get("refused"))]
            with self.counting:
                self.run.counts[rollout["stop_reason"]] += 1
                if refused:
                    if not self.run.counts[NOT_ASKED]:
                        self.run.say(f"the ideator cannot be asked, so its answers count as none: {refused[0]}")
                    self.run.counts[NOT_ASKED] += len(refused)


def policy_version(run: Run, models: ModelOptions, engine: Model, sampling: Sampling) -> str | int | None:
    """The version of the policy for the records. ToolError: the run that is resumed had another."""
    version = sampling.policy_version if engine.version is None else engine.version
    if run.earlier is not None and run.earlier["policy"]["version"] != version:
        raise ToolError(
            f"cannot resume with another policy: {models.model} was at version {run.earlier['policy']['version']}, "
            f"now at {version}; choose another -o"
        )
    return version
