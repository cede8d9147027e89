"""A rollout record as a training sample: token ids, which of them carry loss, and what the sampler thought of them.

Covered: records that carry the exact token ids of what the policy read and wrote (never tokenised again), also where the
policy no longer saw all that came before (dropped context, templates that rewrite turns: several sequences); and records
without any ids, whose text goes through the tokenizer's chat template. What a filter says of a record (kept, reward,
masked messages) is obeyed. Not covered: images, tool schemas in the template.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from ..base.chat_template import Conversation
from ..base.errors import RecordError
from ..records.rollout import FilterDecision, Message, Rollout, Turn

T = TypeVar("T")
# Further fields of sampling that make another distribution than the policy's at its temperature, with the values that do not.
PLAIN = {
    "top_k": (0, -1), "min_p": (0,), "typical_p": (1,), "repetition_penalty": (1,), "presence_penalty": (0,), "frequency_penalty": (0,),
}  # fmt: skip
RECORDED, TEMPLATE = "recorded", "template"
SPELLED = 12  # letters of an answer that tell whose tokens it has

# What can be said against a rollout as a whole, and which stop reasons say it.
STOPPED = {"format": "format", "timeout": "timeout", "length": "length", "context": "length", "budget": "aborted"}
TROUBLES = ("format", "timeout", "length", "aborted", "max_turns", "invalid")


@dataclass(frozen=True)
class TokenSequence:
    """Tokens that the policy saw and wrote in one go. `loss_mask` and `logprobs` are as long as `input_ids`.

    loss_mask: 1 where the token was written by the policy and may be trained on, else 0.
    logprobs: natural log-probability of each loss token under the distribution it was sampled from, 0.0 elsewhere;
    None when the record has none.
    """

    input_ids: list[int]
    loss_mask: list[int]
    logprobs: list[float] | None = None

    @property
    def loss_tokens(self) -> int:
        return sum(self.loss_mask)

    def loss_of(self, values: Iterable[T]) -> list[T]:
        """Of one value for each token, those of the tokens with loss."""
        return [value for value, loss in zip(values, self.loss_mask, strict=True) if loss]

    @property
    def prompt_length(self) -> int:
        """Number of tokens before the first one that carries loss."""
        return self.loss_mask.index(1) if 1 in self.loss_mask else len(self.input_ids)


@dataclass(frozen=True)
class Sample:
    """A rollout to train on: its sequences (one, unless the policy lost sight of something) and what it was worth.

    members: how many rollouts of its group are to come here. arrived: how many had come where the group was last looked
    at, None where nobody has said. duration_s: seconds that the actions took, all turns together; execution_s: of these the
    programs' own. troubles: of
    TROUBLES, those that hold. sampler_waited_s: what the sampler had waited for policies by then. tokens: whether the
    ids are those that were sampled, or the text's, tokenised again. share: of a rollout that it is; less than 1 for a
    step that mle-filter --cut-steps cut out of one. reshaped: what else of PLAIN its sampler was sent, for people.
    """

    id: str
    group: str
    sequences: tuple[TokenSequence, ...]
    reward: float | None
    policy_version: int | str | None = None
    duration_s: float = 0.0
    temperature: float | None = None
    top_p: float | None = None
    group_size: int = 1
    members: int = 1
    arrived: int | None = None
    kept: bool = True
    troubles: tuple[str, ...] = ()
    tokens: str = RECORDED
    sampler_waited_s: float | None = None
    share: float = 1
    execution_s: float = 0.0
    reshaped: str = ""

    @property
    def trains(self) -> bool:
        """Whether a trainer could take it, as far as it tells."""
        return self.kept and self.reward is not None and self.loss_tokens > 0

    @property
    def loss_tokens(self) -> int:
        return sum(sequence.loss_tokens for sequence in self.sequences)

    @property
    def length(self) -> int:
        """Tokens of its longest sequence."""
        return max((len(sequence.input_ids) for sequence in self.sequences), default=0)

    @property
    def has_logprobs(self) -> bool:
        return all(sequence.logprobs is not None for sequence in self.sequences if sequence.loss_tokens)


def _oldest_version(messages: Iterable[Message], version: int | str | None) -> int | str | None:
    """The oldest policy that sampled a message to train on; `version` where no message says.

    A rollout of hours may begin with one policy and end with another, and its last step is no older than its message.
    """
    versions = [message.get("policy_version") for message in messages if message.get("loss")]
    return min((each for each in versions if isinstance(each, int)), default=version)


def sample_of(record: Rollout, vocab_size: int | None = None, tokenizer: Any = None) -> Sample:
    """The training sample of a rollout record.

    A record without any token ids is rendered with `tokenizer`; without a tokenizer it is refused. Raises RecordError
    when ids are there in part only, when lengths disagree, when an id lies outside [0, vocab_size), or when the ids are
    another tokenizer's.
    """
    messages, decision = record["messages"], cast(FilterDecision, record.get("filter") or {"kept": True})
    masked = set(decision.get("masked") or ())
    if masked:
        marked = any("loss" in message for message in messages)
        messages = [
            {**message, "loss": i not in masked and message.get("loss", not marked and message["role"] == "assistant")}
            for i, message in enumerate(messages)
        ]
    if any(message.get("token_ids") for message in messages):
        if tokenizer is not None:
            _check_spelling(record["messages"], tokenizer)
        sequences, tokens = _recorded(messages, record["messages"], vocab_size), RECORDED
    elif tokenizer is None:
        raise RecordError("messages carry no token_ids, and there is no tokenizer to make some of the text")
    else:
        dropped = {turn["message"]: turn.get("dropped", ()) for turn in record.get("turns", ()) if "message" in turn}
        sequences, tokens = render(messages, tokenizer, dropped), TEMPLATE
    policy = record.get("policy") or {}
    sampling = policy.get("sampling") or {}
    size = int(record.get("group_size", 1))
    return Sample(
        id=record["id"],
        group=record["group"],
        sequences=sequences,
        reward=decision.get("reward", record.get("reward")),
        policy_version=_oldest_version(messages, policy.get("version")),
        duration_s=_duration(record, asking=True),
        execution_s=_duration(record, asking=False),
        temperature=sampling.get("temperature"),
        top_p=sampling.get("top_p"),
        reshaped=_reshaped({**(sampling.get("options") or {}), **sampling}),
        group_size=size,
        members=decision.get("members", size),
        arrived=decision.get("arrived"),
        kept=decision.get("kept", True),
        troubles=_troubles(record),
        tokens=tokens,
        sampler_waited_s=policy.get("waited_s"),
        share=1 / record["cut"].get("steps", 1) if "cut" in record else 1,
    )


def exceeds(sample: Sample, context: int | None) -> str:
    """What is said of the first sample that is longer than the model's context."""
    return (
        f"a rollout of {sample.length:,} tokens is longer than the {context:,} that the model takes, and is left out, as are all "
        "such (too_long)"
    )


