"""`idea_types` of a rollout: of which type its ideas are, by a table of words or by a model."""

from collections.abc import Callable
from dataclasses import dataclass

from .. import prompts
from ..base.errors import RecordError
from ..base.ids import derive_seed
from ..base.options import option
from ..models.options import JudgeOptions
from ..records.rollout import IdeaCategory, IdeaType, Message, Rollout, Usage
from ..scaffolds import idea_types, ideas
from ..scaffolds.interface import usage_of
from ..scaffolds.messages import shortened
from .metered_model import MeteredModel

# An idea's type, the reasons, and what the question took; None: nobody was asked.
Judge = Callable[[Rollout, idea_types.Posed], tuple[IdeaCategory | None, str, Usage | None]]


@dataclass(frozen=True)
class AnswerOptions(JudgeOptions):
    """How the model answers."""

    max_tokens: int = option("Maximum tokens per answer.", default=4096, at_least=1)
    trajectory_tokens: int = option(
        "Approximate tokens of the work before an idea that the model is shown.", default=32000, at_least=1, metavar="N"
    )


@dataclass(frozen=True)
class ModelJudge:
    """Asks a model for the type of an idea, and its reasons. RecordError: the prompt is too long."""

    model: MeteredModel
    seed: int
    options: AnswerOptions

    def __call__(self, rollout: Rollout, posed: idea_types.Posed) -> tuple[IdeaCategory | None, str, Usage | None]:
        content = prompts.render(
            "idea-type",
            trajectory=ideas.trajectory(posed.messages, self.options.trajectory_tokens, self._shorten),
            idea=ideas.as_text(posed.idea),
        )
        seed = derive_seed(self.seed, "idea-type", rollout["id"], posed.turn)
        messages: list[Message] = [{"role": "user", "content": content}]
        reply = self.model.ask("idea-type", messages, seed, None, self.options.max_tokens, rollout["task"])
        if "refused" in reply:
            raise RecordError(reply["refused"])
        usage = usage_of(reply)
        if reply["finish_reason"] == "length":
            return None, f"cut off after {self.options.max_tokens} tokens", usage
        return *idea_types.read_answer(reply["text"]), usage

    def _shorten(self, text: str, tokens: int) -> str:
        """The text, cut to `tokens` tokens of the model, estimated where its tokenizer is at a server."""

        def count(cut: str) -> int | None:
            return self.model.count_tokens([{"role": "user", "content": cut}])

        return shortened(text, tokens, None if count("?") is None else lambda cut: count(cut) or 0)


def by_words(rollout: Rollout, posed: idea_types.Posed) -> tuple[IdeaCategory | None, str, Usage | None]:
    """The judge that reads a table of words."""
    return *idea_types.by_words(posed.idea), None


@dataclass(frozen=True)
class Classifier:
    """Adds `idea_types` to a rollout; `by` names who judges."""

    judge: Judge
    by: str

    def __call__(self, rollout: Rollout) -> Rollout:
        entries = []
        for posed in idea_types.posed(rollout):
            kind, rationale, usage = self.judge(rollout, posed)
            entry: IdeaType = {
                "turn": posed.turn,
                "type": kind,
                "rationale": rationale,
                "by": self.by,
                "effective": posed.effective,
            }
            if usage is not None:
                entry["usage"] = usage
            entries.append(entry)
        return {**rollout, "idea_types": entries}
