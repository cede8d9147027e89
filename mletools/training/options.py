"""The options of a run of reinforcement, and what makes no sense of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..records.errors import ToolError
from .advantages import BASELINES, SCALES
from .algorithms import ALGORITHMS, LEVELS, LOSS_TYPES
from .durations import MODES
from .samples import TROUBLES
from .step_loader import IMPORTANCE_MODES


@dataclass(frozen=True)
class GrpoOptions:
    """What defines a run; the names are TRL's where TRL has the option. Defaults are grpo's of algorithms.ALGORITHMS.

    batch: rollouts a step, in place of groups_per_step. temperature: None takes the one that the rollouts were sampled at.
    use_logprobs: the ratio of the clipped loss is against the recorded log-probabilities, for rollouts that have them;
    else it is 1. vllm_importance_sampling_correction weights by trainer over sampler instead of clipping that ratio.
    largest_ratio: a step with a token beyond it is not taken, and the run ends. lora_rank 0 trains all weights.
    max_steps: of the run in all, sessions before this one included. micro_batch, micro_tokens: rows, and tokens with their padding, of one forward pass at most.
    """

    algorithm: str = "grpo"
    baseline: str = "group"
    scale_rewards: str = "group"
    loss_type: str = "grpo"
    importance_sampling_level: str = "token"
    epsilon: float = 0.2
    epsilon_high: float | None = None
    delta: float | None = None
    beta: float = 0.0
    use_bias_correction_kl: bool = False
    entropy_coef: float = 0.0
    use_logprobs: bool = True
    vllm_importance_sampling_correction: bool = False
    vllm_importance_sampling_mode: str = "token_truncate"
    vllm_importance_sampling_clip_max: float | None = 3.0
    vllm_importance_sampling_clip_min: float | None = None
    off_policy_mask_threshold: float | None = None
    largest_ratio: float | None = None
    max_completion_length: int = 1024
    temperature: float | None = None
    mask: tuple[str, ...] = ()
    duration_weight: str = "off"
    duration_clip: float | None = None
    max_staleness: int | None = None
    groups_per_step: int = 16
    batch: int | None = None
    epochs: int = 1
    max_steps: int | None = None
    learning_rate: float = 1e-5
    max_grad_norm: float = 1.0
    micro_batch: int = 8
    micro_tokens: int | None = None
    lora_rank: int = 16
    lora_alpha: int = 32
    save_steps: int = 10
    keep: int = 3
    logger: str = "none"
    publish_steps: int = 1
    validate: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", tuple(self.mask))
        choices: dict[str, Sequence[str]] = {
            "algorithm": list(ALGORITHMS), "baseline": BASELINES, "scale_rewards": SCALES, "loss_type": LOSS_TYPES,
            "importance_sampling_level": LEVELS, "vllm_importance_sampling_mode": IMPORTANCE_MODES, "duration_weight": MODES,
        }  # fmt: skip
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ToolError(f"{name} {getattr(self, name)!r}: choose one of {', '.join(allowed)}")
        if unknown := [trouble for trouble in self.mask if trouble not in TROUBLES]:
            raise ToolError(f"mask {unknown[0]!r}: choose of {', '.join(TROUBLES)}")
        whole = (
            "groups_per_step",
            "batch",
            "epochs",
            "max_steps",
            "micro_batch",
            "micro_tokens",
            "max_completion_length",
            "save_steps",
        )
        for name in (*whole, "keep"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ToolError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.loss_type == "luspo" and self.importance_sampling_level != "sequence":
            raise ToolError("loss_type luspo is made for importance_sampling_level sequence")
