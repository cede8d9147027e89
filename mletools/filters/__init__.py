"""Which rollouts are worth learning from. Each filter names its reason for every rollout that it drops."""

from .code import normal_form
from .groups import FilterOptions, Selection

__all__ = ["FilterOptions", "Selection", "normal_form"]
