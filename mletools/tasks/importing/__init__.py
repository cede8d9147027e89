"""Other people's folders become tasks: prepared competitions, bundles, plain folders, tables.

`layouts` tells what a folder is, `task.import_task` makes a task of it; between them `prepared` (MLE-bench, MLE-Dojo),
`bundle` (SandMLE), `kaggle` and `own_table` know what goes for each kind. What is known of public competitions is
`competitions.jsonl`.
"""
