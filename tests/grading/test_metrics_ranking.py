"""Metrics on sets, rankings, orders, text and places: values worked by hand, other people's code, what is refused."""

from collections.abc import Callable
from itertools import permutations
from math import log2, pi
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import Case, Make, cells

from mletools.grading.metrics import METRICS, Undefined, Unsuited

MODULES = [f"mletools.grading.metrics.{name}" for name in ("ranking", "text", "geometry")]
NAMES = sorted(name for name, each in METRICS.items() if each.function.__module__ in MODULES)


def value(name: str, truth: list[Any], guess: list[Any], **arguments: Any) -> float:
    return METRICS[name].function(cells(truth)[:, 0], cells(guess)[:, 0], **arguments)


def places(name: str, truth: Any, guess: Any, **arguments: Any) -> float:
    return METRICS[name].function(np.array(truth, dtype=float), np.array(guess, dtype=float), **arguments)


def tags(*texts: str) -> list[frozenset[str]]:
    return [frozenset(text.split()) for text in texts]


def test_sets_by_hand() -> None:
    truth, guess = tags("a b", "c", "", "a"), tags("b c", "c", "", "zzz")
    assert value("jaccard_sets", truth, guess) == pytest.approx((1 / 3 + 1 + 1 + 0) / 4)
    assert value("f1_sample_mean", truth, guess) == pytest.approx((1 / 2 + 1 + 1 + 0) / 4)
    # TP: b, c. FN: a, a. FP: c (zzz is in no answer)
    assert value("f1_multilabel_micro", truth, guess) == pytest.approx(4 / (4 + 2 + 1))
    assert value("f1_multilabel_micro", truth, guess, from_answers=False) == pytest.approx(4 / (4 + 2 + 2))
    # a 0, b 1, c 2 / (2 + 1)
    assert value("f1_multilabel_macro", truth, guess) == pytest.approx((0 + 1 + 2 / 3) / 3)
    assert value("f1_multilabel_macro", truth, guess, from_answers=False) == pytest.approx((0 + 1 + 2 / 3 + 0) / 4)
    for name in ("f1_multilabel_micro", "f1_multilabel_macro"):
        with pytest.raises(Unsuited, match="the answers hold no tag at all"):
            value(name, tags("", ""), guess[:2])
        with pytest.raises(Unsuited, match=r"metric\.params\.from_answers is 1, not true or false"):
            value(name, truth, guess, from_answers=1)


sets = st.frozensets(st.sampled_from("abcdef"), min_size=1)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(sets, sets), min_size=1, max_size=8))
def test_sets_agree_with_scikit_learn(rows: list[tuple[frozenset[str], frozenset[str]]]) -> None:
    from sklearn.metrics import f1_score, jaccard_score
    from sklearn.preprocessing import MultiLabelBinarizer

    rows = [(frozenset("ab"), frozenset("b")), *rows]  # two classes: with one, scikit-learn takes it for labels
    truth, guess = [row[0] for row in rows], [row[1] for row in rows]
    for kinds, options in ((truth, {}), (truth + guess, {"from_answers": False})):
        classes = sorted(frozenset().union(*kinds))
        binary = [
            np.array([[name in row for name in classes] for row in column], dtype=int) for column in (truth, guess)
        ]
        if not options:
            fitted = MultiLabelBinarizer(classes=classes).fit(truth)
            assert (binary[0] == fitted.transform(truth)).all()
        for average in ("micro", "macro"):
            wanted = f1_score(*binary, average=average, zero_division=0)
            assert value(f"f1_multilabel_{average}", truth, guess, **options) == pytest.approx(wanted)
    assert value("f1_sample_mean", truth, guess) == pytest.approx(f1_score(*binary, average="samples"))
    assert value("jaccard_sets", truth, guess) == pytest.approx(jaccard_score(*binary, average="samples"))


