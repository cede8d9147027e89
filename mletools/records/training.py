"""An optimiser step of a trainer."""

from typing import Literal, NotRequired, TypedDict

from .common import Count, Id, Lineage, NonNegative, Positive, Share

AlgorithmName = Literal["sft", "grpo", "dapo", "dr-grpo", "reinforce", "rloo", "gspo"]


class StepHead(TypedDict):
    """What every record of an optimiser step begins with."""

    kind: Literal["train_step"]
    version: Literal[1]
    id: Id
    lineage: Lineage


class StepResult(TypedDict):
    """What an optimiser step was made of, and what came of it."""

    algorithm: AlgorithmName
    step: Positive
    engine: NotRequired[Literal["prime-rl"]]
    """That the step was handed over to, in place of being taken here."""

    loss: float | None
    """null where another engine takes the step: so is grad_norm."""

    reward_mean: float | None
    reward_std: float | None
    grad_norm: float | None
    learning_rate: NotRequired[float]
    tokens: Count
    """That carried loss."""

    rollouts: Count
    groups: Count
    duration_s: NonNegative
    policy_version: Count
    """Of the policy after this step."""

    engine_version: NotRequired[int | None]
    """That the engine had published when the step was handed over."""

    engine_waited_s: NotRequired[NonNegative]
    """Seconds that the step waited for the engine."""

    staleness: NotRequired[float | None]
    """Mean number of updates between sampling and training."""

    staleness_max: NotRequired[int | None]
    sequences: NotRequired[Positive]
    """Of its rollouts with gradients: each has one, and one more for each time that its policy was shown its past in
    another way."""

    retokenized: NotRequired[Count]
    """Rollouts without token ids, whose text was tokenised again."""

    rollout_s: NotRequired[NonNegative]
    """Mean duration of the rollouts."""

    weighted: NotRequired[bool]
    """By duration."""

    weight_max: NotRequired[float | None]
    lost: NotRequired[NonNegative]
    """Rollouts that were begun and that no step takes: of the step's groups, those that never come (of a group of which several
    steps take some, each its share); of any group, those that have become too old since the step before, or with oversampling
    come after it."""

    in_flight: NotRequired[Count]
    """Rollouts of the step's groups that may still come."""

    received: NotRequired[Count]
    """Of a stream: rollouts that came since the step before."""

    waiting: NotRequired[Count]
    """Of a stream: rollouts that have come and no step has taken."""

    waited_s: NotRequired[NonNegative]
    """Of a stream: seconds without enough rollouts for a step."""

    elapsed_s: NotRequired[NonNegative]
    """Of a stream: seconds since the step before."""

    sampler_waited_s: NotRequired[float | None]
    """Of a stream: seconds that the sampler had waited for newer policies, since it began, when the last of the
    step's rollouts was made."""

    entropy: NotRequired[float]
    """Of the policy, mean over the tokens that carried loss, in nats."""

    sampler_kl: NotRequired[NonNegative]
    """Distance of the policy from its sampler, in nats: mean over those tokens of r - 1 - log r, where r is the
    ratio trainer / sampler of their probabilities (k3)."""

    effective_sample_size: NotRequired[Share]
    """Share of those tokens that as many of equal weight would be worth: (sum of r)^2 / (tokens * sum of r^2)."""

    clipped_share: NotRequired[Share]
    """Of those tokens, those whose ratio was clipped or truncated at a bound."""

    masked_share: NotRequired[Share]
    """Of those tokens, those that --mismatch or --off-policy-mask-threshold left out."""

    largest_ratio: NotRequired[NonNegative]
    """Of trainer and sampler probability of a token, whichever is larger."""

    padding_share: NotRequired[Share]
    """Of what went through the model."""

    shared_share: NotRequired[Share]
    """Of the rows' tokens, those that did not go through the model because another row begins with them, too."""

    micro_batches: NotRequired[Count]
    sequence_tokens: NotRequired[Count]
    """Of the sequences that went through the model, prompts included and as if none were shared."""

    tokens_per_s: NotRequired[NonNegative]
    """Sequence_tokens a second, of all processes together."""

    mfu: NotRequired[NonNegative]
    """Model FLOPs utilisation, on a GPU whose peak is known: share of its bfloat16 peak that the model's weights
    account for; attention and recomputation are not counted."""

    validation_reward: NotRequired[float]
    """--validate: mean reward of the command's rollouts."""

    checkpoint: NotRequired[str | None]


class TrainStep(StepHead, StepResult):
    """One optimiser step."""
