"""Human rank: the share of a leaderboard's teams that a place leaves behind. Not covered: which place a score has (grading)."""

RULES = ("dojo", "mle-rl")


def human_rank(position: int, teams: int, rule: str) -> float:
    """The share of teams left behind, 0 to 1.

    dojo: (N - p + 1) / N, MLE-Dojo: 1 for the best, ties count as beaten. mle-rl: 1 - p / N, MLE-RL section 5, but
    never below 0 where a score is worse than every team's.
    """
    if rule == "dojo":
        return (teams - position + 1) / teams
    return max(0.0, 1 - position / teams)
