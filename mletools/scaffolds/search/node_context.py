"""Where one node is worked on: asks models and runs programs, counts by phase, keeps what was said.

Covered: who answers in which phase, one correction of an answer that cannot be read, exact tokens of the policy's
answers, seeds, the time that is left. Not covered: what is asked (the components), who stands behind a Environment.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ...records.ids import derive_seed
from ..interface import Environment, Job
from .graph import added
from .interfaces import Unanswered
from .settings import SearchSettings

T = TypeVar("T")
Item = TypeVar("Item")
PHASES = ("research", "develop")
NOTHING = {"prompt_tokens": 0, "completion_tokens": 0, "seconds": 0.0, "usd": 0.0}
AGAIN = "{problem}. Answer again, in the form that was asked for."
USED = ("prompt_tokens", "completion_tokens", "seconds", "usd")


class NodeContext:
    """See the module. `name` tells the node from others of its search: of it depend the seeds and the tape.

    system: what every prompt begins with, "" for nothing. seconds: what the search has left for this node; None: no end.
    """

    def __init__(
        self,
        job: Job[SearchSettings],
        environment: Environment,
        name: str,
        system: str = "",
        seconds: float | None = None,
    ):
        self.job, self.task, self._environment, self._name = job, job.task, environment, name
        self.system, self._seconds = system, seconds
        self._parts = list[NodeContext]()
        self._seed = derive_seed(job.seed, "search", name)
        self.dice = random.Random(derive_seed(self._seed, "dice"))
        self.asked: list[dict[str, Any]] = []
        self.usage: dict[str, dict[str, Any]] = {phase: dict(NOTHING) for phase in PHASES}
        self._runs = 0
        self._beside = 0.0  # seconds of what went on beside something longer

    @property
    def seconds(self) -> float:
        """Used here so far, of asking and running."""
        return float(sum(used["seconds"] for used in self.usage.values()))

    @property
    def clock(self) -> float:
        """Seconds of the clock: what went on at once counts as long as its longest."""
        return self.seconds - self._beside

    @property
    def seconds_left(self) -> float:
        """On the clock. At least a second: what is begun is not cut off at nothing."""
        return float("inf") if self._seconds is None else max(1.0, self._seconds - self.clock)

    def ask(self, phase: str, role: str, prompt: str) -> str:
        """The answer to a prompt that stands alone. `role`, e.g. "search-idea", names the protocol that it is part of.

        Unanswered: the prompt is too long for the model.
        """
        return str(self._say(phase, role, [{"role": "user", "content": prompt}])["text"])

    def read(self, phase: str, role: str, prompt: str, reader: Callable[[str], T]) -> T:
        """What `reader` makes of the answer. Where it raises ValueError, the model is told why and asked once more.

        Unanswered: the second answer could not be read either, or the prompt is too long.
        """
        messages = [{"role": "user", "content": prompt}]
        reply = self._say(phase, role, messages)
        for last in (False, True):
            try:
                if reply["finish_reason"] == "length":
                    raise ValueError("your answer was cut off at the limit of its length: say it in fewer words")
                return reader(reply["text"])
            except ValueError as error:
                self.asked[-1]["problem"] = str(error)
                if last:
                    raise Unanswered(str(error)) from None
                messages += [
                    {"role": "assistant", "content": reply["text"]},
                    {"role": "user", "content": AGAIN.format(problem=str(error).rstrip("."))},
                ]
                reply = self._say(phase, role, messages)
        raise AssertionError("two answers were read")

    def _say(self, phase: str, role: str, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        who = {"research": "researcher", "develop": "developer"}[phase]
        if getattr(self.job.settings, f"{phase}_model") is None:
            who = "policy"
        prompt_messages = [dict(message) for message in messages]
        sent = [{"role": "system", "content": self.system}, *prompt_messages] if self.system else prompt_messages
        seed, most = derive_seed(self._seed, "ask", len(self.asked)), self.job.settings.max_answer_tokens
        reply = self._environment.ask(who, role, sent, seed, None, most)
        if "refused" in reply:
            raise Unanswered(reply["refused"])
        self.usage[phase] = added(self.usage[phase], {name: reply[name] for name in USED})
        answer: dict[str, Any] = {"role": "assistant", "content": reply["text"], "loss": who == "policy"}
        if reply.get("reasoning"):
            answer["reasoning"] = reply["reasoning"]
        if reply.get("token_ids") is not None and reply.get("prompt_token_ids") is not None:
            sent[-1] = {**sent[-1], "token_ids": reply["prompt_token_ids"]}  # of the whole prompt
            answer["token_ids"] = reply["token_ids"]
            if reply.get("logprobs") is not None:
                answer["logprobs"] = reply["logprobs"]
        used = {name: reply[name] for name in USED}
        self.asked.append({"phase": phase, "role": role, "who": who, "messages": [*sent, answer], "usage": used})
        return reply

    def run(self, code: str, wall_s: float, *, debug: bool = False, rows: str = "validation") -> dict[str, Any]:
        """Run a program in a fresh box, for at most wall_s seconds and what is left: what Environment.run tells.

        debug: with the argument --debug. rows: which training rows are held out of what it sees and judged as
        `validation`: those of the search, or `selection`, drawn apart from them.
        """
        seed = derive_seed(self._seed, "run", self._runs)
        self._runs += 1
        arguments = ("--debug",) if debug else ()
        wall_s = min(wall_s, self.seconds_left)
        outcome = self._environment.run(code, wall_s, seed, arguments=arguments, rows=rows)
        self.charge(outcome["execution"]["duration_s"])
        return outcome

    def each(self, items: Sequence[Item], work: Callable[["NodeContext", Item], T]) -> list[T]:
        """What `work` makes of each item at a context of its own, at once, in order; what they use counts here."""
        names = [f"{len(self._parts) + at}" for at in range(len(items))]
        left = None if self._seconds is None else self.seconds_left
        contexts = [
            NodeContext(self.job, self._environment.part(name), f"{self._name}/{name}", self.system, left)
            for name in names
        ]
        results = self._environment.at_once(lambda both: work(*both), list(zip(contexts, items, strict=True)))
        for context in contexts:
            self.asked += context.asked
            self.usage = {phase: added(used, context.usage[phase]) for phase, used in self.usage.items()}
        clocks = [context.clock for context in contexts]
        self._beside += sum(context.seconds for context in contexts) - max(clocks, default=0.0)
        self._parts += contexts
        return results

    def done(self) -> None:
        """What was made here is kept elsewhere: nothing of it need be played again."""
        for context in self._parts:
            context.done()
        self._environment.done()

    def charge(self, seconds: float) -> None:
        """Count seconds of running to the development phase."""
        used = self.usage["develop"]
        self.usage["develop"] = {**used, "seconds": round(used["seconds"] + seconds, 4)}

    def inauthentic(self, code: str, outcome: Mapping[str, Any]) -> str | None:
        """Why the submission of a run is no model's prediction, in words; None where nothing speaks against it."""
        return self._environment.inauthentic(code, outcome["execution"])

    def similar(self, text: str, others: Sequence[str]) -> list[float]:
        """The cosines of a text's embedding with those of others, in [-1, 1]; of no others, no number."""
        if not others:
            return []
        return self._environment.similar([text, *others])
