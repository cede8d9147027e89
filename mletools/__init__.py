"""A command-line gym for machine-learning-engineering agents: JSON Lines between small commands."""

__version__ = "0.1.0"