def test_rankings_by_hand() -> None:
    truth, guess = tags("a b c", "x"), [("a", "z", "b", "c"), ("y", "x")]
    assert value("map_at_k", truth, guess, k=3) == pytest.approx(((1 + 2 / 3) / 3 + 1 / 2) / 2)
    assert value("map_at_k", truth, guess, k=1) == pytest.approx((1 + 0) / 2)
    assert value("map_at_k", truth, guess, k=12) == pytest.approx(((1 + 2 / 3 + 3 / 4) / 3 + 1 / 2) / 2)
    ideal = 1 + 1 / log2(3) + 1 / 2
    assert value("ndcg_at_k", truth, guess, k=3) == pytest.approx(((1 + 1 / 2) / ideal + 1 / log2(3)) / 2)
    assert value("ndcg_at_k", truth, guess, k=2) == pytest.approx((1 / (1 + 1 / log2(3)) + 1 / log2(3)) / 2)
    assert value("mrr", truth, guess) == pytest.approx((1 + 1 / 2) / 2)


def test_a_repeated_prediction_is_one_hit_and_takes_up_its_place() -> None:
    truth, guess = tags("a b"), [("a", "a", "b")]
    assert value("map_at_k", truth, guess, k=3) == pytest.approx((1 + 2 / 3) / 2)
    assert value("map_at_k", tags("a"), [("a",) * 5], k=5) == 1
    assert value("ndcg_at_k", tags("a"), [("a",) * 5], k=5) == 1


def test_answers_of_a_ranking_may_be_a_label_a_set_or_a_list() -> None:
    guess = [("NDF", "US"), ("US", "NDF"), ()]
    for name in ("map_at_k", "ndcg_at_k"):
        found = {value(name, truth, guess, k=5) for truth in (["US"] * 3, tags(*["US"] * 3), [("US",)] * 3)}
        assert len(found) == 1
    assert value("ndcg_at_k", ["US"] * 3, guess, k=5) == pytest.approx((1 / log2(3) + 1 + 0) / 3)
    with pytest.raises(Unsuited, match="a row of the answers names no true item"):
        value("mrr", tags(""), [("a",)])
    for k in (0, 2.5, "12", True, None):
        with pytest.raises(Unsuited, match=r"metric\.params\.k is .*, not a whole number of at least 1"):
            value("map_at_k", ["a"], [("a",)], k=k)


@pytest.mark.parametrize("seed", range(5))
def test_rankings_agree_with_scikit_learn(seed: int) -> None:
    from sklearn.metrics import average_precision_score, label_ranking_average_precision_score, ndcg_score

    draws = np.random.RandomState(seed)
    items = 6
    relevant = draws.rand(20, items) < 0.4
    relevant[np.arange(20), draws.randint(0, items, 20)] = True
    scores = draws.rand(20, items)
    truth = [frozenset(map(str, np.flatnonzero(row))) for row in relevant]
    guess = [tuple(map(str, np.argsort(-row))) for row in scores]
    for k in (1, 3, 6):
        assert value("ndcg_at_k", truth, guess, k=k) == pytest.approx(ndcg_score(relevant, scores, k=k))
    wanted = np.mean([average_precision_score(a, b) for a, b in zip(relevant, scores, strict=True)])
    assert value("map_at_k", truth, guess, k=items) == pytest.approx(wanted)
    one = [str(np.flatnonzero(row)[0]) for row in relevant]
    onehot = np.array([[str(at) == label for at in range(items)] for label in one])
    assert value("mrr", one, guess) == pytest.approx(label_ranking_average_precision_score(onehot, scores))


def test_orders_by_hand() -> None:
    truth = [("a", "b", "c"), ("d", "e"), ("f",)]
    assert value("kendall_tau_orders", truth, truth) == 1
    assert value("kendall_tau_orders", truth, [order[::-1] for order in truth]) == -1
    assert value("kendall_tau_orders", truth, [("b", "c", "a"), ("d", "e"), ("f",)]) == 1 - 4 * 2 / (6 + 2)
    with pytest.raises(Unsuited, match="no order of the answers has two items"):
        value("kendall_tau_orders", [("a",)], [("a",)])
    with pytest.raises(Unsuited, match="an order among the answers holds an item twice"):
        value("kendall_tau_orders", [("a", "a")], [("a", "a")])


