"""The context of one node: asks models and runs programs, counts usage by phase, and keeps the conversations."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ...base.ids import derive_seed
from ...records.rollout import AnswerNote, Message, Phase, SubmissionFile, Usage
from ..interface import Ensemble, Reply, RunResult, SearchEnvironment, usage_of
from ..messages import task_prompt
from ..reading import Answer, read_answer
from .authenticity import inauthentic
from .clock import WallClock
from .data import Idea, Start, Unanswered
from .edits import read_edits
from .graph import Exchange, Graph, Notes, added
from .replies import Reader, Reading
from .settings import PHASES, SearchJob

T = TypeVar("T")
Item = TypeVar("Item")
NO_USAGE: Usage = {"prompt_tokens": 0, "completion_tokens": 0, "seconds": 0.0, "usd": 0.0}
CONSEQUENCES = {  # of a question without an answer that can be read
    "search-analysis": "no expert role in the prompts",
    "search-idea": "no hypothesis",
    "search-diagnosis": "one question for an idea without a diagnosis",
    "search-challenges": "one question for an idea in place of challenges and hypotheses",
    "search-hypotheses": "one question for an idea in place of challenges and hypotheses",
    "search-select": "the candidate with the best scores in place of the model's choice",
    "search-check": "no review of the program",
    "search-lesson": "a lesson from the scores alone",
    "search-choose": "the best score in place of the model's choice",
}
NO_PROGRAM = "the answer holds no program"
AGAIN = "{problem}. Answer again in the requested form."


class GivenUp(Exception):
    """The search has ended without this node."""


class NodeContext:
    """See the module. `name` is unique in the search; seeds and the tape depend on it.

    system: the system message of every prompt, "" for none. began: seconds on the search's clock, which is `wall`, or
    else counts the seconds of models and runs. deadline: on that clock; None: no limit. Times that are read on the wall
    clock are kept on the tape, since decisions and prompts depend on them.
    """

    def __init__(
        self,
        job: SearchJob,
        environment: SearchEnvironment,
        name: str,
        system: str = "",
        began: float = 0.0,
        deadline: float | None = None,
        wall: WallClock | None = None,
    ):
        self.job, self.task, self._environment, self._name = job, job.task, environment, name
        self.system, self._deadline, self._wall = system, deadline, wall
        self.clock = began  # seconds on the search's clock, after the last answer or run
        self.given_up = False  # nothing more is to be asked or run
        self.latest: float | None = None  # an earlier deadline, once the answers of a killed run have been replayed
        self._readings = 0
        self._parts = list[NodeContext]()
        self._seed = derive_seed(job.seed, "search", name)
        self.rng = random.Random(derive_seed(self._seed, "dice"))
        self.asked: list[Exchange] = []
        self.usage: dict[Phase, Usage] = {phase: NO_USAGE.copy() for phase in PHASES}
        self.lenient: list[AnswerNote] = []  # {question, what} of answers that were read leniently
        self.fallbacks: list[AnswerNote] = []  # {question, what} of what a default replaced
        self._runs = 0

    @property
    def seconds(self) -> float:
        """Time of models and runs so far, added up."""
        return float(sum(used["seconds"] for used in self.usage.values()))

    @property
    def seconds_left(self) -> float:
        """Time left on the clock, at least a second."""
        bounds = [self._deadline, None if self._environment.replays else self.latest]
        return max(1.0, min((bound for bound in bounds if bound is not None), default=float("inf")) - self.clock)

    def wait_until(self, clock: float) -> None:
        """Other work of the search has come between, until `clock`."""
        self.clock = max(self.clock, clock)

    def _passed(self, seconds: float) -> None:
        """Set the clock after `seconds` of asking or running."""
        if self._wall is None:
            self.clock = round(self.clock + seconds, 9)
            return
        wall, self._readings = self._wall, self._readings + 1
        reading = self._environment.remember("clock", [self._name, self._readings], lambda: {"seconds": wall.now()})
        wall.reach(reading["seconds"])
        self.clock = max(self.clock, reading["seconds"])

    def ask(self, phase: Phase, role: str, prompt: str) -> str:
        """The answer to a single prompt, of the prompt file `role`. Unanswered: the model's server refuses it."""
        return str(self._ask(phase, role, [{"role": "user", "content": prompt}])["text"])

    def answer(self, phase: Phase, role: str, prompt: str, edited: str | None = None) -> Answer:
        """The plan and the program in the answer to a single prompt. Unanswered: as `ask`.

        edited: the program that the answer may give edits of. ValueError: they do not apply.
        """
        reply = self._ask(phase, role, [{"role": "user", "content": prompt}])
        how = reply["finish_reason"], reply.get("reasoning")
        try:
            text = reply["text"]
            answer = read_answer(text, *how) if edited is None else read_edits(text, edited, *how)
        except ValueError as error:
            self.asked[-1]["problem"] = str(error)
            raise
        if answer.code is None:
            self.asked[-1]["problem"] = NO_PROGRAM
        return answer

    def read(self, phase: Phase, role: str, prompt: str, reader: Reader[T]) -> T:
        """The result of `reader` on the answer. After a ValueError the model gets its text, and one more attempt.

        Unanswered: the second answer could not be read either, or a prompt is refused. Lenient readings and
        fallbacks are noted, an Unanswered too.
        """
        try:
            return self._read(phase, role, prompt, reader)
        except Unanswered as error:
            consequence = CONSEQUENCES.get(role, "no answer")
            self.fallbacks.append({"question": role, "what": f"{consequence}: {error}"})
            raise

    def _read(self, phase: Phase, role: str, prompt: str, reader: Reader[T]) -> T:
        messages: list[Message] = [{"role": "user", "content": prompt}]
        for last in (False, True):
            reply = self._ask(phase, role, messages)
            try:
                if reply["finish_reason"] == "length":
                    raise ValueError("your answer was cut off at the limit of its length: say it in fewer words")
                notes = Reading(last)
                result = reader(reply["text"], notes=notes)
                if notes.lenient:
                    self.lenient.append({"question": role, "what": ", ".join(notes.lenient)})
                self.fallbacks += [{"question": role, "what": what} for what in notes.fallbacks]
                return result
            except ValueError as error:
                self.asked[-1]["problem"] = str(error)
                if last:
                    raise Unanswered(str(error)) from None
                messages += [
                    {"role": "assistant", "content": reply["text"]},
                    {"role": "user", "content": AGAIN.format(problem=str(error).rstrip("."))},
                ]
        raise AssertionError("the second answer returns or raises")

    @property
    def notes(self) -> Notes:
        """The lenient readings and the fallbacks, each only if there are any."""
        notes: Notes = {}
        if self.lenient:
            notes["lenient"] = list(self.lenient)
        if self.fallbacks:
            notes["fallbacks"] = list(self.fallbacks)
        return notes

    def _ask(self, phase: Phase, role: str, messages: Sequence[Message]) -> Reply:
        settings = self.job.settings
        model = settings.research_model if phase == "research" else settings.develop_model
        who = "policy" if model is None else PHASES[phase]
        sent: list[Message] = [message.copy() for message in messages]
        if self.system:
            sent.insert(0, {"role": "system", "content": self.system})
        self._check_wanted()
        seed, most = derive_seed(self._seed, "ask", len(self.asked)), settings.max_answer_tokens
        reply = self._environment.ask(who, role, sent, seed, None, most, refusable=True)
        if "refused" in reply:
            raise Unanswered(reply["refused"])
        used = usage_of(reply)
        self.usage[phase] = added(self.usage[phase], used)
        answer: Message = {"role": "assistant", "content": reply["text"], "loss": who == "policy"}
        if reasoning := reply.get("reasoning"):
            answer["reasoning"] = reasoning
        prompt_ids, ids, logprobs = reply.get("prompt_token_ids"), reply.get("token_ids"), reply.get("logprobs")
        if ids is not None and prompt_ids is not None:
            sent[-1]["token_ids"] = prompt_ids  # of the whole prompt
            answer["token_ids"] = ids
            if logprobs is not None:
                answer["logprobs"] = logprobs
        self.asked.append({"phase": phase, "role": role, "who": who, "messages": [*sent, answer], "usage": used})
        self._passed(used["seconds"])
        return reply

    def run(self, code: str, wall_s: float, *, debug: bool = False, rows: str = "validation") -> RunResult:
        """The result of Environment.run, for at most wall_s seconds and the time left.

        debug: with the argument --debug. rows: the training rows that are held out and scored as `validation`: those of
        the search, or `selection`, drawn separately.
        """
        seed, arguments = derive_seed(self._seed, "run", self._runs), ("--debug",) if debug else ()
        self._check_wanted()
        self._runs += 1
        self._passed(0.0)  # this work may have waited for its turn
        result = self._environment.run(code, min(wall_s, self.seconds_left), seed, arguments=arguments, rows=rows)
        seconds = self.usage["develop"]["seconds"] + result["execution"]["duration_s"]
        self.usage["develop"] = {**self.usage["develop"], "seconds": round(seconds, 4)}
        self._passed(result["execution"]["duration_s"])
        return result

    def _check_wanted(self) -> None:
        if self.given_up:
            raise GivenUp

    def each(self, items: Sequence[Item], work: Callable[["NodeContext", Item], T]) -> list[T]:
        """The results of `work` on each item, in order, from concurrent contexts whose usage counts here."""
        first, clock = len(self._parts), (self.clock, self._deadline, self._wall)
        contexts = [
            NodeContext(self.job, self._environment.part(f"{at}"), f"{self._name}/{at}", self.system, *clock)
            for at in range(first, first + len(items))
        ]
        results = self._environment.at_once(lambda pair: work(*pair), list(zip(contexts, items, strict=True)))
        for context in contexts:
            self.asked += context.asked
            self.lenient += context.lenient
            self.fallbacks += context.fallbacks
            self.usage = {phase: added(used, context.usage[phase]) for phase, used in self.usage.items()}
        self.clock = max((context.clock for context in contexts), default=self.clock)
        self._parts += contexts
        return results

    def done(self) -> None:
        """Drop the tapes: the results are stored."""
        for context in self._parts:
            context.done()
        self._environment.done()

    def inauthentic(self, code: str, result: RunResult) -> str | None:
        """Why a program's submission is no model's prediction, in words; None where nothing speaks against it."""
        columns, (submission, sample) = self.task["submission"], self._environment.submission(result["execution"])
        return inauthentic(code, submission, sample, columns["id"], columns["target"])

    def ensemble(self, members: Sequence[tuple[SubmissionFile, SubmissionFile]]) -> Ensemble | None:
        """See SearchEnvironment.ensemble."""
        return self._environment.ensemble(members)

    @property
    def task_text(self) -> str:
        """The task and where its programs run, as agents in turns are shown it."""
        return task_prompt("task", self.job, self)

    def fact(self, name: str) -> str:
        """See Environment.fact. The time of a run depends on the round, so prompts about programs tell it."""
        return self._environment.fact("sizes" if name == "limits" else name)

    def similar(self, text: str, others: Sequence[str]) -> list[float]:
        """The cosines of a text's embedding with those of others, in [-1, 1]."""
        return self._environment.similar([text, *others]) if others else []


@dataclass(frozen=True)
class Researched:
    """A node after its research phase. graph: as far as it knows it. why: there is no idea."""

    start: Start
    graph: Graph
    context: NodeContext
    idea: Idea | None
    why: str
    lessons: tuple[str, ...]
