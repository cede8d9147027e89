"""What the stand-in model of the rehearsal answers: replies by the prompt that stands in the context.

A reply is text; <<a|b|c>> is a choice of one token, as likely each, and <<digit>> one of ten digits. The programs fit
a decision tree to numbers and lengths of texts. They fail where the depth that they draw is 0, where there is no
train.csv, and where that lacks the column that is asked for. Nothing here depends on the task: the scores mean nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Replies(NamedTuple):
    """(weight, text) of each reply; `scored`: those after the score of a submission is in the context."""

    first: Sequence[tuple[float, str]]
    scored: Sequence[tuple[float, str]] = ()


PROGRAM = """import pandas as pd
from sklearn.tree import DecisionTreeClassifier

train, test, table = (pd.read_csv(f"input/{name}.csv") for name in ("train", "test", "sample_submission"))
goal = table.columns[1]
size = lambda cell: len(cell) if isinstance(cell, str) else cell
seen, new = (part[test.columns[1:]].map(size) for part in (train, test))
tree = DecisionTreeClassifier(max_depth=<<digit>>, max_features=0.5, random_state=<<digit>>)
table[goal] = tree.fit(seen, train[goal].astype(str)).predict(new)
table.to_csv("submission.csv", index=False)
"""
REPORT = """print("Validation score: 0.<<digit>>")
print("==== Start of Debug Information ====")
print("debug_time: 1")
print("estimated_time: 1")
print("==== End of Debug Information ====")
"""

# before what a policy says; its template tells it no more once the next question is there
THINKS = "<think>\nI draw again.\n</think>\n\n"
ANSWER = f"{THINKS}I fit a tree of a depth that I draw.\n\n```python\n{PROGRAM}```"
NO_ANSWER = "There is nothing to be done."
ONE_PROGRAM = Replies([(0.9, ANSWER), (0.1, NO_ANSWER)])
SEARCH = Replies(
    [(0.95, f"I fit a tree of a depth that I draw.\n\n```python\n{PROGRAM}{REPORT}```"), (0.05, NO_ANSWER)]
)

THOUGHT = "<think>I fit a tree of another depth.</think>\n"
REACT = f"{THOUGHT}<tool_call>\npython\n<code>\n{PROGRAM}</code>\n</tool_call>"
SCORE = """<think>I have it scored.</think>
<tool_call>
{"name": "Score", "arguments": {"competition_id": "it"}}
</tool_call>"""
FINAL = "<think>That is enough.</think>\n<answer>submission</answer>"

CODEACT = f"{THINKS}I try another tree.\n<execute_ipython>\n{PROGRAM}</execute_ipython>"
FINISH = f"{THINKS}I am done.\n<finish></finish>"
HELP = f"""{THINKS}I ask for help.
<seek_help>
PROBLEM_STATEMENT:
The tree is no better than the last one.

ATTEMPTS_SO_FAR:
- trees of some depths

GOAL:
A better score.
</seek_help>"""
MEMORY = f"{THINKS}I try a tree of some depth.\n<execute_code>\n{PROGRAM}</execute_code>"
INFORMATION = f"{THINKS}I look at the files.\n<request_info>files</request_info>"

IDEA = f"""{THINKS}ANALYSIS_ON_CURRENT_PROGRESS:
The tree has some depth.

ACTION:
Fit a tree of depth <<1|2|3|4|5|6|7|8|9>> and take the seed <<digit>>.

