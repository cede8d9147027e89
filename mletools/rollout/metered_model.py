"""A model as an episode asks it: sampling parameters, cost, the reply as a tape keeps it, batches; all models of a run.

An engine in this process samples several requests in one call (hf). The jobs of a batch run side by side, and their requests
go to the engine together: the company of a request does not depend on what else runs, so a run repeats. Jobs without a
batch (agents in turns) do not wait for one another: those that wait for the engine are sampled together.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ..base.errors import OptionError, RecordError, ToolError
from ..base.options import option
from ..models import ContextExceeded, CountsTokens, HasSlots, Model, OfferedTool, Reply, Request
from ..models.following import FollowingModel
from ..models.options import JudgeOptions, KeyOptions, ModelOptions, RoleOptions
from ..models.prices import Price, read_price
from ..prompts import answers
from ..records.rollout import Message, Policy, Rollout
from ..records.task import Task
from ..scaffolds import interface
from ..scaffolds.ideas import FIXED
from ..scaffolds.interface import Refusal, ReplyCall, Settings

if TYPE_CHECKING:
    from ..models.embedding import HttpEmbeddings


@dataclass
class MeteredModel:
    """A model, its sampling parameters, and its price (None: not known); the others are those of a Request.

    A cost that the server states counts, unless the user has set the price (`own_price`). `max_tokens` of an answer
    take precedence over those that are asked for.
    """

    model: Model
    temperature: float | None = None
    top_p: float | None = None
    price: Price | None = None
    own_price: bool = False
    training: bool = False
    send_seed: bool = False
    own_temperature: float = 1.0
    model_sampling: bool = False
    max_tokens: int | None = None
    _batch: "_Batch | None" = None

    def __post_init__(self) -> None:
        self._queue = _Queue(self.model)

    def ask(
        self,
        role: str,
        messages: list[Message],
        seed: int,
        tools: list[OfferedTool] | None,
        most: int,
        task: Task | None = None,
    ) -> interface.Reply | Refusal:
        """The reply to `messages` in `role`, of at most `most` tokens; see Environment.ask."""
        request = Request(
            cast(Any, messages),
            seed,
            self.temperature,
            self.top_p,
            self.max_tokens or most,
            cast(Any, task),
            tools=tools,
            role=role,
            training=self.training,
            send_seed=self.send_seed,
            own_temperature=self.own_temperature,
            model_sampling=self.model_sampling,
            schema=answers.schema(role),
        )
        version = self._followed_version
        try:
            reply, seconds = self._sample(request)
        except ContextExceeded as error:
            return {"refused": str(error)}
        answer = as_answer(reply, seconds, self.price, self.own_price)
        if version is not None:
            answer["policy_version"] = version
        return answer

    def count_tokens(self, messages: list[Message]) -> int | None:
        """See Environment.count_tokens."""
        return self.model.count_tokens(cast(Any, messages)) if isinstance(self.model, CountsTokens) else None

    @property
    def _followed_version(self) -> int | None:
        """The newest version of a policy that is followed; None: the model stays as it is."""
        return self.model.version if isinstance(self.model, FollowingModel) else None

    def stamped(self, policy: Policy) -> Policy:
        """What records say of the policy, with the version that is the newest now where one is followed."""
        version = self._followed_version
        return policy if version is None else {**policy, "version": version}

    @contextmanager
    def batch(self, jobs: int) -> Iterator["_Batch"]:
        """For `jobs` jobs, each in a thread: their requests are sampled together. Each job calls `leave` at its end."""
        self._batch = _Batch(self.model, jobs)
        try:
            yield self._batch
        finally:
            self._batch = None

    def _sample(self, request: Request) -> tuple[Reply, float]:
        """The reply, and the seconds that it took."""
        if self._batch is not None:
            return self._batch.sample(request)
        if self.model.batch is not None:
            return self._queue.sample(request, self.model.batch)
        with self.model.slot if isinstance(self.model, HasSlots) else nullcontext():
            started = time.perf_counter()
            reply = self.model.sample([request])[0]
            return reply, time.perf_counter() - started


def judging(engine: Model, options: ModelOptions, answers: JudgeOptions, seeded: bool) -> MeteredModel:
    """A model that works on records and is not trained. seeded: the user has set the seed."""
    price, own_price = answers.price_of(options), answers.price is not None
    sampling = (answers.temperature, answers.top_p)
    return MeteredModel(engine, *sampling, price, own_price, send_seed=seeded, own_temperature=0.0)


def as_answer(reply: Reply, seconds: float, price: Price | None = None, own_price: bool = False) -> interface.Reply:
    """A reply as Environment.ask gives it. own_price: the price takes precedence over the server's own cost."""
    usd = None if own_price else reply.usd
    if usd is None and price is not None and reply.prompt_tokens is not None and reply.completion_tokens is not None:
        usd = price.usd(reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens)
    calls: list[ReplyCall] = []
    for call in reply.tool_calls:
        calls.append({"id": call.id, "name": call.name, "arguments": call.arguments})
        if call.extra_content is not None:
            calls[-1]["extra_content"] = call.extra_content
    answer: interface.Reply = {
        "text": reply.text,
        "finish_reason": reply.finish_reason,
        "reasoning": reply.reasoning,
        "tool_calls": calls,
        "prompt_token_ids": reply.prompt_token_ids,
        "token_ids": reply.token_ids,
        "logprobs": reply.logprobs,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "seconds": round(seconds, 4),
        "usd": usd,
    }
    if reply.sampling is not None:
        answer["sampling"] = reply.sampling
    return answer


