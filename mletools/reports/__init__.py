"""What graded rollouts amount to: their repeats, statistics over them, tables, and two sets compared."""
