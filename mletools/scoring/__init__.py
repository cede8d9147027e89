"""Scores what others wrote: metrics that are code in a sandbox, one submission, checks of tasks."""