_GATHER_S = 0.01  # little beside an answer


@dataclass(eq=False)
class _Waiting:
    """A request, and what came of it: a reply or an error."""

    request: Request
    reply: Reply | None = None
    error: BaseException | None = None
    seconds: float = 0.0

    @property
    def answered(self) -> bool:
        return self.reply is not None or self.error is not None

    def result(self) -> tuple[Reply, float]:
        """The reply, and its share of the seconds of its call."""
        if self.error is not None:
            raise self.error
        assert self.reply is not None
        return self.reply, self.seconds


def _answer(model: Model, batch: list[_Waiting]) -> None:
    """Sample a batch; requests that are at fault get their error, and the others are sampled without them."""
    started, left, replies = time.perf_counter(), list(batch), list[Reply]()
    while left and not replies:
        try:
            replies = model.sample([waiting.request for waiting in left])
        except ContextExceeded as error:
            left.pop(error.index).error = error
        except RecordError as error:
            if len(left) > 1:  # one of them is at fault, and the engine does not say which
                for waiting in left:
                    _answer(model, [waiting])
                return
            left.pop().error = error
        except BaseException as error:
            for waiting in left:
                waiting.error = error
            return
    seconds = (time.perf_counter() - started) / len(batch)
    for waiting, reply in zip(left, replies, strict=True):
        waiting.reply, waiting.seconds = reply, seconds


class _Queue:
    """The requests of jobs that know nothing of one another: whoever finds the engine free takes along those that wait."""

    def __init__(self, model: Model):
        self._model = model
        self._waiting: deque[_Waiting] = deque()
        self._busy = False
        self._changed = threading.Condition()

    def sample(self, request: Request, most: int) -> tuple[Reply, float]:
        """The reply, and its share of the seconds of its call, which has at most `most` requests."""
        own = _Waiting(request)
        with self._changed:
            self._waiting.append(own)
            self._changed.notify_all()
            self._changed.wait_for(lambda: own.answered or not self._busy)
            if own.answered:
                return own.result()
            self._busy = True
        try:
            while not own.answered:
                _answer(self._model, self._gather(most))
                with self._changed:
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
        return own.result()

    def _gather(self, most: int) -> list[_Waiting]:
        """Those that wait, and who comes in the meantime: those that were answered together ask again together."""
        with self._changed:
            came = 0
            while came < len(self._waiting) < most:
                came = len(self._waiting)
                self._changed.wait_for(lambda: len(self._waiting) > came, _GATHER_S)  # noqa: B023
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), most))]


class _Batch:
    """The requests of jobs that run side by side: sampled in one call when every job has asked or left."""

    def __init__(self, model: Model, jobs: int):
        self._model, self._jobs = model, jobs
        self._waiting: list[_Waiting] = []
        self._changed = threading.Condition()

    def sample(self, request: Request) -> tuple[Reply, float]:
        """The reply to a request of one job, and its share of the seconds of the call."""
        waiting = _Waiting(request)
        with self._changed:
            self._waiting.append(waiting)
            self._sample_if_complete()
            self._changed.wait_for(lambda: waiting.answered)
        return waiting.result()

    def leave(self) -> None:
        """A job has ended."""
        with self._changed:
            self._jobs -= 1
            self._sample_if_complete()

    def _sample_if_complete(self) -> None:
        if not self._waiting or len(self._waiting) < self._jobs:
            return
        batch = sorted(self._waiting, key=lambda waiting: waiting.request.seed)  # not in the order of arrival
        self._waiting = []
        _answer(self._model, batch)
        self._changed.notify_all()


