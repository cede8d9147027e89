"""A rollout record as a training sample: token ids, which of them carry loss, and what the sampler thought of them.

Covered: records that carry the exact token ids of what the policy read and wrote (never tokenised again), and records
without any ids, whose text goes through the tokenizer's chat template (supervised training only).
Not covered: images, tool schemas in the template, rollouts in turns of which the policy did not see all that came before
(templates that rewrite earlier turns, dropped context): they are refused.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mletools.records.errors import RecordError


@dataclass(frozen=True)
class Sample:
    """One sequence to train on. `loss_mask` and `logprobs` are as long as `input_ids`.

    loss_mask: 1 where the token was written by the policy and may be trained on, else 0.
    logprobs: natural log-probability of each loss token under the distribution it was sampled from, 0.0 elsewhere;
    None when the record has none. duration_s: seconds that the actions took, all turns together.
    """

    id: str
    group: str
    input_ids: list[int]
    loss_mask: list[int]
    logprobs: list[float] | None
    reward: float | None
    policy_version: int | str | None
    duration_s: float
    temperature: float | None = None
    top_p: float | None = None

    @property
    def loss_tokens(self) -> int:
        return sum(self.loss_mask)

    @property
    def prompt_length(self) -> int:
        """Number of tokens before the first one that carries loss."""
        return self.loss_mask.index(1) if 1 in self.loss_mask else len(self.input_ids)


def sample_of(record: dict[str, Any], vocab_size: int | None = None, tokenizer: Any = None) -> Sample:
    """The training sample of a rollout record.

    A record without any token ids is rendered with `tokenizer`; without a tokenizer it is refused. Raises RecordError
    when ids are there in part only, when lengths disagree, or when an id lies outside [0, vocab_size).
    """
    messages = record["messages"]
    logprobs: list[float] | None
    if any(message.get("token_ids") for message in messages):
        ids, mask, logprobs = _recorded(messages, vocab_size)
    elif tokenizer is None:
        raise RecordError(
            "messages carry no token_ids: GRPO trains on the exact tokens that were sampled; use a model that returns them"
        )
    else:
        (ids, mask), logprobs = render(messages, tokenizer), None
    policy = record.get("policy") or {}
    sampling = policy.get("sampling") or {}
    return Sample(
        id=record["id"],
        group=record["group"],
        input_ids=ids,
        loss_mask=mask,
        logprobs=logprobs,
        reward=record.get("reward"),
        policy_version=policy.get("version"),
        duration_s=float(sum(turn["duration_s"] for turn in record.get("turns", ()))),
        temperature=sampling.get("temperature"),
        top_p=sampling.get("top_p"),
    )


def _recorded(messages: list[dict], vocab_size: int | None) -> tuple[list[int], list[int], list[float] | None]:
    """Ids, loss mask and log-probabilities of messages with recorded token ids, up to the last token with loss."""
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    scored: list[bool] = []
    for index, message in enumerate(messages):
        if message.get("prompt_token_ids") is not None:
            raise RecordError(
                f"messages[{index}]: a new sequence begins here, for the policy no longer saw what it had seen before "
                "(context was dropped, or the chat template rewrites earlier turns): this rollout is no single sequence"
            )
        own = bool(message.get("loss"))
        tokens = message.get("token_ids")
        if own:
            _check_own(messages, index, bool(ids))
            scores = message.get("logprobs")
            scored.append(scores is not None)
            if scores is not None and len(scores) != len(tokens or ()):
                raise RecordError(f"messages[{index}]: {len(scores)} logprobs for {len(tokens or ())} token_ids")
            logprobs.extend(scores if scores is not None else [0.0] * len(tokens or ()))
        else:
            logprobs.extend([0.0] * len(tokens or ()))
        for token in tokens or ():
            if token < 0 or (vocab_size is not None and token >= vocab_size):
                raise RecordError(
                    f"messages[{index}]: token id {token} is outside the model's vocabulary of {vocab_size}: "
                    "was this sampled from another model?"
                )
        ids.extend(tokens or ())
        mask.extend([int(own)] * len(tokens or ()))
    if any(scored) and not all(scored):
        raise RecordError("logprobs are there for some of the policy's messages only")
    end = len(mask) - mask[::-1].index(1) if 1 in mask else len(mask)
    return ids[:end], mask[:end], logprobs[:end] if scored and all(scored) else None


def _check_own(messages: list[dict], index: int, begun: bool) -> None:
    """The policy's message `index` has ids, and so has what it was an answer to."""
    if messages[index].get("token_ids") is None:
        raise RecordError(f"messages[{index}]: token_ids are there for some of the policy's messages only")
    before = messages[index - 1] if index else {}
    if not begun or (not before.get("loss") and not before.get("token_ids")):
        raise RecordError(f"messages[{index}]: the prompt before it has no token_ids, though it has")


def render(messages: list[dict], tokenizer: Any) -> tuple[list[int], list[int]]:
    """Token ids and loss mask of messages without ids, through the tokenizer's chat template.

    An assistant message's part is what the template adds to the prompt that ends in its generation prefix, up to and
    with the end-of-turn token; white space that the template adds after that token carries no loss. Where no message
    is marked with `loss`, every assistant message is the policy's. Each part is tokenised by itself, as at sampling.
    """
    marked = any("loss" in message for message in messages)
    plain = [{"role": message["role"], "content": message["content"]} for message in messages]
    ids: list[int] = []
    mask: list[int] = []
    done = ""
    for index, message in enumerate(messages):
        own = message.get("loss", False) if marked else message["role"] == "assistant"
        if not own:
            continue
        prefix = _templated(tokenizer, plain[:index], True)
        whole = _templated(tokenizer, plain[: index + 1], False)
        if not prefix.startswith(done) or not whole.startswith(prefix):
            raise RecordError(
                f"messages[{index}]: the chat template rewrites earlier turns; cut the rollout into steps "
                "(mle-filter --steps) to train on it"
            )
        answer = whole[len(prefix) :]
        if tokenizer.eos_token and tokenizer.eos_token in answer:
            answer = answer[: answer.rindex(tokenizer.eos_token) + len(tokenizer.eos_token)]
        for text, loss in ((prefix[len(done) :], 0), (answer, 1)):
            tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
            ids.extend(tokens)
            mask.extend([loss] * len(tokens))
        done = prefix + answer
    return ids, mask


def _templated(tokenizer: Any, messages: list[dict], ask: bool) -> str:
    from jinja2 import TemplateError

    try:
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask)
    except (TemplateError, ValueError) as error:
        raise RecordError(f"the model's chat template refuses the messages: {error}") from error


def shared_temperature(samples: Iterable[Sample], temperature: float | None = None) -> float:
    """The sampling temperature that all samples share (1.0 where none is recorded), checked against `temperature`.

    The trainer divides its logits by it, so that its probabilities are those that the tokens were sampled from.
    """
    found = {float(sample.temperature) for sample in samples if sample.temperature is not None}
    if len(found) > 1:
        raise RecordError(f"rollouts were sampled at different temperatures {sorted(found)}: train on one at a time")
    recorded = found.pop() if found else None
    if temperature is not None and recorded is not None and temperature != recorded:
        raise RecordError(f"the rollouts were sampled at temperature {recorded}, not {temperature}")
    chosen = temperature if temperature is not None else recorded if recorded is not None else 1.0
    if chosen <= 0:
        raise RecordError("the rollouts were sampled at temperature 0: there is no distribution to learn from")
    return chosen
