"""The options of both trainers, and of a run of reinforcement."""

from dataclasses import dataclass

from ..records.errors import ToolError
from ..records.options import check_values, option
from .advantages import BASELINES, SCALES
from .algorithms import ALGORITHMS, LEVELS, LOSS_TYPES, PRESETS
from .durations import MODES
from .samples import TROUBLES
from .step_loader import IMPORTANCE_MODES

LOGGERS = ("none", "tensorboard", "wandb", "trackio")
POLICY, FOLDER, OPTIMISER, WEIGHTS, STREAMING = "Policy", "Run folder", "Optimiser", "Weights", "Streaming"
ENGINE, TRL, PRIME_RL = "Engine", "trl", "prime-rl"
ADVANTAGES, LOSS, CORRECTION, ROLLOUTS = "Advantages", "Loss", "Off-policy correction", "Rollouts"


@dataclass(frozen=True)
class RunFolder:
    """Where a run is kept."""

    out: str = option(
        "The run's folder: checkpoints, and `latest` pointing to the newest.",
        flags=("--run-dir",),
        kind="folder",
        required=True,
    )
    export_merged: bool = option(
        "At the end, write the policy as one full model into OUT/merged.", default=False, machine=True
    )


@dataclass(frozen=True)
class TrainingOptions:
    """What both trainers have. lora_rank 0 trains all weights. ToolError: a value that its option does not allow."""

    epochs: int = option("Passes over the input.", default=1, at_least=1, heading=OPTIMISER)
    micro_batch: int = option("Rollouts a forward pass, at most.", default=8, at_least=1, machine=True, heading=FOLDER)
    lora_rank: int = option("0 trains all weights.", default=16, at_least=0, heading=WEIGHTS)
    lora_alpha: int = option("Scale: alpha / rank.", default=32, at_least=1, heading=WEIGHTS)
    save_steps: int = option(
        "A checkpoint every so many steps, and at the end.", default=10, at_least=1, machine=True, heading=FOLDER
    )
    keep: int = option("Checkpoints that stay.", default=3, at_least=1, machine=True, heading=FOLDER)
    validate: str | None = option(
        "At each checkpoint run this line of bash, which samples from the policy in $MLE_POLICY and writes graded "
        "rollouts; OUT/best points at the checkpoint with the best mean reward.",
        metavar="COMMAND",
        machine=True,
        heading=FOLDER,
    )
    logits_memory: float | None = option(
        "Megabytes for the piece of the logits that is computed at a time, whatever the vocabulary; default: 64, and 268.5 "
        "on a GPU.",
        above=0,
        machine=True,
        heading=FOLDER,
    )
    logger: str = option(
        "Keep curves, beside the records: in OUT/logs, or at a service.",
        default="none",
        choices=LOGGERS,
        machine=True,
        heading=FOLDER,
    )
    seed: int = 0

    def __post_init__(self) -> None:
        check_values(self)


@dataclass(frozen=True)
class GrpoPolicy:
    """The policy that a run of reinforcement begins from, and a paper's settings."""

    model: str = option(
        "The policy that sampled the first rollouts: a folder, adapter folder or hub name.", required=True
    )
    preset: str | None = option("A paper's settings; options that are given win.", choices=tuple(PRESETS))