# --- the models of a run ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sampling:
    """How the policy is sampled, and what is recorded of it."""

    temperature: float | None = option(
        "Sampling temperature; 0 is greedy (default: 1 for training, the server's default for evaluation).", at_least=0
    )
    top_p: float | None = option("Nucleus sampling (default: like --temperature).", above=0, at_most=1)
    sampling: str | None = option(
        "model: take what is not given here from the model's generation_config.json, for evaluation.",
        choices=("model",),
    )
    policy_version: str | None = option(
        "Policy version to stamp on the records, where the engine does not report one.", metavar="V"
    )
    price: tuple[float, float] | None = option(
        "USD per million tokens of the policy (default: the server's usage.cost, or the list price).",
        read=read_price,
        metavar="PROMPT,COMPLETION",
    )


@dataclass(frozen=True)
class RunModels:
    """The models of a run of a scaffold: the policy, and those that the scaffold's settings name, by role."""

    options: ModelOptions
    sampling: Sampling
    settings: Settings
    roles: Mapping[str, KeyOptions]  # the options of the other models' servers
    training: bool  # the policy's answers may be trained on
    seeded: bool  # the user has set the seed

    @property
    def fields(self) -> list[dict[str, object]]:
        """{role: what the user set of its requests} of each role with such fields, on which ids depend."""
        return [{role: fields} for role in self.roles if (fields := self._role(role).sampling)]

    def policy(self, engine: Model, earlier: Rollout | None) -> Policy:
        """`policy` of a record. ToolError: the run that is resumed, with the record `earlier`, had another.

        What engines in this process take is 1 where it is not set, and null before an answer of --sampling model. See Reply.sampling for what a server was really sent.
        """
        sampling, fields = self.sampling, self.options.fields
        version = sampling.policy_version if engine.version is None else engine.version
        if earlier is not None and earlier["policy"]["version"] != version:
            raise ToolError(
                f"cannot resume with another policy: {self.options.model} was at version "
                f"{earlier['policy']['version']}, now at {version}; choose another -o"
            )
        values = {"temperature": sampling.temperature, "top_p": sampling.top_p}
        unset = None if sampling.sampling else 1.0
        sampled: dict[str, object] = {name: unset if value is None else value for name, value in values.items()}
        sampled |= {"max_tokens": self.settings.max_answer_tokens, **({"options": fields} if fields else {})}
        return {"model": self.options.model or "", "version": version, "sampling": sampled}

    def check(self, policy: bool) -> None:
        """Check models and prices without opening them. ToolError or OptionError for what is wrong.

        policy: check that of -m, too.
        """
        if policy:
            self.options.check()
        for role, (name, url) in self._others().items():
            self.options.check_role(name, url, self._role(role))
        self.prices()

    def open(self, stack: ExitStack, open_policy: Callable[[], Model]) -> dict[str, MeteredModel]:
        """The models by their roles; closed with `stack`."""
        sampling, others, models = self.sampling, self._others(), dict[str, MeteredModel]()
        for role, price in self.prices().items():
            own = self._role(role)
            engine = open_policy() if role == "policy" else self.options.open_role(*others[role], own)
            models[role] = MeteredModel(
                stack.enter_context(closing(engine)),
                sampling.temperature if own.temperature is None else own.temperature,
                own.top_p or sampling.top_p,
                price,
                own.price is not None,
                training=self.training and role == "policy" and not sampling.sampling,
                model_sampling=bool(sampling.sampling),
                send_seed=self.seeded,
                max_tokens=own.max_tokens,
            )
        return models

    def embeddings(self, stack: ExitStack) -> "HttpEmbeddings | None":
        """The embedding model that the settings name; closed with `stack`."""
        name, url = self.settings.embedding()
        if name is None:
            return None
        role = self.roles.get("embedding", KeyOptions())
        return stack.enter_context(closing(self.options.open_embeddings(name, url, role)))

    def _role(self, role: str) -> RoleOptions:
        options = RoleOptions(price=self.sampling.price) if role == "policy" else self.roles.get(role)
        return options if isinstance(options, RoleOptions) else RoleOptions()

    def _others(self) -> dict[str, tuple[str, str | None]]:
        """(name, address) of each model beside the policy, by role."""
        models = self.settings.models().items()
        return {role: (name, url) for role, (name, url) in models if name is not None and name not in FIXED}

    def prices(self) -> dict[str, Price | None]:
        """The price of each model, by role. OptionError: --max-usd with one whose price is not known."""
        options, prices = self.options, dict[str, Price | None]()
        others = {role: (name, url or options.model_url) for role, (name, url) in self._others().items()}
        for role, (name, url) in {"policy": (options.model or "", options.model_url or ""), **others}.items():
            prices[role] = self._role(role).price_of(name, url)
            if prices[role] is None and self.settings.max_usd is not None:
                prefix = "" if role == "policy" else self.settings.prefixes()[role] + "-"
                which = f", the {role}" if prefix else ""
                raise OptionError(
                    f"--max-usd: no price is known for {name}{which}: give --{prefix}price PROMPT,COMPLETION"
                )
        return prices