def rollouts_in(samples: Iterable[Sample]) -> float:
    """How many rollouts the samples amount to."""
    return sum(sample.share for sample in samples)


def _duration(record: Rollout, asking: bool) -> float:
    """Seconds of running the programs, and of `asking`; of a step that was cut out its own turns'.

    Turns of an agent in turns (it has `settings`) hold both; the answer of one that was asked once is run by mle-sandbox.
    """
    turns = record.get("turns", ())
    first, last = record["cut"]["turns"] if "cut" in record else (0, len(turns))
    own = turns[first : last + 1]
    in_turns = sum(turn["duration_s"] if asking else _running(turn) for turn in own)
    run_apart = record["execution"]["duration_s"] if "execution" in record and "settings" not in record else 0.0
    return float(in_turns + run_apart)


def _running(turn: Turn) -> float:
    return sum(turn[ran]["duration_s"] for ran in ("execution", "cell") if ran in turn)


def _troubles(record: Rollout) -> tuple[str, ...]:
    reason = record.get("stop_reason")
    reasons = {STOPPED.get(reason, reason)} if reason in STOPPED or reason == "max_turns" else set()
    if "execution" in record and record["execution"]["status"] == "timeout":
        reasons.add("timeout")
    if record.get("grade") is not None and not record["grade"]["valid"]:
        reasons.add("invalid")
    return tuple(trouble for trouble in TROUBLES if trouble in reasons)


