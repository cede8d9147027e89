"""How an agent works on a task: a table of scaffolds. They import records and prompts; models, sandboxes and graders reach
them as arguments.

`single` turns tasks into questions and replies into records. The others work in turns: each module has SETTINGS, the
paper's bounds for training, EVALUATION, what differs in evaluation, and work(job, place, tape), which yields the rollout
records of one job.
"""

SCAFFOLDS = {
    "single": "mletools.scaffolds.single",
    "improve": "mletools.scaffolds.improve",
    "react": "mletools.scaffolds.react",
    "codeact": "mletools.scaffolds.codeact",
    "memory": "mletools.scaffolds.memory",
    "idea": "mletools.scaffolds.idea",
    "search": "mletools.scaffolds.search",
}
IN_TURNS = tuple(name for name in SCAFFOLDS if name != "single")
