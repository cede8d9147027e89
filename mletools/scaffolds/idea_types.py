"""What kind of idea each one of an ideator's is, and whether the work was better for it.

MLE-Ideator, appendices C and E. Covered: where a rollout's ideas stand, six classes, a table of words that guesses the
class offline, reading a model's answer, the effect of an idea. Not covered: asking the model (rollout.idea_judges); ideas in
another language than English.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import prompts
from .answers import after_thinking
from .calls import sections

TYPES = (
    "Data Preparation",
    "Feature Engineering",
    "Model Architecture",
    "Hyperparameter Tuning",
    "Model Training",
    "Others",
)

# The table: for each class the words that say it (2 points each) and those that hint at it (1 point), as regular
# expressions that begin at the beginning of a word, over text in small letters without hyphens and underscores.
WORDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Data Preparation": (
        (
            r"missing", r"imput", r"outlier", r"duplicat", r"dedup", r"augment", r"mixup", r"cutmix", r"oversampl",
            r"undersampl", r"resampl", r"smote", r"clean", r"mislabel", r"label noise", r"noisy label", r"pseudo label",
            r"back translat", r"winsor", r"external data", r"(?:drop|remov|discard|throw)\w* (?:\w+ ){0,3}(?:rows|records|samples)",
            r"fillna", r"interpolat", r"spelling", r"typing errors", r"exclude", r"measurement errors", r"unify", r"balance the", r"background noise", r"corrupted", r"errors in the data",
        ),
        (
            r"nan\b", r"null value", r"flip", r"crop", r"rotat", r"minority", r"imbalance", r"contradict", r"corrupt",
            r"synthetic", r"html", r"whitespace", r"lower ?cas", r"denois", r"preprocess", r"labels", r"records", r"strings?\b",
            r"more data", r"percentile", r"stop ?words", r"data types?\b", r"dtypes?\b", r"units\b", r"resiz", r"repeating",
            r"rare", r"noise\b", r"gaps?\b", r"mask", r"raw data", r"throw out", r"discard", r"cap\b", r"capping", r"broken",
            r"merge", r"empty", r"brightness", r"paraphras", r"translat",
        ),
    ),
    "Feature Engineering": (
        (
            r"features?\b", r"(?<!auto )encod(?:e|ed|ing)\b", r"one hot", r"interaction", r"ratios?\b", r"polynomial",
            r"lags?\b", r"lagged", r"rolling", r"tf ?idf", r"n ?grams?\b", r"bigram", r"log transform", r"binning",
            r"pca\b", r"principal component", r"mutual information", r"permutation importance", r"mfcc", r"spectrogram",
        ),
        (
            r"standardi[sz]", r"(?<!batch )(?<!layer )normali[sz]", r"scaler", r"scaling", r"deriv", r"extract",
            r"aggregat", r"group ?by", r"timestamp", r"weekday", r"day of", r"holiday", r"importance",
            r"correlat", r"skew", r"categor", r"bag of words", r"length", r"count", r"fourier", r"select", r"distance",
            r"vectors\b", r"embedding", r"predictive", r"comput", r"parse", r"hour", r"month", r"sine\b", r"per\b", r"differences",
            r"domain", r"chi squared", r"number of words", r"terms\b", r"new columns?\b", r"append",
            r"fingerprint", r"factori[sz]e", r"predictors?\b", r"multipl", r"squared? (?!error)", r"coefficient", r"informative",
            r"inputs?\b", r"constant columns", r"median income", r"cluster",
        ),
    ),
    "Model Architecture": (
        (
            r"lightgbm", r"lgbm", r"xgboost", r"catboost", r"random forest", r"extra trees", r"neural network",
            r"efficientnet", r"resnet", r"convnext", r"swin", r"vit\b", r"u ?net\b", r"\w*bert[aw]?\b", r"transformers?\b",
            r"lstm", r"gru\b", r"rnn", r"cnn", r"mlp\b", r"pre ?trained", r"transfer learning", r"backbone", r"ensembl",
            r"stack", r"blend", r"meta learner", r"architecture", r"(?:hidden|dense|dropout|convolution\w*) layer",
            r"residual", r"hist ?gradient", r"random field", r"graph neural", r"\w+boost(?:classifier|regressor)", r"two stage",
        ),
        (
            r"boosted", r"boosting", r"gradient boost", r"forest", r"switch", r"replace", r"layers?\b", r"attention", r"dropout", r"batch norm",
            r"fine tun", r"support vector", r"svm\b", r"logistic", r"ridge", r"linear (?:model|regression)", r"voting",
            r"nearest neighbo", r"gaussian process", r"naive bayes", r"kernel", r"classifier", r"regressor", r"multi (?:output|task)",
            r"average the (?:probabilities|predictions) of", r"skip connection", r"network", r"combine", r"in place of", r"classification head", r"bidirectional", r"deeper", r"wider", r"shallow", r"convolution",
        ),
    ),
    "Hyperparameter Tuning": (
        (
            r"hyper ?parameter", r"optuna", r"hyperopt", r"bayesian (?:optimi[sz]|search)", r"m(?:in|ax) df", r"grid ?search",
            r"random(?:i[sz]ed)? ?search", r"(?<!fine )tun(?:e|ing)\b", r"max depth", r"num leaves", r"min child",
            r"n estimators", r"learning rate (?!schedul|warm|decay)", r"subsample", r"colsample", r"reg (?:alpha|lambda)",
            r"weight decay", r"trials", r"eta\b", r"max features", r"min samples", r"number of (?:boosting|trees|neighbo|leaves|estimators|clusters|components)",
        ),
        (
            r"defaults?\b", r"batch size", r"grid\b", r"parameters?\b", r"best combination", r"better \w{1,8} for", r"shrinkage", r"halve", r"double", r"width", r"knob", r"reduce the", r"values of", r"rates of", r"try \w+ (?:values|rates)", r"regulari[sz]ation", r"depth", r"sweep", r"alpha\b", r"gamma\b",
            r"lambda\b", r"search", r"threshold", r"increase", r"lower the", r"raise", r"best (?:value|setting)",
            r"learning rate",
        ),
    ),
    "Model Training": (
        (
            r"loss function", r"focal", r"huber", r"cross entropy", r"objective", r"label smoothing", r"class weight",
            r"sample weight", r"cross validat", r"k ?fold", r"\w+ folds?\b", r"early stopping", r"schedul", r"warm ?up",
            r"cosine", r"one ?cycle", r"optimi[sz]er", r"adamw?\b", r"sgd\b", r"mixed precision", r"gradient (?:clip|accum)",
            r"leak", r"freeze", r"unfreeze", r"moving average of the weights", r"language model(?:l?ing)", r"self supervis", r"split by", r"mse\b", r"seeds\b",
        ),
        (
            r"loss\b", r"epochs?\b", r"patience", r"checkpoint", r"metric", r"evaluat", r"validation", r"stratif",
            r"train (?:for|with|on|longer)", r"distil", r"freez", r"calibrat", r"folds\b", r"weight the", r"validate\b",
            r"held out", r"direct\w* optimi", r"optimi[sz]e\b", r"learned cut", r"kappa", r"auc\b", r"gradients?\b", r"best weights",
            r"on all\b", r"all of the training", r"future", r"log ?loss", r"monitor", r"unlabelled", r"weights of",
        ),
    ),
    "Others": (
        (
            r"submission", r"keyerror", r"exception", r"traceback", r"crash", r"bugs?\b", r"debug", r"time ?limit",
            r"timeout", r"out of memory", r"memory", r"read the (?:description|task)", r"inspect", r"in the background", r"post ?process",
            r"clip the pred", r"hand (?:it )?in", r"submit", r"grader", r"undo", r"revert", r"go back",
        ),
        (
            r"errors? message", r"fix", r"print", r"look at", r"save", r"file", r"install", r"path\b", r"script", r"round the",
            r"stop\b", r"output", r"header", r"chunk", r"shapes", r"version", r"check", r"order of", r"fails?\b",
        ),
    ),
}  # fmt: skip
IN_ACTION, IN_RATIONALE = 3, 1  # what a point is worth by where the word stands
LOOKED_AT = 4000  # characters of each; more of them are programs

# A pattern that begins with its letters is searched 50 times as fast as one that begins with a word's boundary, which
# `_found` looks at afterwards; but not one with a run of letters, which would take the square of a long word.
_PATTERNS = {
    kind: [
        (re.compile(rf"\b(?:{word})" if r"\w" in word else word), points)
        for words, points in zip(lists, (2, 1), strict=True)
        for word in words
    ]
    for kind, lists in WORDS.items()
}
# What an idea turns away from says nothing of what it turns to; bounded, for a text may be anything.
_LEFT = re.compile(
    r"\b(?:instead of|rather than)\b[^.;,]{0,120}"
    r"|\b(?<=replace)\b [^.;]{0,80}?(?= (?:by|with)\b)"
    r"|\b(?<=switch) from\b[^.;]{0,80}?(?= to\b)"
)


@dataclass(frozen=True)
class Posed:
    """An idea of a rollout: its turn, its items, the messages before it, and whether it was effective (None: unknown)."""

    turn: int
    idea: Mapping[str, str]
    messages: Sequence[Mapping[str, Any]]
    effective: bool | None


def by_words(idea: Mapping[str, str]) -> tuple[str, str]:
    """(class, the words that told) by the table: points in the action count threefold, a word counts once, and only
    the first LOOKED_AT characters of each item are read.

    Of two with as many points the one whose word stands first in the action, then the first of TYPES. No word: Others.
    """
    texts = {name: _plain(idea.get(name, "")) for name in ("action", "rationale")}
    best: tuple[int, int, str, str] | None = None
    for kind in TYPES:
        score, first, told = 0, len(texts["action"]), []
        for name, worth in (("action", IN_ACTION), ("rationale", IN_RATIONALE)):
            matches = [(match, points) for words, points in _PATTERNS[kind] if (match := _found(words, texts[name]))]
            score += worth * sum(points for _, points in matches)
            if matches:
                told.append(f"{name.upper()}: {', '.join(match.group() for match, _ in matches)}")
            if matches and name == "action":
                first = min(match.start() for match, _ in matches)
        if score and (best is None or (-score, first) < best[:2]):
            best = (-score, first, kind, "; ".join(told))
    return (best[2], best[3]) if best else ("Others", "no word of the table")


def _found(words: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The first place that begins a word."""
    match = words.search(text)
    while match and match.start() and (text[match.start() - 1].isalnum() or text[match.start() - 1] == "_"):
        match = words.search(text, match.start() + 1)
    return match


