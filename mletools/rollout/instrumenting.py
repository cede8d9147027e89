"""`instrument` of a rollout: reports put in by syntax tree, or where a model says that they belong."""

from dataclasses import dataclass
from typing import Literal

from .. import prompts
from ..base.ids import derive_seed
from ..base.options import option
from ..instrument import Instrumented, instrument, instrument_as, make_nonce
from ..models.options import JudgeOptions
from ..records.rollout import Instrumentation, Message, Rollout, Usage
from ..sandbox.programs import ran_before
from ..scaffolds.interface import Refusal, Reply, usage_of
from ..scaffolds.messages import fenced
from ..scaffolds.reading import split_answer
from .metered_model import MeteredModel

NOT_ASKED: Usage = {"prompt_tokens": None, "completion_tokens": None, "seconds": 0.0, "usd": None}


@dataclass(frozen=True)
class AnswerOptions(JudgeOptions):
    """How the model answers."""

    max_tokens: int = option("Maximum tokens per answer.", default=8192, at_least=1)


def add_reports(rollout: Rollout, seed: int, plain: bool = False) -> Rollout:
    """The rollout with `instrument` added by syntax tree; without code nothing reports, and what has run passes.

    plain: without a nonce, as plain markers are.
    """
    if ran_before(rollout):
        return rollout
    if rollout["code"] is None:
        return {**rollout, "instrument": _entry(Instrumented(None, [], "no code"), None, None)}
    nonce = _nonce(rollout, seed, plain)
    return {**rollout, "instrument": _entry(instrument(rollout["code"]), nonce, "ast")}


@dataclass(frozen=True)
class ModelInstrumenter:
    """Adds `instrument` where a model says that reports belong, or by syntax tree where its answer is refused."""

    model: MeteredModel
    seed: int
    plain: bool
    max_tokens: int

    def __call__(self, rollout: Rollout) -> Rollout:
        by_tree = add_reports(rollout, self.seed, self.plain)
        entry, code = by_tree.get("instrument"), rollout["code"]
        if not entry or not entry["code"] or code is None or ran_before(rollout):
            return by_tree  # has run, has no code, or none that reports can be put into: the model is not asked
        reply = self._reply(rollout, code)
        result = self._instrumented(code, reply)
        if result.code is not None:
            entry = _entry(result, _nonce(rollout, self.seed, self.plain), "lm")
        entry["model"], entry["refusal"] = self.model.model.name, result.problem
        entry["usage"] = NOT_ASKED if "refused" in reply else usage_of(reply)
        return {**rollout, "instrument": entry}

    def _reply(self, rollout: Rollout, code: str) -> Reply | Refusal:
        """The model's reply to the program without any nonce; see MeteredModel.ask."""
        content = prompts.render("instrument", code=fenced(code, "python"))
        seed = derive_seed(self.seed, rollout["id"], "instrument")
        messages: list[Message] = [{"role": "user", "content": content}]
        return self.model.ask("instrument", messages, seed, None, self.max_tokens, rollout["task"])

    def _instrumented(self, code: str, reply: Reply | Refusal) -> Instrumented:
        """The program with the reports of a reply, or why the reply is refused."""
        if "refused" in reply:
            return Instrumented(None, [], "the program is too long for the model")
        if reply["finish_reason"] == "length":
            return Instrumented(None, [], f"cut off after {self.max_tokens} tokens")
        _, answer = split_answer(reply["text"])
        if answer is None:
            return Instrumented(None, [], "has no single block of Python")
        return instrument_as(code, answer)


def _nonce(rollout: Rollout, seed: int, plain: bool) -> str:
    return "" if plain else make_nonce(derive_seed(seed, rollout["id"], "nonce"))


def _entry(result: Instrumented, nonce: str | None, mode: Literal["ast", "lm"] | None) -> Instrumentation:
    """`instrument` of a rollout; without code nobody inserted anything."""
    coded = result.code is not None
    return {
        "code": result.code,
        "nonce": nonce,
        "markers": result.markers,
        "problem": result.problem,
        "mode": mode if coded else None,
        "sites": result.sites if coded else None,
    }