def _recorded(messages: list[Message], original: list[Message], vocab_size: int | None) -> tuple[TokenSequence, ...]:
    """The sequences of messages with recorded token ids, each up to its last token with loss.

    A message of the policy's with `prompt_token_ids` begins a new one. `original`: the messages before any was masked.
    """
    sequences: list[TokenSequence] = []
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    scored: list[bool] = []

    def end() -> None:
        if 1 in mask:
            stop = len(mask) - mask[::-1].index(1)
            sequences.append(TokenSequence(ids[:stop], mask[:stop], logprobs[:stop] if all(scored) else None))

    for index, message in enumerate(messages):
        before = message.get("prompt_token_ids")
        if before is not None:
            end()
            _check_ids(before, index, vocab_size)
            ids, mask, logprobs, scored = [*before], [0] * len(before), [0.0] * len(before), scored[:0]
        tokens, scores = message.get("token_ids") or [], message.get("logprobs")
        if original[index].get("loss"):
            if before is None:
                _check_own(original, index, bool(ids))
            if scores is not None and len(scores) != len(tokens):
                raise RecordError(f"messages[{index}]: {len(scores)} logprobs for {len(tokens)} token_ids")
            scored.append(scores is not None)
        _check_ids(tokens, index, vocab_size)
        own = bool(message.get("loss"))
        ids.extend(tokens)
        mask.extend([int(own)] * len(tokens))
        logprobs.extend(scores if own and scores is not None else [0.0] * len(tokens))
    end()
    own_messages = [message for message in original if message.get("loss")]
    with_scores = [message.get("logprobs") is not None for message in own_messages]
    if any(with_scores) and not all(with_scores):
        raise RecordError("logprobs are there for some of the policy's messages only")
    return tuple(sequences) or (TokenSequence(ids, mask, None),)


def _check_ids(tokens: list[int], index: int, vocab_size: int | None) -> None:
    for token in tokens:
        if token < 0 or (vocab_size is not None and token >= vocab_size):
            raise RecordError(
                f"messages[{index}]: token id {token} is outside the model's vocabulary of {vocab_size}: "
                "was this sampled from another model?"
            )


def _check_own(messages: list[Message], index: int, begun: bool) -> None:
    """The policy's message `index` has ids, and so has what it was an answer to."""
    if messages[index].get("token_ids") is None:
        raise RecordError(f"messages[{index}]: token_ids are there for some of the policy's messages only")
    before = messages[index - 1] if index else None
    if not begun or before is None or not (before.get("loss") or before.get("token_ids")):
        raise RecordError(f"messages[{index}]: the prompt before it has no token_ids, though it has")


def render(
    messages: list[Message], tokenizer: Any, dropped: Mapping[int, Collection[int]] | None = None
) -> tuple[TokenSequence, ...]:
    """The sequences of messages without ids, through the tokenizer's chat template.

    An assistant message's part is what the policy writes (Conversation.turn). Where the template tells what came before
    in another way than the sequence at hand has it, a new one begins, with the prompt as the policy would be given it.
    Where no message is marked with `loss`, every assistant message is the policy's. Each part is tokenised by itself, as
    at sampling. dropped: of a message of the policy the places of those that it did not see any more.
    """
    marked = any("loss" in message for message in messages)
    own = [i for i, each in enumerate(messages) if (each.get("loss") if marked else each["role"] == "assistant")]
    if not own:
        return (TokenSequence([], []),)
    whole = Conversation(tokenizer, messages[: own[-1] + 1])
    sequences: list[TokenSequence] = []
    done = None
    for index in own:
        conversation, at = whole, index
        if gone := frozenset((dropped or {}).get(index, ())):
            seen = [message for place, message in enumerate(messages[: index + 1]) if place not in gone]
            conversation, at = Conversation(tokenizer, seen), len(seen) - 1
        asked, written = conversation.turn(at)
        if done is None or not asked.startswith(done):
            sequences.append(TokenSequence([], []))
            done = ""
        for text, loss in ((asked[len(done) :], 0), (written, 1)):
            tokens = conversation.token_ids(text)
            sequences[-1].input_ids.extend(tokens)
            sequences[-1].loss_mask.extend([loss] * len(tokens))
        done = asked + written
    return tuple(sequences)


