"""From recorded rollouts to gradients, on TRL and PEFT: samples, advantages, SFT and GRPO runs, their checkpoints.

Importing it is cheap: torch and the rest are imported when a run needs them. Not covered: sampling, rewards.
"""
