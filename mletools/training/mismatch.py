"""Between the policy that sampled a token and the one that trains on it: weights that correct, and numbers that tell.

The two differ by the engines' arithmetic, by quantisation and by the updates in between. A mode is one of MODES:

- `clip`: the ratio trainer / sampler goes into the loss, which clips it (PPO with the sampler as the old policy).
- `token-mask`: each token's loss is weighted by its ratio; a token whose probability has moved by more than the bound, to
  where its advantage pushes it, is left out (DPPO, Qi et al. 2026, binary total variation; prime-rl's default).
- `sequence-mask`: rollouts whose ratios' geometric mean is beyond the bound, or below its inverse, are left out; the tokens of
  others are weighted as with token-truncate.
- `token-truncate`, `sequence-truncate`: weighted by the ratio, of a token or of the whole rollout, brought down to the bound
  (Yao et al. 2025).
- `off`: the ratio is 1.

Whatever is left out still counts in the divisors of the loss, as in TRL and prime-rl.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

MODES = ("clip", "token-mask", "sequence-mask", "token-truncate", "sequence-truncate", "off")
TRUNCATED = 3.0  # TRL's default
# token-mask: prime-rl's default. sequence-mask: 0.1 nat a token, some ten times what an update moves a policy by
BOUNDS = {"token-mask": 0.2, "sequence-mask": 1.1, "token-truncate": TRUNCATED, "sequence-truncate": TRUNCATED}
LARGEST = 80.0  # of a log-ratio in the statistics: its exponential is still a number, and so is its square
SUMS = ("entropy", "k3", "ratio", "squared", "clipped", "masked")


@dataclass(frozen=True)
class Correction:
    """What a step makes of the sampler's probabilities. bound: None for the mode's of BOUNDS.

    largest_ratio: a larger ratio of a token ends the run before the step is taken. entropy_coef: of the loss.
    """

    mode: str = "token-mask"
    bound: float | None = None
    largest_ratio: float | None = None
    entropy_coef: float = 0.0

    @property
    def weighs(self) -> bool:
        return self.mode in BOUNDS

    def weights(self, log_ratio: Any, logps: Any, mask: Any, advantages: Any) -> tuple[Any, Any]:
        """(what the tokens' losses are multiplied with, where that was brought down to a bound), shape (R, C).

        log_ratio: trainer less sampler, 0 where `mask` is; logps: the trainer's; all (R, C), without gradients.
        advantages: (R,). Of a mode that `weighs`.
        """
        import torch

        bound = BOUNDS[self.mode] if self.bound is None else self.bound
        ratio, highest = log_ratio.exp(), bound
        if self.mode == "sequence-truncate":
            ratio = log_ratio.sum(dim=1, keepdim=True).exp().expand_as(log_ratio)
        elif self.mode == "sequence-mask":
            mean = log_ratio.sum(dim=1, keepdim=True) / mask.sum(dim=1, keepdim=True).clamp(min=1)
            ratio, highest = ratio.masked_fill(mean.abs() > math.log(bound), 0.0), TRUNCATED
        elif self.mode == "token-mask":
            moved = logps.exp() - (logps - log_ratio).exp()
            away = torch.where(advantages.unsqueeze(1) > 0, moved, -moved) > bound
            ratio, highest = ratio.masked_fill(away, 0.0), math.inf
        return ratio.clamp(max=highest), ratio > highest


def clipped(
    log_ratio: "torch.Tensor", mask: "torch.Tensor", advantages: "torch.Tensor", loss_type: str, level: str,
    low: float, high: float, delta: float | None = None,
) -> "torch.Tensor":  # fmt: skip
    """Which tokens' ratio the loss of mode `clip` has brought to a bound, shape (R, C).

    log_ratio, mask: (R, C); advantages: (R,). level: `token`, or `sequence` for one ratio a rollout, its tokens' geometric
    mean. low, high: TRL's epsilons, of which cispo takes the higher as the bound itself, whatever the advantage. sapo's
    loss has no bound.
    """
    import torch

    if loss_type == "sapo":
        return torch.zeros_like(mask, dtype=torch.bool)
    if level == "sequence":
        log_ratio = (
            (log_ratio * mask).sum(dim=1, keepdim=True) / mask.sum(dim=1, keepdim=True).clamp(min=1)
        ).expand_as(mask)
    if loss_type == "cispo":
        return log_ratio > math.log(high)
    down, up = advantages.unsqueeze(1) < 0, advantages.unsqueeze(1) > 0
    most = 1 + high if delta is None else min(delta, 1 + high)
    beyond = (log_ratio < math.log1p(-low)) & down | (log_ratio > math.log(most)) & up
    return beyond if delta is None else beyond | (log_ratio > math.log(max(delta, 1 + high))) & down


def terms(log_ratio: "torch.Tensor", mask: "torch.Tensor") -> "dict[str, torch.Tensor]":
    """Of each token, in float64: the ratio, its square, and k3 = ratio - 1 - log ratio (Schulman 2020); 0 where `mask` is."""
    bounded = log_ratio.double().clamp(-LARGEST, LARGEST)
    ratio = bounded.exp()
    return {"k3": (ratio - 1 - bounded) * mask, "ratio": ratio * mask, "squared": ratio**2 * mask}


def effective_sample_size(ratio: float, squared: float, tokens: int) -> float:
    """Share of `tokens` that as many of equal weight would be worth: (sum of ratios)^2 / (tokens x sum of squares)."""
    return ratio**2 / (tokens * squared) if tokens and squared else 1.0
