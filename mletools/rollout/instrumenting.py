"""`instrument` of a rollout: reports put in by syntax tree, or where a model says that they belong."""

from dataclasses import dataclass
from typing import Any, cast

from .. import prompts
from ..instrument import Instrumented, instrument, instrument_as, make_nonce
from ..models.options import JudgeOptions
from ..records.ids import derive_seed
from ..records.options import option
from ..records.rollout import Rollout
from ..sandbox.programs import ran_before
from ..scaffolds.messages import fenced
from ..scaffolds.reading import split_answer
from .metered_model import MeteredModel


@dataclass(frozen=True)
class AnswerOptions(JudgeOptions):
    """How the model answers."""

    max_tokens: int = option("Of one answer.", default=8192, at_least=1)


def add_reports(rollout: dict[str, Any], seed: int, plain: bool = False) -> dict[str, Any]:
    """The rollout with `instrument` added by syntax tree; without code nothing reports, and what has run passes.

    plain: without a nonce, as plain markers are.
    """
    if ran_before(cast(Rollout, rollout)):
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

    def __call__(self, rollout: dict[str, Any]) -> dict[str, Any]:
        by_tree = add_reports(rollout, self.seed, self.plain)
        if not (by_tree.get("instrument") or {}).get("code") or ran_before(cast(Rollout, rollout)):
            return by_tree  # has run, has no code, or none that reports can be put into: the model is not asked
        reply = self._reply(rollout)
        result = self._instrumented(rollout["code"], reply)
        nonce = _nonce(rollout, self.seed, self.plain)
        entry = by_tree["instrument"] if result.code is None else _entry(result, nonce, "lm")
        usage = {name: reply.get(name) for name in ("prompt_tokens", "completion_tokens", "seconds", "usd")}
        usage = {**usage, "seconds": usage["seconds"] or 0.0}
        about = {"model": self.model.model.name, "refusal": result.problem, "usage": usage}
        return {**rollout, "instrument": {**entry, **about}}

    def _reply(self, rollout: dict[str, Any]) -> dict[str, Any]:
        """The model's reply to the program without any nonce; see MeteredModel.ask."""
        content = prompts.render("instrument", code=fenced(rollout["code"], "python"))
        seed = derive_seed(self.seed, rollout["id"], "instrument")
        messages = [{"role": "user", "content": content}]
        return self.model.ask("instrument", messages, seed, None, self.max_tokens, rollout["task"])

    def _instrumented(self, code: str, reply: dict[str, Any]) -> Instrumented:
        """The program with the reports of a reply, or why the reply is refused."""
        if "refused" in reply:
            return Instrumented(None, [], "the program is too long for the model")
        if reply["finish_reason"] == "length":
            return Instrumented(None, [], f"cut off after {self.max_tokens} tokens")
        _, answer = split_answer(reply["text"])
        if answer is None:
            return Instrumented(None, [], "has no single block of Python")
        return instrument_as(code, answer)


def _nonce(rollout: dict[str, Any], seed: int, plain: bool) -> str:
    return "" if plain else make_nonce(derive_seed(seed, rollout["id"], "nonce"))


def _entry(result: Instrumented, nonce: str | None, mode: str | None) -> dict[str, Any]:
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