RATIONALE:
It may generalise better."""
TYPES = (
    "Data Preparation",
    "Feature Engineering",
    "Model Architecture",
    "Hyperparameter Tuning",
    "Model Training",
    "Others",
)
TYPED = [
    f'The depth is the main part.\n\n```json\n{{"rationale": "It is the depth.", "type": "{name}"}}\n```'
    for name in TYPES
]

ANALYSIS = """```json
{"task_type": "classification", "data_type": "tabular", "summary": "Labels are asked for.", "data": "Tables.",
 "submission": "A table.", "metric": "A score.", "longer_limit": false}
```"""
CHALLENGES = """```json
[{"challenge": "The depth <<digit>> may be wrong.", "reason": "It was a guess.", "origin": "scenario"},
 {"challenge": "The seed <<digit>> may be unlucky.", "reason": "It was drawn.", "origin": "feedback"}]
```"""
HYPOTHESES = """```json
[{"hypothesis": "A tree of depth <<digit>> scores better.", "component": "Model", "challenge": 0,
  "scores": {"alignment": 5, "impact": <<3|4|5|6|7|8|9>>, "novelty": 5, "feasibility": 6, "risk_reward": 5}},
 {"hypothesis": "The seed <<digit>><<digit>> is luckier.", "challenge": 0, "component": "Workflow",
  "scores": {"novelty": 2, "alignment": 7, "feasibility": 8, "risk_reward": 4, "impact": <<3|4|5|6|7|8|9>>}}]
```"""
HYPOTHESIS = '```json\n{"hypothesis": "A tree of depth <<digit>> does better.", "component": "Model"}\n```'
SELECTED = '```json\n{"action": "select", "candidate": 0, "hypothesis": null, "component": null}\n```'
CREATED = """```json
{"action": "create", "candidate": null, "hypothesis": "A tree of depth <<digit>> wins.", "component": "Model"}
```"""
LESSON = '```json\n{"supported": <<true|false>>, "lesson": "A depth of <<digit>> makes a difference here."}\n```'
ACCEPTED = '```json\n{"why": "It trains a tree and predicts.", "acceptable": true}\n```'
REFUSED = '```json\n{"why": "The depth was not justified.", "acceptable": false}\n```'
CHOSEN = '```json\n{"why": "It has the best score.", "experiment": 1}\n```'


# SandMLE's strategist gets as far as the specification, whose number of samples the prompt draws
DNA = """```json
{"modality": "tabular", "problem": "regression", "inputs": [{"name": "feature_1", "nature": "a number", "count": 2}],
 "target": {"kind": "number", "cardinality": "many", "distribution": "one mode"}, "imbalance": false,
 "metric_family": "absolute error", "size": {"rows": 120, "files": 4, "meaning": "small"}}
```"""
TRADES = "sawmill", "orchard", "harbour", "dairy", "quarry"
SCENES = [
    f'{{"domain": "{trade}", "scenario": "The {trade} keeps a record.", "justification": "A {trade} has numbers."}}'
    for trade in TRADES
]
SCENARIOS = f"```json\n[{', '.join(SCENES)}]\n```"
MUTATIONS = """```json
[{"type": "label noise", "share": 0.05}, {"type": "missing values", "share": 0.1}, {"type": "outliers", "count": 3}]
```"""
SPECIFICATION = '```json\n{"name": "A task of the stand-in", "n_samples": 1<<digit>><<digit>>}\n```'


def only(text: str) -> Replies:
    return Replies([(1.0, text)])


# The prompts that the model recognises. Where several stand in a context, the first of these counts.
REPLIES: dict[str, Replies] = {
    "search-analysis": only(ANALYSIS),
    "search-choose": only(CHOSEN),
    "search-check": Replies([(0.9, ACCEPTED), (0.1, REFUSED)]),
    "search-select": Replies([(0.7, SELECTED), (0.3, CREATED)]),
    "search-lesson": only(LESSON),
    "search-hypotheses": only(HYPOTHESES),
    "search-challenges": only(CHALLENGES),
    "search-idea": Replies([(0.9, HYPOTHESIS), (0.1, NO_ANSWER)]),
    **{f"search-{name}": SEARCH for name in ("fix", "debug", "merge", "crossover", "improve", "draft")},
    "task-dna": only(DNA),
    "task-scenarios": only(SCENARIOS),
    "task-mutations": only(MUTATIONS),
    "task-specification": only(SPECIFICATION),
    "idea-type": Replies([(1.0, text) for text in TYPED]),
    "ideator": Replies([(0.9, IDEA), (0.1, NO_ANSWER)]),
    "implementer": ONE_PROGRAM,
    "improve": ONE_PROGRAM,
    "single": ONE_PROGRAM,
    "react-system": Replies([(0.95, REACT), (0.05, NO_ANSWER)], [(0.45, REACT), (0.25, SCORE), (0.3, FINAL)]),
    "codeact-system": Replies([(0.95, CODEACT), (0.05, NO_ANSWER)], [(0.4, CODEACT), (0.35, HELP), (0.25, FINISH)]),
    "memory-system": Replies([(0.7, MEMORY), (0.2, INFORMATION), (0.1, NO_ANSWER)], [(1.0, MEMORY)]),
}
# parts of the scaffolds' sentences on a submission, of which a context with a score has one
SCORED = ("csv is valid.", "csv was written (")
