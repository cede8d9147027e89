"""When two tasks are nearly the same: a short name of what a task is about, without the numbers.

Not covered: tasks whose provenance tells neither a scenario nor a rule; of these only equal data are alike.
"""

from collections.abc import Mapping

from ..base.ids import content_id
from ..records.task import Task

# What of the DNA makes a task another one; sizes, shares and noise do not.
TELLING = ("modality", "problem", "metric", "media", "families", "used")


def likeness(task: Task) -> str:
    """The same text for tasks of the same DNA, rule and scenario: which terms over which factors, not their weights.

    Of a task without these, the digest of its data.
    """
    provenance = task["provenance"]
    dna, scenario = provenance.get("dna"), provenance.get("scenario")
    if not isinstance(dna, Mapping) or scenario is None:
        return str(task["data"]["digest"])
    told = {
        name: sorted(map(str, value)) if isinstance(value, list) else value
        for name in TELLING
        if (value := dna.get(name))
    }
    rule = "" if "families" in told else str(provenance.get("hidden_rule", ""))
    return content_id("likeness", scenario if isinstance(scenario, str) else dict(scenario), told, rule)