@pytest.mark.parametrize(
    "order, told",
    [
        (("a", "b", "x"), "an order holds 'x', which is not among the items to be ordered"),
        (("a", "b", "c", "x" * 999), f"an order holds '{'x' * 50}...', which is not among the items to be ordered"),
        (("b",), "an order lacks 'a', one of the items to be ordered"),
        (("b", "b", "c"), "an order lacks 'a', one of the items to be ordered"),
        (("c", "a", "b", "b"), "an order holds 'b' more than once"),
        ((), "an order lacks 'a', one of the items to be ordered"),
    ],
)
def test_orders_that_are_no_permutation(order: tuple[str, ...], told: str) -> None:
    with pytest.raises(Undefined) as refused:
        value("kendall_tau_orders", [("c", "b", "a")], [order])  # the message does not name the answer's first item
    assert str(refused.value) == told


def test_orders_agree_with_scipy() -> None:
    from scipy.stats import kendalltau

    for size in range(2, 6):
        for order in permutations(range(size)):
            said = tuple(map(str, order))
            wanted = kendalltau(range(size), order).statistic
            assert value("kendall_tau_orders", [tuple(map(str, range(size)))], [said]) == pytest.approx(wanted)
    draws = np.random.RandomState(0)
    orders = [draws.permutation(size) for size in draws.randint(1, 300, 40)]
    swaps = sum(int((row[:-1, None] > row[None, 1:])[np.tri(len(row) - 1, dtype=bool).T].sum()) for row in orders)
    truth = [tuple(f"i{at}" for at in range(len(row))) for row in orders]
    guess = [tuple(f"i{at}" for at in row) for row in orders]
    pairs = sum(len(row) * (len(row) - 1) for row in orders)
    assert value("kendall_tau_orders", truth, guess) == pytest.approx(1 - 4 * swaps / pairs)


def test_text_by_hand() -> None:
    assert value("levenshtein", ["kitten", "", "a"], ["sitting", "ab", "a"]) == (3 + 2 + 0) / 3
    # 12 for 1 2 is one change and one left out, whatever the digits look like
    assert value("levenshtein_per_token", [["1", "2"], ["3"], []], [["12"], ["3", "4"], []]) == (2 + 1) / 3
    assert value("levenshtein_per_token", [["1"]], [["5", "6", "7"]]) == 3
    with pytest.raises(Unsuited, match="divides by the number of tokens in the answers, and there is none"):
        value("levenshtein_per_token", [[]], [["1"]])
    texts = ["Sooo SAD", "a b", "", "x", "a A"]
    said = ["sad sooo\tsooo", "b c", " \n", "", "a"]
    assert value("jaccard_words", texts, said) == pytest.approx((1 + 1 / 3 + 1 + 0 + 1) / 5)


def distance(a: Any, b: Any) -> int:
    """Levenshtein distance by its textbook recursion, a row at a time."""
    row = list(range(len(b) + 1))
    for at, left in enumerate(a, 1):
        last, row = row, [at]
        for to, right in enumerate(b, 1):
            row.append(min(last[to] + 1, row[-1] + 1, last[to - 1] + (left != right)))
    return row[-1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.text("ab\ud800\U0001f600"), st.text("ab\ud800\U0001f600")), min_size=1, max_size=5))
def test_edit_distances_agree_with_the_textbook(rows: list[tuple[str, str]]) -> None:
    truth, guess = [row[0] for row in rows], [row[1] for row in rows]
    wanted = sum(distance(a, b) for a, b in rows)
    assert value("levenshtein", truth, guess) == pytest.approx(wanted / len(rows))
    if any(truth):
        tokens = (
            [[f"token {each}" for each in row] for row in truth],
            [[f"token {each}" for each in row] for row in guess],
        )
        assert value("levenshtein_per_token", *tokens) == pytest.approx(wanted / sum(map(len, truth)))


