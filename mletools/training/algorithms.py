"""The algorithms by name, and the papers' settings: what each sets of the options that TRL's loss and ours have.

An option that a user gives wins over the preset, a preset over the algorithm, the algorithm over the defaults.
"""

from collections.abc import Mapping
from typing import Any

from ..base.errors import OptionError
from .advantages import SCALES, SCALES_OF

# Losses of TRL that are sums over rows or tokens with a fixed divisor, so that rows may be split over micro-batches and
# processes without a change. bnpo (divides within a micro-batch) and vespo (its own use of the ratios) are not.
LOSS_TYPES = ("grpo", "dapo", "dr_grpo", "cispo", "sapo", "luspo")
MEANS_OVER_ROWS = ("grpo", "dr_grpo", "sapo", "luspo")
MEANS_OVER_TOKENS = ("grpo", "sapo")  # of a rollout, before that
RATIO_LOSSES = ("cispo", "sapo", "luspo")  # each bounds the ratio in its own way
EPSILON = 0.2
CLIPS = ("epsilon", "epsilon_high", "delta")  # of mismatch clip
LEVELS = ("token", "sequence")

Setting = str | float | bool | tuple[str, ...] | None

ALGORITHMS: dict[str, dict[str, Setting]] = {
    # DeepSeekMath, eq. 3
    "grpo": {"baseline": "group", "scale_rewards": "group", "loss_type": "grpo"},
    # DAPO, eq. 8 and section 3.1: the higher bound is farther away, every token counts alike
    "dapo": {"baseline": "group", "scale_rewards": "group", "loss_type": "dapo", "epsilon_high": 0.28},
    # Dr. GRPO, section 3.2: no spread, a constant in place of lengths
    "dr-grpo": {"baseline": "group", "scale_rewards": "none", "loss_type": "dr_grpo"},
    # Williams 1992; the log-probability of the whole answer, up to the constant of dr_grpo
    "reinforce": {"baseline": "batch", "scale_rewards": "none", "loss_type": "dr_grpo"},
    # Ahmadian et al. 2024, eq. 5
    "rloo": {"baseline": "leave-one-out", "scale_rewards": "none", "loss_type": "dr_grpo"},
    # GSPO, eq. 5-7 and section 5.1: one ratio a sequence
    "gspo": {
        "baseline": "group",
        "scale_rewards": "group",
        "loss_type": "grpo",
        "importance_sampling_level": "sequence",
        "epsilon": 3e-4,
        "epsilon_high": 4e-4,
    },
}

PRESETS: dict[str, dict[str, Setting]] = {
    # App. A.2 and B.2; the clip range and the rate are not given there
    "mle-ideator": {
        "algorithm": "grpo", "groups_per_step": 16, "lora_rank": 32, "epochs": 1, "beta": 0.0, "save_steps": 10,
        "mismatch": "clip", "equal_groups": True,
    },
    # Section 5.1; the reward has its running mean taken off by mle-filter. No correction is mentioned.
    "mle-rl": {
        "algorithm": "reinforce", "baseline": "none", "batch": 64, "learning_rate": 1e-6, "beta": 0.0, "publish_steps": 5,
        "temperature": 1.0, "lora_rank": 0, "mismatch": "off",
    },
    # Table 3. With gamma = lambda = 1 and whitened advantages (verl), a critic that knows nothing of the prompt is the step's
    # mean: it stands in the learned one's place, needs no groups, and leaves no rollout out.
    "duration-aware": {
        "algorithm": "reinforce", "scale_rewards": "batch", "loss_type": "dapo", "batch": 128, "learning_rate": 1e-5, "epsilon": 0.2,
        "beta": 0.001, "entropy_coef": 0.001, "max_grad_norm": 1.0, "temperature": 0.7, "duration_weight": "auto",
        "lora_rank": 0,
    },
    # Released settings: trajectories, mean over tokens, then over sequences
    "sandmle": {
        "algorithm": "grpo", "groups_per_step": 16, "learning_rate": 1e-6, "epsilon": 0.2, "epsilon_high": 0.28, "beta": 0.0,
        "temperature": 1.0, "save_steps": 5, "mask": ("timeout", "aborted"), "lora_rank": 0,
    },
}  # fmt: skip


def idle_clips(loss_type: str, mismatch: str) -> tuple[str, ...]:
    """Which of CLIPS have no effect: on a ratio that is 1 or that is corrected otherwise, and on losses with bounds of their own."""
    if mismatch != "clip" or loss_type == "sapo":
        return CLIPS
    return ("epsilon", "delta") if loss_type == "cispo" else ()


def settle(overrides: Mapping[str, Setting], preset: str | None) -> dict[str, Any]:
    """The settings of GrpoOptions: `overrides` that are not None or (), then the preset's, then the algorithm's.

    The result has `algorithm`; a preset's `batch` gives way to a `groups_per_step` among the overrides, and the other
    way round. A scale that nobody gave fits the baseline, and clips that nobody gave are those of the loss.
    OptionError: a step of rollouts and of groups.
    """
    overrides = {name: value for name, value in overrides.items() if value not in (None, ())}
    base = dict(PRESETS[preset]) if preset else {}
    name = str(overrides.get("algorithm") or base.get("algorithm", "grpo"))
    if name != base.get("algorithm", name):
        own = (
            "baseline",
            "scale_rewards",
            "loss_type",
            *(CLIPS if any(clip in ALGORITHMS[name] for clip in CLIPS) else ()),
        )
        base = {key: value for key, value in base.items() if key not in own}
    if "batch" in overrides and "groups_per_step" in overrides:
        raise OptionError("--batch and --groups-per-step exclude each other: a step has either")
    for one, other in (("batch", "groups_per_step"), ("groups_per_step", "batch")):
        if one in overrides:
            base.pop(other, None)
    settings: dict[str, Any] = {**ALGORITHMS[name], **base}
    chosen = {**settings, **overrides}
    idle = idle_clips(chosen["loss_type"], chosen.get("mismatch", "clip"))  # an algorithm's or a preset's
    settings = {**{key: value for key, value in settings.items() if key not in idle}, **overrides, "algorithm": name}
    fitting = SCALES_OF.get(settings["baseline"], SCALES)
    if "scale_rewards" not in overrides and settings["scale_rewards"] not in fitting:
        settings["scale_rewards"] = fitting[0]
    return settings


def shown_defaults(name: str, default: Any) -> str:
    """The default of an option, and what algorithms and presets set instead, for the end of its help."""
    settings = {**ALGORITHMS, **PRESETS}
    others = {key: each[name] for key, each in settings.items() if each.get(name, default) != default}
    shown = [
        f"{key}: {_text(value)}" for key, value in {"default": default, **others}.items() if value not in (None, ())
    ]
    return f"  [{'; '.join(shown)}]" if shown else ""


def _text(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)