def _check_spelling(messages: Iterable[Message], tokenizer: Any) -> None:
    """RecordError where the ids of the first longer answer spell no part of it: they are another tokenizer's.

    Parts, since servers leave special tokens, thoughts and calls out of what they say.
    """
    for place, message in enumerate(messages):
        letters = _letters(message["content"])
        if message.get("loss") and message.get("token_ids") and len(letters) >= 2 * SPELLED:
            spelled = [
                _letters(tokenizer.decode(message["token_ids"], skip_special_tokens=skip)) for skip in (True, False)
            ]
            parts = (letters[at : at + SPELLED] for at in range(0, len(letters) - SPELLED + 1, SPELLED))
            if not any(part in text for part in parts for text in spelled):
                raise RecordError(
                    f"messages[{place}]: its token_ids do not spell its content with the model's tokenizer: another model "
                    "sampled it; without token_ids and prompt_token_ids its text is tokenised"
                )
            return


def _letters(text: str) -> str:
    """The letters and digits of ASCII in a text, which every reading of an answer leaves as they are."""
    return "".join(character for character in text if character.isascii() and character.isalnum())


def _reshaped(sampling: Mapping[str, object]) -> str:
    found = {name: sampling.get(name) for name in PLAIN}
    return ", ".join(
        f"{name} {value}" for name, value in found.items() if value is not None and value not in PLAIN[name]
    )


def check_sampling(sample: Sample, temperature: float | None, logprobs: bool, mask: Collection[str] = ()) -> None:
    """RecordError where a sample to train on is of another distribution than the trainer computes.

    temperature: the trainer's; None: not known yet. logprobs: whether the trainer compares with the recorded ones. mask: troubles
    for which a sample is not trained on.
    """
    if not sample.trains or not set(mask).isdisjoint(sample.troubles):
        return
    shared_temperature([sample], temperature)
    cut = f"top_p {sample.top_p}" if sample.top_p is not None and sample.top_p < 1 else sample.reshaped
    if logprobs and sample.has_logprobs and cut:
        raise RecordError(
            f"sampled with {cut}, so its logprobs are not the trainer's: sample without it, or train without the ratio "
            "(--mismatch off)"
        )


def shared_temperature(samples: Iterable[Sample], temperature: float | None = None) -> float:
    """The sampling temperature that all samples share (1.0 where none is recorded), checked against `temperature`.

    The trainer divides its logits by it, so that its probabilities are those that the tokens were sampled from.
    """
    temperatures = {float(sample.temperature) for sample in samples if sample.temperature is not None}
    if len(temperatures) > 1:
        raise RecordError(
            f"rollouts were sampled at different temperatures {sorted(temperatures)}: train on one at a time"
        )
    recorded = temperatures.pop() if temperatures else None
    if temperature is not None and recorded is not None and temperature != recorded:
        raise RecordError(f"sampled at temperature {recorded}, not {temperature}: --temperature says which it is to be")
    chosen = temperature if temperature is not None else recorded if recorded is not None else 1.0
    if chosen <= 0:
        raise RecordError("the rollouts were sampled at temperature 0: there is no distribution to learn from")
    return chosen
