"""Where tasks come from: hidden rules, real tables, a language model in four roles, and folders of others.

sources     what --source of mle-gen-task names
make        a task from a source, an index and a seed: make_task
procedural  worlds with a hidden rule, their files, baselines and descriptions
roles       tasks that a language model writes
importing   tasks out of what others have prepared: candidates, import_task
validation  some training rows held out, for scores that agents are told
soundness   the checks that every task is put to
folder      a task's folder on disk and the digests over it

Importing this loads nothing. Not covered: agents, whose standard solutions reach these modules as arguments (soundness.Trials).
"""
