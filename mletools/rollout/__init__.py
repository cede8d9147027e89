"""Playing rollouts: the runner of jobs, the environment of an episode, models with their costs, rollouts without an end."""
