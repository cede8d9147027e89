"""mle-instrument: make each solution report its progress."""

import functools
from typing import Any

from .. import cli
from ..instrument import instrument, make_nonce
from ..records.ids import derive_seed
from .execution import ran_before


def add_reports(rollout: dict[str, Any], seed: int) -> dict[str, Any]:
    """The rollout with `instrument` added; without code there is nothing to report, and what has run passes."""
    if ran_before(rollout):
        return rollout
    if rollout["code"] is None:
        return {**rollout, "instrument": {"code": None, "nonce": None, "markers": [], "problem": "no code"}}
    nonce = make_nonce(derive_seed(seed, rollout["id"], "nonce"))
    result = instrument(rollout["code"], nonce)
    added = {"code": result.code, "nonce": nonce, "markers": result.markers, "problem": result.problem}
    return {**rollout, "instrument": added}


@cli.command("mle-instrument", jobs=True, seed=True)
def main(run: cli.Run) -> None:
    """Make the solutions in FILES (rollouts) report their progress.

    Seven reports (imported packages, loaded data, defined model, training loss, trained model, testing loss, predicted
    test labels) are inserted by syntax tree, each marked with a nonce of the record; mle-sandbox collects them,
    mle-grade --reward partial-credit pays for them. A program that does not parse passes through, marked. Streams.

    \b
    Examples:
      mle-instrument rollouts.jsonl | mle-sandbox | mle-grade --reward partial-credit
      mle-instrument < rollouts.jsonl | jq -r .instrument.code | head -40
    """
    run.each(functools.partial(add_reports, seed=run.seed), "rollout", processes=True)
