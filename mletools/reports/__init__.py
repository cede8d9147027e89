"""What a set of graded rollouts amounts to. First version: one table."""