def test_places_by_hand() -> None:
    quarter = 6371000 * pi / 2
    assert places("haversine_mean", [[0, 0], [90, 0]], [[0, 90], [90, 77]]) == pytest.approx(quarter / 2)
    assert places("haversine_mean", [[0, 179.5]], [[0, -179.5]], radius_m=180 / pi) == pytest.approx(1)
    # group a: 0 1 2 degrees along the equator, quantiles 1 and 1.9; group b: one row of 4
    group = np.array(["a", "a", "b", "a"])
    truth, guess = np.zeros((4, 2)), [[0, 2], [0, 0], [0, 4], [0, 1]]
    found = places("haversine_quantiles", truth, guess, group=group, radius_m=180 / pi)
    assert found == pytest.approx(((1 + 1.9) / 2 + 4) / 2)
    assert places("angular_error_mean", [[0, pi / 2], [1, 0]], [[pi / 2, pi / 2], [4, 0]]) == pytest.approx(pi / 4)
    assert places("angular_error_mean", [[1, 1]], [[1 + pi, pi - 1]]) == pytest.approx(pi)


@pytest.mark.parametrize("seed", range(3))
def test_places_agree_with_scikit_learn(seed: int) -> None:
    from sklearn.metrics.pairwise import haversine_distances

    draws = np.random.RandomState(seed)
    truth, guess = (draws.rand(2, 50, 2) - 0.5) * [180, 360]
    radians = haversine_distances(np.radians(truth), np.radians(guess)).diagonal()
    assert places("haversine_mean", truth, guess) == pytest.approx(radians.mean() * 6371000)
    group = draws.choice(list("abc"), 50)
    wanted = np.mean([np.quantile(radians[group == name], [0.1, 0.9]).mean() for name in set(group)])
    found = places("haversine_quantiles", truth, guess, group=group, quantiles=[0.1, 0.9], radius_m=1)
    assert found == pytest.approx(wanted)
    polar = np.radians(np.stack([truth[:, 1], 90 - truth[:, 0]], axis=1))
    said = np.radians(np.stack([guess[:, 1], 90 - guess[:, 0]], axis=1))
    assert places("angular_error_mean", polar, said) == pytest.approx(radians.mean())
    assert places("angular_error_mean", polar, polar) == 0


@pytest.mark.filterwarnings("error")
def test_hostile_places() -> None:
    extreme = [1e308, -1e308, 5e-324, 1e17, 0]
    guess = [[a, b] for a in extreme for b in extreme]
    for name, more in (
        ("haversine_mean", {}),
        ("haversine_quantiles", {"group": np.array(["a"] * 25)}),
        ("angular_error_mean", {}),
    ):
        for other in (np.zeros((25, 2)), guess[::-1]):
            assert 0 <= places(name, other, guess, **more) <= 6371000 * 3.1416
        with pytest.raises(Unsuited, match=f"{name} needs two target columns, .*, not 3"):
            places(name, np.zeros((25, 3)), np.zeros((25, 3)), **more)
    for quantiles in ([], 0.5, [1.5], ["x"], [-0.1]):
        with pytest.raises(Unsuited, match=r"metric\.params\.quantiles"):
            places("haversine_quantiles", [[0, 0]], [[0, 0]], group=np.array(["a"]), quantiles=quantiles)


@pytest.mark.parametrize("name", NAMES)
def test_no_rows(name: str) -> None:
    more: dict[str, Any] = {"k": 3} if "k" in METRICS[name].params else {}
    if "group" in METRICS[name].inputs:
        more["group"] = np.array([], dtype=object)
    with pytest.raises(Unsuited):
        places(name, np.zeros((0, 2)), np.zeros((0, 2)), **more) if name in GEOMETRY else value(name, [], [], **more)


ALPHABET = [f"t{at}" for at in range(12)]
FOREIGN = "zz"


