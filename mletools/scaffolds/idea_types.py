"""The types of an ideator's ideas, and whether each improved the work.

MLE-Ideator, appendices C and E. Covered: the ideas of a rollout, six types, a table of words that classifies offline,
reading a model's answer, the effect of an idea. Not covered: asking the model (rollout.idea_judges); ideas in other
languages than English.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from .. import prompts
from ..records.rollout import IdeaCategory, Message, Rollout, Turn
from .search.replies import fields_in

TYPES: tuple[IdeaCategory, ...] = get_args(IdeaCategory)

# For each type its strong words (2 points each) and weak words (1 point), separated by ", ": regular expressions that start
# at the start of a word, for lower-case text without hyphens and underscores.
WORDS: dict[IdeaCategory, tuple[str, str]] = {
    "Data Preparation": (
        r"""missing, imput, outlier, duplicat, dedup, augment, mixup, cutmix, oversampl, undersampl, resampl, smote, clean,
        mislabel, label noise, noisy label, pseudo label, back translat, winsor, external data,
        (?:drop|remov|discard|throw)\w* (?:\w+ ){0,3}(?:rows|records|samples), fillna, interpolat, spelling,
        typing errors, exclude, measurement errors, unify, balance the, background noise, corrupted, errors in the data""",
        r"""nan\b, null value, flip, crop, rotat, minority, imbalance, contradict, corrupt, synthetic, html, whitespace,
        lower ?cas, denois, preprocess, labels, records, strings?\b, more data, percentile, stop ?words, data types?\b,
        dtypes?\b, units\b, resiz, repeating, rare, noise\b, gaps?\b, mask, raw data, throw out, discard, cap\b,
        capping, broken, merge, empty, brightness, paraphras, translat""",
    ),
    "Feature Engineering": (
        r"""features?\b, (?<!auto )encod(?:e|ed|ing)\b, one hot, interaction, ratios?\b, polynomial, lags?\b, lagged,
        rolling, tf ?idf, n ?grams?\b, bigram, log transform, binning, pca\b, principal component, mutual information,
        permutation importance, mfcc, spectrogram""",
        r"""standardi[sz], (?<!batch )(?<!layer )normali[sz], scaler, scaling, deriv, extract, aggregat, group ?by,
        timestamp, weekday, day of, holiday, importance, correlat, skew, categor, bag of words, length, count, fourier,
        select, distance, vectors\b, embedding, predictive, comput, parse, hour, month, sine\b, per\b, differences,
        domain, chi squared, number of words, terms\b, new columns?\b, append, fingerprint, factori[sz]e, predictors?\b,
        multipl, squared? (?!error), coefficient, informative, inputs?\b, constant columns, median income, cluster""",
    ),
    "Model Architecture": (
        r"""lightgbm, lgbm, xgboost, catboost, random forest, extra trees, neural network, efficientnet, resnet, convnext,
        swin, vit\b, u ?net\b, \w*bert[aw]?\b, transformers?\b, lstm, gru\b, rnn, cnn, mlp\b, pre ?trained,
        transfer learning, backbone, ensembl, stack, blend, meta learner, architecture,
        (?:hidden|dense|dropout|convolution\w*) layer, residual, hist ?gradient, random field, graph neural,
        \w+boost(?:classifier|regressor), two stage""",
        r"""boosted, boosting, gradient boost, forest, switch, replace, layers?\b, attention, dropout, batch norm, fine tun,
        support vector, svm\b, logistic, ridge, linear (?:model|regression), voting, nearest neighbo, gaussian process,
        naive bayes, kernel, classifier, regressor, multi (?:output|task), average the (?:probabilities|predictions) of,
        skip connection, network, combine, in place of, classification head, bidirectional, deeper, wider, shallow,
        convolution""",
    ),
    "Hyperparameter Tuning": (
        r"""hyper ?parameter, optuna, hyperopt, bayesian (?:optimi[sz]|search), m(?:in|ax) df, grid ?search,
        random(?:i[sz]ed)? ?search, (?<!fine )tun(?:e|ing)\b, max depth, num leaves, min child, n estimators,
        learning rate (?!schedul|warm|decay), subsample, colsample, reg (?:alpha|lambda), weight decay, trials, eta\b,
        max features, min samples, number of (?:boosting|trees|neighbo|leaves|estimators|clusters|components)""",
        r"""defaults?\b, batch size, grid\b, parameters?\b, best combination, better \w{1,8} for, shrinkage, halve, double,
        width, knob, reduce the, values of, rates of, try \w+ (?:values|rates), regulari[sz]ation, depth, sweep,
        alpha\b, gamma\b, lambda\b, search, threshold, increase, lower the, raise, best (?:value|setting),
        learning rate""",
    ),
    "Model Training": (
        r"""loss function, focal, huber, cross entropy, objective, label smoothing, class weight, sample weight,
        cross validat, k ?fold, \w+ folds?\b, early stopping, schedul, warm ?up, cosine, one ?cycle, optimi[sz]er,
        adamw?\b, sgd\b, mixed precision, gradient (?:clip|accum), leak, freeze, unfreeze,
        moving average of the weights, language model(?:l?ing), self supervis, split by, mse\b, seeds\b""",
        r"""loss\b, epochs?\b, patience, checkpoint, metric, evaluat, validation, stratif, train (?:for|with|on|longer),
        distil, freez, calibrat, folds\b, weight the, validate\b, held out, direct\w* optimi, optimi[sz]e\b,
        learned cut, kappa, auc\b, gradients?\b, best weights, on all\b, all of the training, future, log ?loss,
        monitor, unlabelled, weights of""",
    ),
    "Others": (
        r"""submission, keyerror, exception, traceback, crash, bugs?\b, debug, time ?limit, timeout, out of memory, memory,
        read the (?:description|task), inspect, in the background, post ?process, clip the pred, hand (?:it )?in,
        submit, grader, undo, revert, go back""",
        r"""errors? message, fix, print, look at, save, file, install, path\b, script, round the, stop\b, output, header,
        chunk, shapes, version, check, order of, fails?\b""",
    ),
}
IN_ACTION, IN_RATIONALE = 3, 1  # weights of points
LOOKED_AT = 4000  # characters of each item; longer items contain programs

# A pattern that starts with literal letters is searched 50 times as fast as one that starts with \b; `_first_match` checks
# the word boundary afterwards. A pattern with \w+ or \w* needs the \b: without it a long word takes quadratic time.
_PATTERNS = {
    kind: [
        (re.compile(rf"\b(?:{word})" if r"\w" in word else word), points)
        for words, points in zip(lists, (2, 1), strict=True)
        for word in " ".join(words.split()).split(", ")
    ]
    for kind, lists in WORDS.items()
}
# The rejected alternative in an idea is no evidence of its type. Repetition is bounded, because texts are arbitrary.
_LEFT = re.compile(
    r"\b(?:instead of|rather than)\b[^.;,]{0,120}"
    r"|\b(?<=replace)\b [^.;]{0,80}?(?= (?:by|with)\b)"
    r"|\b(?<=switch) from\b[^.;]{0,80}?(?= to\b)"
)


@dataclass(frozen=True)
class Posed:
    """An idea of a rollout: its turn, its items, the messages before it, and its effect (None: unknown)."""

    turn: int
    idea: Mapping[str, str]
    messages: Sequence[Message]
    effective: bool | None


def by_words(idea: Mapping[str, str]) -> tuple[IdeaCategory, str]:
    """(type, matching words) by the table. Points in the action count threefold and each word counts once; only the
    first LOOKED_AT characters of each item are read.

    Ties: the type whose word comes first in the action, then the order of TYPES. Without any word: Others.
    """
    texts = {name: _plain(idea.get(name, "")) for name in ("action", "rationale")}
    best: tuple[int, int, IdeaCategory, str] | None = None
    for kind in TYPES:
        score, first, evidence = 0, len(texts["action"]), []
        for name, weight in (("action", IN_ACTION), ("rationale", IN_RATIONALE)):
            matches = [
                (match, points) for words, points in _PATTERNS[kind] if (match := _first_match(words, texts[name]))
            ]
            score += weight * sum(points for _, points in matches)
            if matches:
                evidence.append(f"{name.upper()}: {', '.join(match.group() for match, _ in matches)}")
            if matches and name == "action":
                first = min(match.start() for match, _ in matches)
        if score and (best is None or (-score, first) < best[:2]):
            best = (-score, first, kind, "; ".join(evidence))
    return (best[2], best[3]) if best else ("Others", "no word of the table")


def _first_match(words: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The first match at the start of a word."""
    match = words.search(text)
    while match and match.start() and (text[match.start() - 1].isalnum() or text[match.start() - 1] == "_"):
        match = words.search(text, match.start() + 1)
    return match


