"""mle-instrument: make each solution report its progress."""

import functools
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import click

from .. import cli
from ..cli_options import options
from ..instrument import Instrumented, instrument, instrument_as, make_nonce
from ..models.options import ModelOptions
from ..models.prices import Price, price_of, read_price
from ..records.ids import derive_seed
from ..records.options import option
from ..rollout.execution import ran_before
from ..rollout.metered_model import MeteredModel

PLAIN = "with --plain-markers a solution can print the reports itself, and earn their credit for nothing"


def nonce_of(rollout: dict[str, Any], seed: int, plain: bool) -> str:
    """The record's nonce; empty with plain markers."""
    return "" if plain else make_nonce(derive_seed(seed, rollout["id"], "nonce"))


def entry(result: Instrumented, nonce: str, mode: str) -> dict[str, Any]:
    """`instrument` of a rollout; without code nobody inserted anything."""
    who = None if result.code is None else mode
    told = {"code": result.code, "nonce": nonce, "markers": result.markers, "problem": result.problem, "mode": who}
    return {**told, "sites": None if result.code is None else result.sites}


def _passes(rollout: dict[str, Any]) -> dict[str, Any] | None:
    """The rollout where there is nothing to insert into: it has run, or has no code."""
    if ran_before(rollout):
        return rollout
    if rollout["code"] is None:
        return {
            **rollout,
            "instrument": {
                "code": None,
                "nonce": None,
                "markers": [],
                "problem": "no code",
                "mode": None,
                "sites": None,
            },
        }
    return None


def add_reports(rollout: dict[str, Any], seed: int, plain: bool = False) -> dict[str, Any]:
    """The rollout with `instrument` added by syntax tree; without code nothing reports, and what has run passes."""
    passed = _passes(rollout)
    if passed is not None:
        return passed
    nonce = nonce_of(rollout, seed, plain)
    return {**rollout, "instrument": entry(instrument(rollout["code"]), nonce, "ast")}


@dataclass(frozen=True)
class Asker:
    """Adds `instrument` where a model says that reports belong, or by syntax tree where its answer is refused."""

    model: MeteredModel
    seed: int
    plain: bool
    max_tokens: int

    def __call__(self, rollout: dict[str, Any]) -> dict[str, Any]:
        by_tree = add_reports(rollout, self.seed, self.plain)
        if not (by_tree.get("instrument") or {}).get("code") or ran_before(rollout):
            return by_tree  # has run, has no code, or none that reports can be put into: nobody is asked
        said = self._ask(rollout)
        nonce = nonce_of(rollout, self.seed, self.plain)
        result = self._taken(rollout["code"], said)
        added = by_tree["instrument"] if result.code is None else entry(result, nonce, "lm")
        usage = {name: said.get(name) for name in ("prompt_tokens", "completion_tokens", "seconds", "usd")}
        usage = {**usage, "seconds": usage["seconds"] or 0.0}
        told = {"model": self.model.model.name, "refusal": result.problem, "usage": usage}
        return {**rollout, "instrument": {**added, **told}}

    def _ask(self, rollout: dict[str, Any]) -> dict[str, Any]:
        """What the model says; see MeteredModel.ask. It is shown the program without any nonce."""
        from .. import prompts
        from ..scaffolds.quoting import fenced

        asked = [{"role": "user", "content": prompts.render("instrument", code=fenced(rollout["code"], "python"))}]
        seed = derive_seed(self.seed, rollout["id"], "instrument")
        return self.model.ask("instrument", asked, seed, None, self.max_tokens, rollout["task"])

    def _taken(self, code: str, said: dict[str, Any]) -> Instrumented:
        """The program with the reports of an answer, or why the answer is refused."""
        from ..scaffolds.answers import split_answer

        if "refused" in said:
            return Instrumented(None, [], "the program is too long for the model")
        if said["finish_reason"] == "length":
            return Instrumented(None, [], f"cut off after {self.max_tokens} tokens")
        _, answer = split_answer(said["text"])
        if answer is None:
            return Instrumented(None, [], "has no single block of Python")
        return instrument_as(code, answer)


LM = "Model (--mode lm)"
MODEL = "scripted, hf:PATH, or the name of a model at --model-url; not the one in training."


@dataclass(frozen=True)
class Answering:
    """How the model is asked."""

    temperature: float = option("0 takes the likeliest token.", default=0.0, at_least=0)
    max_tokens: int = option("Of one answer.", default=8192, at_least=1)
    price: tuple[float, float] | None = option(
        "USD per million tokens (default: list price, where known).", read=read_price, metavar="PROMPT,COMPLETION"
    )


@cli.command("mle-instrument", jobs=True, seed=True)
@click.option(
    "--mode",
    type=click.Choice(("ast", "lm")),
    default="ast",
    show_default=True,
    help="ast: by syntax tree and a table of calls, offline; lm: ask -m, as in the paper.",
)
@click.option(
    "--plain-markers",
    is_flag=True,
    help="The paper's plain texts without a nonce: a solution can print them itself.",
)
@options(ModelOptions, "models", LM, model={"help": MODEL})
@options(Answering, "answering", LM)
def main(
    run: cli.Run,
    mode: str,
    plain_markers: bool,
    models: ModelOptions,
    answering: Answering,
) -> None:
    """Make the solutions in FILES (rollouts) report their progress (RL for MLE agents).

    Seven reports (imported packages, loaded data, defined model, training loss, trained model, testing loss, predicted
    test labels): which calls may earn them is found here; mle-sandbox watches these calls as they run and collects what
    they really did, mle-grade --reward partial-credit pays for it. A program that does not parse passes through, marked.
    Streams.

    \b
    ast  after the calls that a table knows: scikit-learn, xgboost, lightgbm, catboost, torch, keras
    lm   where a frozen model puts them. Only places are taken from its answer, which must be the
         program with reports in between; else ast steps in, and instrument.refusal says why.
         A server's failure stops the run.

    \b
    Examples:
      mle-instrument rollouts.jsonl | mle-sandbox | mle-grade --reward partial-credit
      mle-instrument --mode lm -m Qwen/Qwen2.5-3B-Instruct --model-url $URL -j 16 rollouts.jsonl
      mle-instrument < rollouts.jsonl | jq -r .instrument.code | head -40
    """
    if (mode == "lm") != (models.model is not None):
        raise click.UsageError("--mode lm needs a model: -m MODEL" if mode == "lm" else "-m is about --mode lm")
    if plain_markers:
        run.say(PLAIN)
    if mode == "ast":
        run.each(functools.partial(add_reports, seed=run.seed, plain=plain_markers), "rollout", processes=True)
        return
    with ExitStack() as stack:
        engine = stack.enter_context(closing(models.open()))
        found = Price.of(*answering.price) if answering.price else price_of(models.model or "", models.model_url)
        model = MeteredModel(engine, answering.temperature, price=found)
        run.each(
            Asker(model, run.seed, plain_markers, answering.max_tokens), "rollout", watch=functools.partial(_count, run)
        )


def _count(run: cli.Run, rollout: dict[str, Any]) -> None:
    """Tells the summary whose reports they are."""
    added = rollout.get("instrument") or {}
    if added.get("model") is not None:
        run.counts["by the model" if added["mode"] == "lm" else "refused, by syntax tree"] += 1
