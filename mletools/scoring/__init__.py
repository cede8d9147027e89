"""Scores what others wrote, which takes a sandbox: metrics that are code, submissions, checks and trials of tasks."""