def _plain(text: str) -> str:
    return _LEFT.sub(" ", " ".join(text[:LOOKED_AT].lower().replace("-", " ").replace("_", " ").split()))


def read_answer(text: str) -> tuple[IdeaCategory | None, str]:
    """(type, rationale) of a model's answer; if it cannot be parsed, the type is None and the rationale is the reason."""
    try:
        answer = fields_in(text, ("type", "rationale"))
        return answer.label("type", TYPES), answer.text("rationale")
    except ValueError as error:
        return None, str(error)


def posed(rollout: Rollout) -> Iterator[Posed]:
    """The ideas of a rollout in order: those that its agent asked for, or the policy's own."""
    turns, messages = rollout.get("turns", []), rollout["messages"]
    if idea := rollout.get("idea"):
        end = turns[0].get("message", len(messages)) if turns else len(messages)
        yield Posed(0, idea, _history(messages[:end]), _improved(rollout))
    for number, turn in enumerate(turns):
        if idea := turn.get("help", {}).get("idea"):
            end = turn.get("message", len(messages) - 1) + 1
            yield Posed(number, idea, messages[:end], _improved_next(turns, number, _lower(rollout)))


def _history(messages: Sequence[Message]) -> list[Message]:
    """An ideator's messages with only the query and trajectory of its prompt."""
    head, _, tail = prompts.text("ideator").partition("{{trajectory}}")
    before, after = head.rpartition("}}")[2], tail.rstrip()
    contents = (
        message["content"].partition(before)[2].removesuffix(after) or message["content"] for message in messages
    )
    return [{**message, "content": content} for message, content in zip(messages, contents, strict=True)]


