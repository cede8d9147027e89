"""A task record for prompts, with a word in it that no prompt may show."""

from typing import Any

CANARY = "canary-7411"

TASK: dict[str, Any] = {
    "kind": "task", "version": 1, "id": "wine-1", "lineage": [], "name": "wine", "modality": "tabular",
    "description": "# Wine\n\nWhich grower?\n", "problem": "multiclass_classification",
    "data": {"dir": "tasks/wine-1", "public": ["test.csv", "train.csv"], "digest": CANARY, "private_digest": CANARY},
    "submission": {"id": ["id"], "target": ["grower"], "parse": "label", "labels": ["a", "b"], "rows": 7},
    "metric": {"name": "f1_macro", "params": {}, "lower_is_better": False},
    "answers": f"private/{CANARY}.csv",
    "thresholds": {"median": 0.7411, "bronze": 0.7412, "silver": 0.7413, "gold": 0.7414},
    "provenance": {
        "source": CANARY, "seed": 7411, "hidden_rule": CANARY, "baselines": [{"name": CANARY, "score": 0.7415}],
        "sanity": {CANARY: CANARY},
    },
}  # fmt: skip
