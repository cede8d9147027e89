"""The options of both trainers, and of a run of reinforcement."""

from dataclasses import dataclass

from ..base.errors import ToolError
from ..base.options import check_values, option
from ..models import DTYPES
from .advantages import BASELINES, SCALES, SCALES_OF
from .algorithms import ALGORITHMS, CLIPS, LEVELS, LOSS_TYPES, PRESETS, RATIO_LOSSES, idle_clips
from .durations import MODES, PARTS
from .mismatch import BOUNDS
from .mismatch import MODES as MISMATCH_MODES
from .samples import TROUBLES

LOGGERS = ("none", "tensorboard", "wandb", "trackio", "mlflow")
POLICY, FOLDER, OPTIMISER, WEIGHTS, STREAMING = "Policy", "Run folder", "Optimiser", "Weights", "Streaming"
ENGINE, TRL, PRIME_RL = "Engine", "trl", "prime-rl"
_BOUNDS_SHOWN = ", ".join(f"{value:g} for {mode}" for mode, value in BOUNDS.items())
ADVANTAGES, LOSS, CORRECTION, ROLLOUTS = "Advantages", "Loss", "Off-policy correction", "Rollouts"


@dataclass(frozen=True)
class RunFolder:
    """Where a run is kept."""

    out: str = option(
        "The run's folder: checkpoints, and `latest` pointing to the newest.",
        flags=("--run-dir",),
        kind="folder",
        metavar="RUN_DIR",
        required=True,
    )
    export_merged: bool = option(
        "At the end, also write the policy as one full model into RUN_DIR/merged.", default=False, machine=True
    )