def _improved_next(turns: Sequence[Turn], at: int, lower: bool) -> bool | None:
    """True if the next submission after a turn has a better test score than the last valid one up to it.

    A valid submission is better than none; an invalid one is not better. None if no submission follows. Two ideas before
    the same submission have the same effect.
    """
    graded = [(number, grade) for number, turn in enumerate(turns) if (grade := turn.get("grade"))]
    after = next((grade for number, grade in graded if number > at), None)
    before = [score for number, grade in graded if number <= at and (score := grade.get("score")) is not None]
    return None if after is None else _better(after.get("score"), before[-1] if before else None, lower)


def _improved(rollout: Rollout) -> bool | None:
    """By the reward of mle-grade --reward improvement, else by the scores of grade and state.

    None without a grade, and where nobody carried the idea out: it was in another form, or the implementer was refused.
    """
    grade, reward, start = rollout.get("grade"), rollout.get("reward"), rollout.get("state")
    implementer = rollout.get("implementer")
    not_carried_out = rollout.get("stop_reason") == "format" if implementer is None else "refused" in implementer
    if grade is None or not_carried_out:
        return None
    if grade["reward"].get("rule") == "improvement" and reward is not None:
        return reward > 0
    return _better(grade["score"], start.get("score") if start else None, _lower(rollout))


def _better(score: float | None, before: float | None, lower: bool) -> bool:
    if score is None or before is None:
        return score is not None
    return score < before if lower else score > before


def _lower(rollout: Rollout) -> bool:
    return bool(rollout["task"]["metric"]["lower_is_better"])
