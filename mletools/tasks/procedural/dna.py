"""The DNA of a procedural task: every choice that shapes it before a single value is drawn, as JSON values.

After SandMLE's structural DNA (section 4.1): modality, problem, sizes, target distribution, imbalance, metric, and the
mutations that make the data harder. Not covered: the story (scenario) and the hidden rule (rule).
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, TypedDict

from .arrays import Rng
from .scenario import Scenario

SAMPLES = (50, 200)
MUTATIONS = 3
MediumName = Literal["columns", "image", "text", "audio", "graph", "series"]
MODALITIES = ("tabular", "image", "text", "audio", "graph", "timeseries", "multimodal")
# The media of a modality; multimodal draws two or three of all.
MEDIA: dict[str, tuple[MediumName, ...]] = {
    "tabular": ("columns",),
    "image": ("image",),
    "text": ("text",),
    "audio": ("audio",),
    "graph": ("graph",),
    "timeseries": ("series",),
}
EVERYWHERE = (
    "binary_classification",
    "binary_classification",
    "multiclass_classification",
    "multiclass_classification",
    "multilabel_classification",
    "regression",
    "ranking",
)
DENSE = {
    "image": ("segmentation", "reconstruction"),
    "audio": ("reconstruction",),
    "timeseries": ("forecasting", "forecasting", "reconstruction"),
}
# Mutations that need no medium: {name: what it does}.
COMMON = {
    "label_noise": "some rows have the target of another row",
    "class_imbalance": "one class is rare",
    "shift": "the test set has other shares of one factor than train.csv",
}
CLASSES = ("binary_classification", "multiclass_classification")
# Metrics by problem: (name in mle-grade, what is handed in, parameters).
Choice = tuple[str, str, dict[str, float | str]]
METRICS: dict[str, tuple[Choice, ...]] = {
    "binary_classification": (
        ("auroc", "probability", {}),
        ("log_loss", "probabilities", {}),
        ("brier_score", "probability", {}),
        ("accuracy", "label", {}),
        ("mcc", "label", {}),
    ),
    "multiclass_classification": (
        ("log_loss", "probabilities", {}),
        ("accuracy", "label", {}),
        ("quadratic_weighted_kappa", "label", {}),
        ("f1_macro", "label", {}),
    ),
    "multilabel_classification": (
        ("multilabel_log_loss", "probability", {}),
        ("auroc", "probability", {}),
        ("lwlrap", "probability", {}),
        ("f1_multilabel_macro", "tagset", {}),
        ("jaccard_sets", "tagset", {}),
    ),
    "regression": (
        ("rmse", "number", {}),
        ("mae", "number", {}),
        ("r2", "number", {}),
        ("spearman", "number", {}),
    ),
    "ranking": (
        ("spearman_by_group", "number", {}),
        ("map_at_k", "ranked", {"k": 5}),
        ("ndcg_at_k", "ranked", {"k": 5}),
    ),
    "forecasting": (("smape", "number", {}), ("mae", "number", {}), ("rmse", "number", {}), ("mape", "number", {})),
    "reconstruction": (("rmse", "number", {}), ("mae", "number", {}), ("r2", "number", {})),
    "segmentation": (
        ("dice_mean", "mask", {"both_empty": 1.0}),
        ("fbeta_mask", "mask", {"beta": 0.5, "both_empty": 1.0}),
        ("dice_global", "mask", {}),
    ),
}
# Where one class is rare, or numbers have a long upper tail: what a constant answer, or the tail alone, cannot please.
SKEWED: dict[str, tuple[Choice, ...]] = {
    "binary_classification": (
        ("average_precision", "probability", {}),
        ("f1_binary", "label", {}),
        ("balanced_accuracy", "label", {}),
        ("mcc", "label", {}),
    ),
    "multiclass_classification": (
        ("f1_macro", "label", {}),
        ("balanced_accuracy", "label", {}),
        ("balanced_log_loss", "probabilities", {}),
        ("quadratic_weighted_kappa", "label", {}),
    ),
    "regression": (
        ("rmsle", "number", {}),
        ("mae", "number", {}),
        ("mape", "number", {}),
    ),
}
# A quantity whose highest value is so many times its lowest (money, counts, times) has a long upper tail.
TAIL = 12


class Mutation(TypedDict):
    """What makes the data of a medium harder, or of none (""): `strength` lies between 0.3 and 1."""

    name: str
    medium: MediumName | Literal[""]
    strength: float


class Dna(TypedDict):
    """What was chosen: `noise` is in deviations of the rule's value, shares lie between 0 and 1."""

    modality: str
    media: list[MediumName]
    problem: str
    samples: int
    metric: str
    form: str
    params: dict[str, float | str]
    terms: int
    tags: int
    tag_names: NotRequired[list[str]]
    query_rows: int
    target_distribution: str
    class_shares: list[float]
    noise: float
    flipped: float
    test_share: float
    mutations: list[Mutation]