@dataclass(frozen=True)
class TrainingOptions:
    """What both trainers have. lora_rank 0 trains all weights. ToolError: a value that its option does not allow."""

    epochs: int = option("Passes over the input.", default=1, at_least=1, heading=OPTIMISER)
    micro_batch: int | None = option(
        "Maximum rollouts per forward pass (default: 8; no limit where --micro-tokens sets one).",
        at_least=1,
        machine=True,
        heading=FOLDER,
    )
    lora_rank: int = option("Rank of the LoRA adapter; 0 trains all weights.", default=16, at_least=0, heading=WEIGHTS)
    lora_alpha: int = option(
        "LoRA's alpha: updates are scaled by alpha / rank.", default=32, at_least=1, heading=WEIGHTS
    )
    dtype: str = option(
        "Precision on a CPU: bfloat16 is faster on processors with AMX or AVX512-BF16; trained weights stay float32. On a GPU it "
        "is bfloat16.",
        default=DTYPES[0],
        choices=DTYPES,
        heading=WEIGHTS,
    )
    save_steps: int = option(
        "Write a checkpoint every N steps, and at the end.", default=10, at_least=1, machine=True, heading=FOLDER
    )
    keep: int = option("Number of checkpoints to keep.", default=3, at_least=1, machine=True, heading=FOLDER)
    validate: str | None = option(
        "At each checkpoint run this bash command, which samples from the policy in $MLE_POLICY and writes graded "
        "rollouts. RUN_DIR/best then points to the checkpoint with the best mean reward.",
        metavar="COMMAND",
        machine=True,
        heading=FOLDER,
    )
    logits_memory: float | None = option(
        "Megabytes of logits computed at a time, whatever the size of the vocabulary (default: 64; 268.5 on a GPU).",
        above=0,
        machine=True,
        heading=FOLDER,
    )
    logger: str = option(
        "Also log curves: to RUN_DIR/logs, or to a service.",
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
    preset: str | None = option(
        "Use a paper's settings. Options on the command line override them.", choices=tuple(PRESETS)
    )


@dataclass(frozen=True)
class GrpoOptions(TrainingOptions):
    """What defines a run; names are TRL's where TRL has the option. Defaults are grpo's of algorithms.ALGORITHMS."""

    algorithm: str = option(
        "Sets the defaults of the options below.", default="grpo", choices=tuple(ALGORITHMS), heading=POLICY
    )
    engine: str = option(
        "What takes the optimiser steps: TRL in this process, or prime-rl's trainer, which reads batches from "
        "--engine-dir.",
        default=TRL,
        choices=(TRL, PRIME_RL),
        heading=ENGINE,
    )
    learning_rate: float = option(
        "Constant learning rate (default: 1e-5 with LoRA, a tenth of that where all weights are trained).",
        above=0,
        heading=OPTIMISER,
    )
    groups_per_step: int = option("Whole groups per optimiser step.", default=16, at_least=1, heading=OPTIMISER)
    batch: int | None = option(
        "Take N rollouts per step instead, in order of arrival. A late rollout goes into a later step.",
        at_least=1,
        heading=OPTIMISER,
    )
    max_steps: int | None = option(
        "End after N optimiser steps of the run, including those of earlier sessions.",
        at_least=1,
        machine=True,
        heading=OPTIMISER,
    )
    equal_groups: bool = option(
        "Also count groups with equal rewards towards a step; their advantages are 0 (verl). Otherwise they are left "
        "out.",
        default=False,
        switch=True,
        heading=ADVANTAGES,
    )
    max_grad_norm: float = option("Clip the gradient's norm to this.", default=1.0, heading=OPTIMISER)
    micro_tokens: int | None = option(
        "Maximum tokens per forward pass, including padding (default: on a GPU, what fits into its free memory by "
        "the estimate of --dry-run).",
        at_least=1,
        machine=True,
        heading=FOLDER,
    )
    share_prefix: bool = option(
        "Where rows are packed, compute a prompt that several rows of a micro-batch share only once.",
        default=True,
        switch=True,
        machine=True,
        heading=FOLDER,
    )
    varlen: bool = option(
        "On a GPU: pack rows without padding, by PyTorch's attention for sequences of different lengths "
        "(measured on one H100: docs/gpu.md). On a CPU rows are always packed.",
        default=False,
        switch=True,
        machine=True,
        heading=FOLDER,
    )
    fp32_head: bool = option(
        "Compute logits in float32 on a GPU, too. Log-probabilities are closer to those of an exact sampler; the "
        "head is slower.",
        default=False,
        switch=True,
        machine=True,
        heading=FOLDER,
    )
    baseline: str = option(
        "Baseline that is subtracted from rewards.", default="group", choices=BASELINES, heading=ADVANTAGES
    )
    scale_rewards: str = option(
        "Divide advantages by a standard deviation, or by the group's mean reward (MaxRL). With --baseline batch: by the "
        "batch's or nothing; with none: by nothing.",
        default="group",
        choices=SCALES,
        heading=ADVANTAGES,
    )
    loss_type: str = option("Loss per token, and how it is averaged.", default="grpo", choices=LOSS_TYPES, heading=LOSS)
    importance_sampling_level: str = option(
        "One importance ratio per token or per sequence.", default="token", choices=LEVELS, heading=LOSS
    )
    epsilon: float | None = option("Clip the ratio from below at 1 - X (default: 0.2).", above=0, below=1, heading=LOSS)
    epsilon_high: float | None = option("Clip the ratio from above at 1 + X (default: epsilon).", heading=LOSS)
    delta: float | None = option("Also limit the ratio to X where the advantage is negative.", above=0, heading=LOSS)
    beta: float = option("Weight of the KL term against the initial policy.", default=0.0, heading=LOSS)
    use_bias_correction_kl: bool = option("Weight the KL term by the ratio.", default=False, switch=True, heading=LOSS)
    entropy_coef: float = option("Weight of the entropy bonus (mean over tokens).", default=0.0, heading=LOSS)
    max_completion_length: int = option("The constant that dr_grpo divides by.", default=1024, at_least=1, heading=LOSS)
    mismatch: str = option(
        "How to correct for tokens whose probability differs between trainer and sampler: clip the ratio in the "
        "loss, weight by it and mask or truncate, or ignore it (off). Default: clip where a clipping option is given "
        "or the loss uses the ratio itself, else token-mask.",
        choices=MISMATCH_MODES,
        heading=CORRECTION,
    )
    mismatch_bound: float | None = option(
        f"Ratio at which to mask or truncate (default: {_BOUNDS_SHOWN}).",
        above=0,
        heading=CORRECTION,
    )
    off_policy_mask_threshold: float | None = option(
        "Leave out rollouts with a negative advantage that are farther than X off-policy.", heading=CORRECTION
    )
    largest_ratio: float | None = option("Stop before a step in which a token's ratio exceeds X.", heading=CORRECTION)
    temperature: float | None = option(
        "Temperature of the policy's distribution (default: the one that the rollouts were sampled at).",
        heading=CORRECTION,
    )
    mask: tuple[str, ...] = option(
        "Leave out rollouts with this flaw, as if their group did not have them. Repeatable.",
        default=(),
        choices=TROUBLES,
        heading=ROLLOUTS,
    )
    duration_weight: str = option(
        "mean: weight rollouts by their duration / the mean; auto: by how many lost rollouts each one stands for.",
        default="off",
        choices=MODES,
        heading=ROLLOUTS,
    )
    duration_of: str = option(
        "The duration that --duration-weight uses: of the whole rollout, or of its programs only (eq. 3).",
        default="rollout",
        choices=PARTS,
        heading=ROLLOUTS,
    )
    duration_clip: float | None = option("Maximum weight.", heading=ROLLOUTS)
    max_staleness: int | None = option(
        "Leave out rollouts of a policy that is more than N updates old.", at_least=0, heading=STREAMING
    )
    oversample: float | None = option(
        "With --batch N: samplers begin M * N rollouts per step. The step takes the first N that arrive; the others "
        "are lost.",
        above=1,
        metavar="M",
        heading=STREAMING,
    )
    publish_steps: int = option("Publish the policy every N updates.", default=1, at_least=1, heading=STREAMING)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", tuple(self.mask))
        if self.learning_rate is None:
            object.__setattr__(self, "learning_rate", 1e-5 if self.lora_rank else 1e-6)
        clips = [name for name in CLIPS if getattr(self, name) is not None]
        ratio = self.loss_type in RATIO_LOSSES or self.importance_sampling_level == "sequence"
        if self.mismatch is None:
            object.__setattr__(self, "mismatch", "clip" if clips or ratio else "token-mask")
        super().__post_init__()
        fitting = SCALES_OF.get(self.baseline, SCALES)
        if self.scale_rewards not in fitting:
            raise ToolError(
                f"scale_rewards {self.scale_rewards} divides by what may be 0, for baseline {self.baseline} takes rollouts "
                f"without a spread, too: it goes with scale_rewards {' or '.join(fitting)}"
            )
        if self.oversample is not None and self.batch is None:
            raise ToolError("oversample is about the rollouts of a batch: give a batch")
        if self.oversample is not None and (self.max_staleness or self.publish_steps > 1):
            raise ToolError(
                "oversample drops what is not of the newest policy: it goes with max_staleness 0 and publish_steps 1"
            )
        if self.loss_type == "luspo" and self.importance_sampling_level != "sequence":
            raise ToolError("loss_type luspo is made for importance_sampling_level sequence")
        if clips and self.mismatch != "clip":
            raise ToolError(f"{clips[0]} clips the ratio of mismatch clip, and this run has mismatch {self.mismatch}")
        if idle := [name for name in clips if name in idle_clips(self.loss_type, self.mismatch)]:
            raise ToolError(
                f"{idle[0]} has no effect on loss_type {self.loss_type}: "
                f"{'epsilon_high bounds its weights' if self.loss_type == 'cispo' else 'leave it out'}"
            )
        if self.duration_weight == "off" and (self.duration_clip is not None or self.duration_of != PARTS[0]):
            name = "duration_of" if self.duration_clip is None else "duration_clip"
            raise ToolError(f"{name} is about weights by duration: give a duration_weight, too")
        if self.mismatch in BOUNDS and ratio:
            raise ToolError(
                f"loss_type {self.loss_type} with importance_sampling_level {self.importance_sampling_level} uses the ratio "
                f"itself: it goes with mismatch clip, not {self.mismatch}"
            )
        if self.mismatch_bound is not None and self.mismatch not in BOUNDS:
            raise ToolError(f"mismatch {self.mismatch} has no mismatch_bound: epsilon says where it clips")
        if self.mismatch == "sequence-mask" and self.mismatch_bound is not None and self.mismatch_bound <= 1:
            raise ToolError("mismatch_bound of sequence-mask is a ratio above 1: its inverse bounds from below")
