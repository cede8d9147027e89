"""Which rollouts and steps are worth learning from. Each filter names its reason for every rollout that it drops."""

from .code import normal_form
from .groups import Decision, Selection
from .options import FilterOptions
from .remembered import Remembered

__all__ = ["Decision", "FilterOptions", "Remembered", "Selection", "normal_form"]