def drawn(draws: np.random.RandomState, low: int = 0) -> list[str]:
    return [str(item) for item in draws.choice(ALPHABET, draws.randint(low, 6), replace=False)]


def changed(change: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Change each predicted cell."""
    return lambda guess, draws: cells([change(cell) for cell in guess[:, 0]])


def tag_sets(draws: np.random.RandomState, rows: int) -> Case:
    truth = [frozenset(drawn(draws, low=1 if at == 0 else 0)) for at in range(rows)]

    def worsen(guess: Any, draws: np.random.RandomState) -> Any:
        return cells([said - right | {FOREIGN} for right, said in zip(truth, guess[:, 0], strict=True)])

    return Case(cells(truth), cells(truth), cells([frozenset(drawn(draws)) for _ in truth]), worsen=worsen)


def ranked(single: bool = False, **params: Any) -> Make:
    def make(draws: np.random.RandomState, rows: int) -> Case:
        truth = [tuple(drawn(draws, low=1))[: 1 if single else None] for _ in range(rows)]
        answers = [row[0] if single else frozenset(row) for row in truth]
        guess = [tuple(draws.permutation(ALPHABET).tolist()) for _ in truth]
        return Case(cells(answers), cells(truth), cells(guess), params, worsen=changed(lambda said: (FOREIGN, *said)))

    return make


def orders(draws: np.random.RandomState, rows: int) -> Case:
    truth = [tuple(f"i{at}" for at in draws.permutation(draws.randint(2, 9))) for _ in range(rows)]
    guess = [tuple(draws.permutation(row).tolist()) for row in truth]
    return Case(
        cells(truth), cells(truth), cells(guess), worsen=lambda guess, draws: cells([row[::-1] for row in truth])
    )


def words(draws: np.random.RandomState, rows: int) -> Case:
    truth, guess = ([" ".join(drawn(draws)) for _ in range(rows)] for _ in range(2))
    return Case(cells(truth), cells(truth), cells(guess), worsen=changed(lambda said: said + FOREIGN))


def tokens(draws: np.random.RandomState, rows: int) -> Case:
    truth, guess = ([drawn(draws, low=1) for _ in range(rows)] for _ in range(2))
    return Case(cells(truth), cells(truth), cells(guess), worsen=changed(lambda said: [*said, FOREIGN]))


def sphere(radians: bool = False, group: bool = False) -> Make:
    """The worst is the antipode of each answer."""

    def make(draws: np.random.RandomState, rows: int) -> Case:
        truth, guess = (draws.rand(2, rows, 2) - 0.5) * [178, 358]
        antipode = truth * [-1, 1] + [0, 180]
        columns = (truth, guess, antipode)
        if radians:
            columns = tuple(np.radians(np.stack([each[:, 1], 90 - each[:, 0]], axis=1)) for each in columns)
        truth, guess, antipode = columns
        names = np.array([f"g{at % max(1, rows // 4)}" for at in range(rows)], dtype=object)
        given = {"group": names} if group else {}
        return Case(truth, truth.copy(), guess, {}, given, lambda guess, draws: antipode)

    return make


GEOMETRY: dict[str, Make] = {
    "haversine_mean": sphere(),
    "haversine_quantiles": sphere(group=True),
    "angular_error_mean": sphere(radians=True),
}
MAKE: dict[str, Make] = {
    "jaccard_sets": tag_sets,
    "f1_sample_mean": tag_sets,
    "f1_multilabel_micro": tag_sets,
    "f1_multilabel_macro": tag_sets,
    "map_at_k": ranked(k=5),
    "ndcg_at_k": ranked(single=True, k=5),
    "mrr": ranked(),
    "kendall_tau_orders": orders,
    "levenshtein": words,
    "jaccard_words": words,
    "levenshtein_per_token": tokens,
    **GEOMETRY,
}


def test_every_metric_of_this_file_has_a_generator() -> None:
    assert sorted(MAKE) == NAMES