def _plain(text: str) -> str:
    return _LEFT.sub(" ", " ".join(text[:LOOKED_AT].lower().replace("-", " ").replace("_", " ").split()))


def read_answer(text: str) -> tuple[str | None, str]:
    """(class, rationale) of a model's answer; the class is None where it cannot be read, and the rationale says why."""
    try:
        fields = sections(after_thinking(text), ("type", "rationale"))
    except ValueError as error:
        return None, f"not in the format: {error}"
    named = " ".join(fields["type"].strip("\"'*`. \n").lower().split())
    kind = next((each for each in TYPES if each.lower() == named), None)
    return (kind, fields["rationale"]) if kind else (None, f"no such class: {named[:80]!r}")


def posed(rollout: Mapping[str, Any]) -> Iterator[Posed]:
    """The ideas of a rollout in order: those that its agent was helped with, or the one that it is about."""
    turns, messages = rollout.get("turns", []), rollout["messages"]
    if rollout.get("idea"):
        at = turns[0].get("message", len(messages)) if turns else len(messages)
        yield Posed(0, rollout["idea"], _history(messages[:at]), _improved(rollout))
    for number, turn in enumerate(turns):
        idea = turn.get("help", {}).get("idea")
        if idea:
            upto = turn.get("message", len(messages) - 1) + 1
            yield Posed(number, idea, messages[:upto], _bettered(turns, number, _lower(rollout)))


