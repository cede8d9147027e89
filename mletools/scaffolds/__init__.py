"""How an agent works on a task: a table of scaffolds, each a module that turns tasks into questions and replies into
records. They import records and prompts; models, sandboxes and graders reach them as arguments.
"""

SCAFFOLDS = {"single": "mletools.scaffolds.single"}