def draw_dna(
    modality: str,
    scenario: Scenario,
    offered: Mapping[MediumName, Sequence[str]],
    samples: tuple[int, int],
    mutations: int,
    rng: Rng,
) -> Dna:
    """The DNA of one task; `offered` are the mutations of each medium, by its name in media/."""
    media = list(MEDIA.get(modality, ())) or _several(offered, rng)
    problems = EVERYWHERE + DENSE.get(modality, ()) * 2
    problem = problems[rng.randint(len(problems))]
    chosen = _mutations(media, offered, problem, mutations, rng)
    names = {each["name"] for each in chosen}
    labels = {"binary_classification": 2, "multiclass_classification": len(scenario["classes"]["levels"])}.get(
        problem, 0
    )
    weights = [1.0] * labels
    if "class_imbalance" in names:
        # Of two classes the positive one is rare (a default, a fault, a loss), of more either end of their order.
        weights[0 if labels > 2 and rng.randint(2) else labels - 1] = 0.3
    spread = "even"
    if problem == "regression":
        long_tail = scenario["quantity"]["high"] / scenario["quantity"]["low"] >= TAIL
        spread = "skewed" if long_tail else ("even", "late")[rng.randint(2)]
    menu = SKEWED[problem] if "class_imbalance" in names or spread == "skewed" else METRICS[problem]
    metric, form, params = menu[rng.randint(len(menu))]
    if metric == "f1_binary":
        params = {"positive": scenario["binary"]["levels"][-1]}
    return {
        "modality": modality,
        "media": media,
        "problem": problem,
        "samples": int(rng.randint(samples[0], samples[1] + 1)),
        "metric": metric,
        "form": form,
        "params": params,
        "terms": int(rng.randint(3, 6)),
        "tags": int(rng.randint(3, 5)) if problem == "multilabel_classification" else 0,
        "query_rows": int(rng.randint(5, 9)) if problem == "ranking" else 0,
        "target_distribution": spread,
        "class_shares": [round(weight / sum(weights), 3) for weight in weights],
        "noise": round(float(rng.uniform(0.05, 0.3)), 2),
        "flipped": round(float(rng.uniform(0.02, 0.06)), 3) if "label_noise" in names else 0.0,
        "test_share": round(float(rng.uniform(0.35, 0.5)), 2),
        "mutations": chosen,
    }


def _several(offered: Mapping[MediumName, Sequence[str]], rng: Rng) -> list[MediumName]:
    count = 2 + int(rng.randint(2))
    return [list(offered)[at] for at in sorted(rng.permutation(len(offered))[:count])]


def _mutations(
    media: list[MediumName], offered: Mapping[MediumName, Sequence[str]], problem: str, count: int, rng: Rng
) -> list[Mutation]:
    """`count` different mutations that suit the problem, of the media and of no medium."""
    flat = problem in EVERYWHERE
    common = [name for name in COMMON if flat and (name != "class_imbalance" or problem in CLASSES)]
    menu = [("", name) for name in common] + [(medium, name) for medium in media for name in offered[medium]]
    return [
        {"name": name, "medium": medium, "strength": round(float(rng.uniform(0.3, 1.0)), 2)}
        for medium, name in (menu[at] for at in rng.permutation(len(menu))[:count])
    ]