@dataclass(frozen=True)
class GrpoOptions(TrainingOptions):
    """What defines a run; names are TRL's where TRL has the option. Defaults are grpo's of algorithms.ALGORITHMS."""

    algorithm: str = option(
        "What the options below begin from.", default="grpo", choices=tuple(ALGORITHMS), heading=POLICY
    )
    engine: str = option(
        "What takes the optimiser steps: TRL in this process, or prime-rl's trainer, which reads batches from --engine-dir.",
        default=TRL,
        choices=(TRL, PRIME_RL),
        heading=ENGINE,
    )
    learning_rate: float = option("Constant.", default=1e-5, heading=OPTIMISER)
    groups_per_step: int = option("Whole groups an optimiser step.", default=16, at_least=1, heading=OPTIMISER)
    batch: int | None = option(
        "Rollouts a step instead, as they came: what is late counts for a later step.", at_least=1, heading=OPTIMISER
    )
    max_steps: int | None = option(
        "End when the run has so many optimiser steps, earlier sessions' included.",
        at_least=1,
        machine=True,
        heading=OPTIMISER,
    )
    max_grad_norm: float = option("Scale longer gradients down to this.", default=1.0, heading=OPTIMISER)
    micro_tokens: int | None = option(
        "Tokens a forward pass, padding and all, at most.", at_least=1, machine=True, heading=FOLDER
    )
    share_prefix: bool = option(
        "On a CPU: compute a prompt that several rows of a micro-batch share once.",
        default=True,
        switch=True,
        machine=True,
        heading=FOLDER,
    )
    fp32_head: bool = option(
        "Compute logits in float32, on a GPU too: log-probabilities nearer to an exact sampler's, for a slower head.",
        default=False,
        switch=True,
        machine=True,
        heading=FOLDER,
    )
    baseline: str = option(
        "What an advantage is measured against.", default="group", choices=BASELINES, heading=ADVANTAGES
    )
    scale_rewards: str = option(
        "Divide advantages by a standard deviation, or by the group's mean reward (MaxRL).",
        default="group",
        choices=SCALES,
        heading=ADVANTAGES,
    )
    loss_type: str = option("How token losses are made and averaged.", default="grpo", choices=LOSS_TYPES, heading=LOSS)
    importance_sampling_level: str = option(
        "One ratio a token or a sequence.", default="token", choices=LEVELS, heading=LOSS
    )
    epsilon: float = option("Clip the ratio below 1 - this.", default=0.2, heading=LOSS)
    epsilon_high: float | None = option("Clip the ratio above 1 + this; default: epsilon.", heading=LOSS)
    delta: float | None = option("Bound the ratio by this where the advantage is negative, too.", heading=LOSS)
    beta: float = option("Weight of the KL term against the policy that the run began from.", default=0.0, heading=LOSS)
    use_bias_correction_kl: bool = option("Weight the KL term by the ratio.", default=False, switch=True, heading=LOSS)
    entropy_coef: float = option("Weight of the entropy, a mean over tokens.", default=0.0, heading=LOSS)
    max_completion_length: int = option("dr_grpo divides by this.", default=1024, at_least=1, heading=LOSS)
    use_logprobs: bool = option(
        "Take the ratio against the recorded logprobs; else it is 1.", default=True, switch=True, heading=CORRECTION
    )
    vllm_importance_sampling_correction: bool = option(
        "Weight by trainer over sampler probability instead of clipping that ratio.",
        default=False,
        switch=True,
        heading=CORRECTION,
    )
    vllm_importance_sampling_mode: str = option(
        "How those weights are bounded.", default="token_truncate", choices=IMPORTANCE_MODES, heading=CORRECTION
    )
    vllm_importance_sampling_clip_max: float | None = option("Their upper bound.", default=3.0, heading=CORRECTION)
    vllm_importance_sampling_clip_min: float | None = option("Their lower bound.", heading=CORRECTION)
    off_policy_mask_threshold: float | None = option(
        "Leave out negative rollouts farther than this off the policy.", heading=CORRECTION
    )
    largest_ratio: float | None = option(
        "Stop, before the step, where a token's ratio is beyond this.", heading=CORRECTION
    )
    temperature: float | None = option("Default: the one that the rollouts were sampled at.", heading=CORRECTION)
    mask: tuple[str, ...] = option(
        "Leave out such rollouts, as if their group did not have them; repeatable.",
        default=(),
        choices=TROUBLES,
        heading=ROLLOUTS,
    )
    duration_weight: str = option(
        "Weight rollouts by duration / mean (mean), or by how many that were lost each stands for (auto).",
        default="off",
        choices=MODES,
        heading=ROLLOUTS,
    )
    duration_clip: float | None = option("The largest such weight.", heading=ROLLOUTS)
    max_staleness: int | None = option(
        "Leave out rollouts of a policy more than so many updates old.", at_least=0, heading=STREAMING
    )
    publish_steps: int = option("Publish every so many updates.", default=1, at_least=1, heading=STREAMING)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", tuple(self.mask))
        super().__post_init__()
        if self.loss_type == "luspo" and self.importance_sampling_level != "sequence":
            raise ToolError("loss_type luspo is made for importance_sampling_level sequence")
