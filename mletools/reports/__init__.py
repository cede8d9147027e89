"""Reports on graded rollouts: repeats, statistics, tables and comparisons of two sets."""