def _history(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What an ideator was shown, without what it was told to do, which is not the classifier's business."""
    head, _, tail = prompts.text("ideator").partition("{{trajectory}}")
    before = head.rpartition("}}")[2]
    return [
        {
            **message,
            "content": message["content"].partition(before)[2].removesuffix(tail.rstrip()) or message["content"],
        }
        for message in messages
    ]


def _bettered(turns: Sequence[Mapping[str, Any]], at: int, lower: bool) -> bool | None:
    """Whether the next submission after a turn has a better test score than the last valid one up to it.

    Any valid one is better than none, and an invalid one is not better; None where no submission followed. Two ideas
    before the same submission share its verdict.
    """
    graded = [(number, turn["grade"]) for number, turn in enumerate(turns) if turn.get("grade")]
    after = next((grade for number, grade in graded if number > at), None)
    before = [grade["score"] for number, grade in graded if number <= at and grade.get("score") is not None]
    return None if after is None else _better(after.get("score"), before[-1] if before else None, lower)


def _improved(rollout: Mapping[str, Any]) -> bool | None:
    """By the reward of mle-grade --reward improvement, else by the grade and the state's score; None without a grade."""
    grade = rollout.get("grade")
    if grade is None:
        return None
    if grade["reward"].get("rule") == "improvement" and rollout.get("reward") is not None:
        return bool(rollout["reward"] > 0)
    return _better(grade["score"], rollout.get("state", {}).get("score"), _lower(rollout))


def _better(score: float | None, before: float | None, lower: bool) -> bool:
    if score is None or before is None:
        return score is not None
    return score < before if lower else score > before


def _lower(rollout: Mapping[str, Any]) -> bool:
    return bool(rollout["task"]["metric"]["lower_is_better"])
