"""Human rank: the share of leaderboard teams that a position beats. Not covered: the position of a score (grading)."""

RULES = ("dojo", "mle-rl")


def human_rank(position: int, teams: int, rule: str) -> float:
    """The share of teams beaten, 0 to 1.

    dojo: (N - p + 1) / N, MLE-Dojo: 1 for the best, ties count as beaten. mle-rl: 1 - p / N, MLE-RL section 5, with a
    minimum of 0 for scores worse than every team's.
    """
    return (teams - position + 1) / teams if rule == "dojo" else max(0.0, 1 - position / teams)
