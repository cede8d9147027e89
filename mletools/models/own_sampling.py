"""How a request is to be sampled by an engine in this process: as it says, or as the model's own card has it.

Covered: temperature, top_p, top_k and the repetition penalty of generation_config.json. Not covered: servers, which take
what they are not sent from the same file.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ..base.errors import ToolError
from . import Reply, Request

# Of a generation_config.json, what changes the distribution in a way that is not covered, and the value without effect.
_OTHERS = {
    "min_p": (None, 0.0), "typical_p": (None, 1.0), "epsilon_cutoff": (None, 0.0), "eta_cutoff": (None, 0.0),
    "no_repeat_ngram_size": (None, 0), "encoder_repetition_penalty": (None, 1.0), "num_beams": (None, 1),
}  # fmt: skip


@dataclass(frozen=True)
class Distribution:
    """temperature: 0 is the argmax. top_k: 0 keeps all tokens. repetition_penalty: divides the positive logits of tokens
    that stand in prompt or answer, and multiplies the negative ones (Keskar et al. 2019)."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    repetition_penalty: float = 1.0

    @property
    def sampling(self) -> dict[str, object]:
        """What records say of it."""
        more = {"top_k": self.top_k or None, "repetition_penalty": self.repetition_penalty}
        shown = {name: value for name, value in more.items() if value not in (None, 1.0)}
        return {"temperature": self.temperature, "top_p": self.top_p, **shown}


@lru_cache(maxsize=8)
def own_distribution(model: str) -> Distribution:
    """Of the generation_config.json of a folder or hub name. ToolError: there is none, or it has what is not covered."""
    from transformers import GenerationConfig

    try:
        config: Any = GenerationConfig.from_pretrained(model)
    except (OSError, ValueError) as error:
        why = str(error).splitlines()[0][:200]
        raise ToolError(f"--sampling model: {model} has no generation_config.json that can be read: {why}") from None
    others = [name for name, plain in _OTHERS.items() if getattr(config, name, None) not in plain]
    if others:
        raise ToolError(
            f"--sampling model: {model} asks for {', '.join(others)}, which engines in this process do not have: serve it"
        )
    chosen = {name: getattr(config, name, None) for name in ("temperature", "top_p", "top_k", "repetition_penalty")}
    if not config.do_sample:
        chosen |= {"temperature": 0.0, "top_p": None, "top_k": None}
    return Distribution(**{name: value for name, value in chosen.items() if value is not None})


def distribution_of(request: Request, model: str) -> Distribution:
    """What a request is sampled from: as it says, or where it asks for that as the card of `model` has it."""
    if not request.model_sampling:
        return Distribution(request.local_temperature, request.local_top_p)
    own = own_distribution(model)
    return replace(
        own,
        temperature=own.temperature if request.temperature is None else request.temperature,
        top_p=own.top_p if request.top_p is None else request.top_p,
    )


def stated(request: Request, reply: Reply, asked: Distribution) -> Reply:
    """A reply that tells the model's own sampling, where that was asked for: nobody trains on its probabilities."""
    return replace(reply, sampling=asked.sampling, logprobs=None) if request.model_sampling else reply
