"""`idea_types` of a rollout: of which type its ideas are, by a table of words or by a model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import prompts
from ..models import Model, Request
from ..prompts import answers
from ..records.ids import derive_seed
from ..records.options import option
from ..scaffolds import idea_types, ideas

Judge = Callable[[dict[str, Any], idea_types.Posed], tuple[str | None, str]]  # an idea's type, and the reasons


@dataclass(frozen=True)
class AnswerOptions:
    """How the model answers."""

    temperature: float | None = option(
        "Sampling temperature; 0 is greedy (default: the server's own; 0 for hf: and vllm:).", at_least=0
    )
    max_tokens: int = option("Of one answer.", default=4096, at_least=1)
    trajectory_tokens: int = option(
        "Tokens that it is shown of the work before an idea, about.", default=32000, at_least=1, metavar="N"
    )


@dataclass(frozen=True)
class ModelJudge:
    """Asks a model for the type of an idea, and its reasons."""

    model: Model
    seed: int
    options: AnswerOptions
    send_seed: bool = False

    def __call__(self, rollout: dict[str, Any], posed: idea_types.Posed) -> tuple[str | None, str]:
        content = prompts.render(
            "idea-type",
            trajectory=ideas.trajectory(posed.messages, self.options.trajectory_tokens),
            idea=ideas.as_text(posed.idea),
        )
        request = Request(
            [{"role": "user", "content": content}],
            derive_seed(self.seed, "idea-type", rollout["id"], posed.turn),
            self.options.temperature,
            max_tokens=self.options.max_tokens,
            task=rollout["task"],
            role="idea-type",
            send_seed=self.send_seed,
            own_temperature=0.0,
            schema=answers.schema("idea-type"),
        )
        (reply,) = self.model.sample([request])
        if reply.finish_reason == "length":
            return None, f"cut off after {self.options.max_tokens} tokens"
        return idea_types.read_answer(reply.text)


def by_words(rollout: dict[str, Any], posed: idea_types.Posed) -> tuple[str | None, str]:
    """The judge that reads a table of words."""
    return idea_types.by_words(posed.idea)


@dataclass(frozen=True)
class Classifier:
    """Adds `idea_types` to a rollout; `by` names who judges."""

    judge: Judge
    by: str

    def __call__(self, rollout: dict[str, Any]) -> dict[str, Any]:
        entries = []
        for posed in idea_types.posed(rollout):
            kind, rationale = self.judge(rollout, posed)
            entry = {"turn": posed.turn, "type": kind, "rationale": rationale, "by": self.by}
            entries.append({**entry, "effective": posed.effective})
        return {**rollout, "idea_types": entries}
