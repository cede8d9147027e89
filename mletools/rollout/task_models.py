"""The models of the four roles that write tasks, each reply paid once, and the sandbox of their scripts.

Not covered: the roles themselves (tasks.roles).
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NotRequired, TypedDict

from ..base.errors import RecordError, ToolError
from ..base.ids import bytes_digest, canonical, derive_seed
from ..models import Model
from ..models.prices import Price
from ..records.rollout import Message
from ..sandbox import Limits, Setup, open_sandbox
from ..tasks.options import JOURNAL, ROLES, LlmOptions, TaskRole
from ..tasks.roles import Answer, Examine, Journal, make_llm_task, read_seeds
from ..tasks.roles.journal import Entry
from ..tasks.roles.maker import LlmMaker, ScriptBox
from ..tasks.table import Rejected
from .metered_model import MeteredModel

LIMITS = Limits(wall_s=120.0, memory_mb=2048, disk_mb=256, output_kb=256, submission_mb=32)


class Question(TypedDict):
    """What a model is asked, and how; its digest finds the reply in the journal."""

    model: str
    seed: int
    temperature: float
    max_tokens: int
    messages: list[Message]
    top_p: NotRequired[float]


class Asker:
    """Asks the models of roles each question once: replies in the journal are not paid for again. Thread-safe."""

    def __init__(self, models: Mapping[str, tuple[str, MeteredModel]], journal: Journal, seed: int):
        self._models, self._journal, self._seed = models, journal, seed
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}  # by the question's digest

    def __call__(self, role: str, task: str, attempt: int, messages: list[Message]) -> Answer:
        name, model = self._models[role.partition(".")[0]]
        assert model.max_tokens is not None  # _models
        question: Question = {
            "model": name,
            "seed": derive_seed(self._seed, role, task, attempt),
            "temperature": 1.0 if model.temperature is None else model.temperature,
            "max_tokens": model.max_tokens,
            "messages": messages,
        }
        if model.top_p is not None:
            question["top_p"] = model.top_p
        digest = bytes_digest(canonical(question).encode("utf-8", "replace"))
        entry: Entry = {
            "role": role,
            "task": task,
            "attempt": attempt,
            "digest": digest,
            "model": name,
            "reply": None,
            "error": None,
        }
        with self._guard:
            lock = self._locks.setdefault(digest, threading.Lock())
        with lock:  # tasks of one seed start with the same question: the second waits for the reply
            entry = self._journal.find(digest) or self._pay(model, question, entry)
        assert entry["reply"] is not None
        return Answer(
            entry["reply"],
            cut=entry["finish_reason"] == "length",
            prompt_tokens=entry["prompt_tokens"],
            completion_tokens=entry["completion_tokens"],
            usd=entry["usd"],
        )

    def _pay(self, model: MeteredModel, question: Question, entry: Entry) -> Entry:
        """Ask a question; returns its entry in the journal, completed."""
        started = time.perf_counter()
        try:
            reply = model.ask(entry["role"], question["messages"], question["seed"], None, question["max_tokens"])
        except RecordError as error:
            reply = {"refused": str(error)}
        except ToolError as error:
            self._journal.append({**entry, "seconds": _since(started), "error": str(error)})
            raise
        if "refused" in reply:
            self._journal.append({**entry, "seconds": _since(started), "error": reply["refused"]})
            raise Rejected(f"{entry['role']}: the server refuses the question: {reply['refused']}")
        entry["finish_reason"], entry["prompt_tokens"] = reply["finish_reason"], reply["prompt_tokens"]
        entry["completion_tokens"], entry["seconds"] = reply["completion_tokens"], reply["seconds"]
        entry["reply"] = reply["text"].encode("utf-8", "replace").decode()
        entry["usd"] = None if reply["usd"] is None else round(reply["usd"], 9)
        self._journal.append(entry)
        return entry


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 4)


def _models(
    stack: ExitStack, options: LlmOptions, roles: Mapping[str, TaskRole]
) -> dict[str, tuple[str, MeteredModel]]:
    """The models and their names by role, closed with `stack`; roles without a model and a server of their own share one."""
    shared: Model | None = None
    models = {}
    for role in ROLES:
        given = roles.get(role, TaskRole())
        own, name = given.options, given.model or options.model
        assert name is not None  # options.check_roles
        apart = given.model or given.url or own.key_file or own.key_env or own.option
        if apart:
            own = own if given.model else replace(own, option=(*options.model_option, *own.option))
            engine = stack.enter_context(closing(options.open_role(name, given.url, own)))
        else:
            shared = engine = shared or stack.enter_context(closing(options.open()))
        price = None if given.model else options.price
        model = MeteredModel(
            engine,
            options.temperature if own.temperature is None else own.temperature,
            own.top_p or options.top_p,
            Price.of(*price) if price and not own.price else own.price_of(name, given.url or options.model_url),
            own_price=bool(own.price or price),
            max_tokens=own.max_tokens or options.max_tokens,
        )
        models[role] = name, model
    return models


@contextmanager
def open_maker(
    options: LlmOptions,
    seed: int,
    data: Path,
    *,
    backend: str = "auto",
    jobs: int = 1,
    limits: Limits = LIMITS,
    examine: Examine | None = None,
    roles: Mapping[str, TaskRole] = MappingProxyType({}),
) -> Iterator[LlmMaker]:
    """An LlmMaker for `jobs` threads; the end of the with block closes its model, journal and sandbox.

    Not picklable. ToolError: no seeds, no model, a journal in use, no sandbox that hides other files from the model's
    scripts.
    """
    options.check_roles(roles)
    seeds = read_seeds(options.seeds, data)
    with ExitStack() as stack:
        models = _models(stack, options, roles)
        journal = stack.enter_context(Journal(Path(options.journal) if options.journal else data / JOURNAL))
        sandbox = stack.enter_context(open_sandbox(backend, Setup(jobs)))
        if not sandbox.protections["private_files"]:
            raise ToolError("this machine has neither namespaces nor Landlock: a model's script could read any file")
        make = partial(
            make_llm_task,
            seed=seed,
            data=data,
            ask=Asker(models, journal, seed),
            run_script=ScriptBox(sandbox, limits),
        )
        yield LlmMaker(seeds, make, examine)
