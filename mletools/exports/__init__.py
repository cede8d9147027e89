"""Writes tasks and rollouts in the formats of others.

    harbor     a folder a task, which agents and trainers of others read
    atif       a trajectory a rollout, in the Agent Trajectory Interchange Format
    chat       lines of messages for other trainers: conversations, prompts with completions, pairs of a group

Covered: what a record holds, in their words. Not covered: reading their results back.
"""
