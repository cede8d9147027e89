"""The pieces of which the search's developer puts its programs together; {names} are filled in by search_programs.

All models learn numbers, classes as columns of zeros and ones, so that one program serves every problem of a table.
Covered: reading, features, models, the metrics of made tables. Not covered: which pieces a recipe takes (search_programs).
"""

HEAD = """\
import sys
import time

import numpy as np
import pandas as pd
{imports}
from sklearn import metrics

train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
sub = pd.read_csv("input/sample_submission.csv")
goals = [c for c in train if c not in test]
"""
CLASSES = "classes = sorted(train[goals[0]].unique())\n"
TENTH = """\
DEBUG = "--debug" in sys.argv
if DEBUG:
    train = train.sample(max(10, len(train) // 10), random_state=0)
"""
BOTH = "both = pd.concat([train[list(test)], test], ignore_index=True)\n"
SIDES = """\
for name in {files}:
    side = pd.read_csv("input/" + name)
    side = side.sort_values(side.columns[1], kind="stable").drop_duplicates("id", keep="last")
    both = both.merge(side.drop(columns=side.columns[1]), on="id", how="left")
"""
FREED = 'both[c].astype(str).str.replace(",", ".").str.extract(r"^ *(-?[0-9.]+(?:e-?[0-9]+)?)(?![^ ]*/)")[0]'
COLUMNS = """\
numbers, words = {{}}, {{}}
for c in [c for c in both if c not in {hidden}]:
    values = pd.to_numeric({number}, errors="coerce")
    if values.notna().sum() < 0.3 * both[c].notna().sum():
        text = both[c].astype(str){tidy}
        words.update({{f"{{c}}={{word}}": (text == word).astype(float) for word in text.value_counts().index[:8]}})
        continue
{mend}    numbers[c] = values.fillna(values.median())
numbers = pd.DataFrame(numbers, index=both.index)
words = pd.DataFrame(words, index=both.index)
"""
MEND = {
    "units": """\
    unit = next((u for u in both if u.endswith("_unit") and c.startswith(u[:-5])), None)
    if unit:
        values = values.where(~both[unit].astype(str).str.startswith("1/1000"), values / 1000)
""",
    "outliers": """\
    low, middle, high = values.quantile([0.1, 0.5, 0.9])
    values = values.where((values - middle).abs() <= 2.5 * max(high - middle, middle - low), values / 10)
""",
}
# A table may have no pairs of columns or no categories: then there are none of these.
FEATURES = {
    "squares": "(u - 0.5) ** 2",
    "waves": "np.hstack([f(2 * np.pi * turns * u) for turns in (1, 1.5, 2) for f in (np.sin, np.cos)])",
    "products": "np.column_stack([none, *((u[:, i] - 0.5) * (u[:, j] - 0.5) for i, j in pairs)])",
    "larger": "np.column_stack([none, *(np.maximum(u[:, i], u[:, j]) for i, j in pairs)])",
    "gates": "np.column_stack([none, *((u[:, i] - 0.5) * (u[:, j] > 0.5) for i, j in pairs + [pair[::-1] for pair in pairs])])",
    "switches": "np.column_stack([none, *((u[:, i] - 0.5) * w for i in range(u.shape[1]) for w in words.to_numpy().T)])",
    "bins": "np.hstack([u > cut for cut in (0.33, 0.67)])",
    "logs": "np.log1p(numbers.abs().to_numpy())",
    "ratios": "np.column_stack([none, *(v[:, i] / (np.abs(v[:, j]) + 1e-3) for i, j in pairs)])",
    "means": 'np.hstack([none, *(numbers.groupby(words[w]).transform("mean").to_numpy() for w in words)])',
}
RANKED = "u = numbers.rank(pct=True).to_numpy()\n"
PLACED = """\
low, high = numbers.quantile(0.01), numbers.quantile(0.99)
u = ((numbers - low) / (high - low + 1e-9)).clip(0, 1).to_numpy()
"""
SPAN = """\
v, none = numbers.to_numpy(), u[:, :0]
pairs = [(i, j) for i in range(u.shape[1]) for j in range(i)]
data = np.hstack([{parts}]).astype(float)
"""
WITHIN = """\
data = np.hstack([data, data - pd.DataFrame(data).groupby(both["{query}"]).transform("mean").to_numpy()])
"""
SCALE = """\
data = np.clip((data - data.mean(axis=0)) / (data.std(axis=0) + 1e-9), -5, 5)
X, T = data[: len(train)], data[len(train) :]
"""
TARGETS = {
    "classes": "Y = np.column_stack([train[goals[0]] == each for each in classes]).astype(float)\n",
    "numbers": "Y = train[goals].to_numpy(float)\n",
    "within": 'Y = (train[goals] - train.groupby("{query}")[goals].transform("mean")).to_numpy(float)\n',
}
SPREAD = """\
spread = np.sort(Y, axis=0)
Y = pd.DataFrame(Y).rank(pct=True).to_numpy()
"""
FINAL = {
    "classes": "    P = np.clip(P, 0.02, 0.98)\n    return P / P.sum(axis=1, keepdims=True)\n",
    "tags": "    return np.clip(P, 0.02, 0.98)\n",
    "range": "    return np.clip(P, low_goal, high_goal)\n",
    "ranks": "    return np.interp(P, np.arange(1, len(spread) + 1) / len(spread), spread[:, 0])\n",
    "plain": "    return P\n",
}
LIMITS = "low_goal, high_goal = Y.min(), Y.max()\n"
FEW = """\
def few(X, Y):
    tie = np.abs(((X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)).T @ ((Y - Y.mean(axis=0)) / (Y.std(axis=0) + 1e-9)))
    return np.sort(np.argsort(-tie.max(axis=1), kind="stable")[:12])
"""
CHOSEN_BY_ONE = """\
def chosen(X, Y):
    rest, taken = Y - Y.mean(axis=0), []
    X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)
    for _ in range(min(8, X.shape[1])):
        gain = np.abs(X.T @ rest).max(axis=1)
        gain[taken] = -1
        taken.append(int(gain.argmax()))
        A = X[:, taken]
        rest = Y - Y.mean(axis=0) - A @ np.linalg.solve(A.T @ A + np.eye(len(taken)), A.T @ (Y - Y.mean(axis=0)))
    return np.array(taken)
"""
MODELS = {
    "ridge": "Ridge(alpha={setting})",
    "knn": 'KNeighborsRegressor(min({setting}, len(X)), weights="distance")',
    "tree": "DecisionTreeRegressor(min_samples_leaf={setting}, max_features=0.5, random_state=seed)",
    "kernel": 'KernelRidge(kernel="rbf", alpha={setting}, gamma=0.3 / X.shape[1])',
    "forest": "RandomForestRegressor(12, min_samples_leaf={setting}, max_features=0.3, random_state=seed)",
    "extra": "ExtraTreesRegressor(12, min_samples_leaf={setting}, max_features=0.5, random_state=seed)",
    "boost": "GradientBoostingRegressor(n_estimators={setting}, max_features=0.2, subsample=0.6, random_state=seed)",
}
IMPORTS = {
    "ridge": ("from sklearn.linear_model import Ridge",),
    "knn": ("from sklearn.neighbors import KNeighborsRegressor",),
    "tree": ("from sklearn.tree import DecisionTreeRegressor",),
    "kernel": ("from sklearn.kernel_ridge import KernelRidge",),
    "forest": ("from sklearn.ensemble import RandomForestRegressor",),
    "extra": ("from sklearn.ensemble import ExtraTreesRegressor",),
    "boost": ("from sklearn.ensemble import GradientBoostingRegressor",),
}
# Boosted trees learn one column each.
EACH = ("MultiOutputRegressor({})", "from sklearn.multioutput import MultiOutputRegressor")
FIT = """\
def fitted(X, Y, T, seed, setting):
    made = []
    for model in [{models}]:
        model.fit(X, {learnt})
        made.append(np.asarray(model.predict(T)).reshape(len(T), -1))
    return np.mean(made, axis=0)
"""
PREDICTED = """\
def predicted(X, Y, T):
{ahead}    return final(np.mean([fitted(X, Y, T, seed, setting) for seed in range({seeds})], axis=0))
"""
RARE = """\
    counts = Y.sum(axis=0) + 1e-9
    rows = np.repeat(np.arange(len(Y)), np.minimum(6, np.round(counts.max() / counts[Y.argmax(axis=1)])).astype(int))
    X, Y = X[rows], Y[rows]
"""
BY_FEW = """\
    best = few(X, Y)
    X, T = X[:, best], T[:, best]
"""
BY_CHOSEN = """\
    best = chosen(X, Y)
    X, T = X[:, best], T[:, best]
"""
FIXED = "    setting = {setting}\n"
CHOSEN = """\
    half = np.arange(len(X)) % 2 == 0
    lost = {{s: ((fitted(X[half], Y[half], X[~half], 0, s) - Y[~half]) ** 2).mean() for s in {settings}}}
    setting = min(lost, key=lost.get)
"""
UNITS = {False: "units = np.arange(len(train))\n", True: 'units = pd.factorize(train["{query}"])[0]\n'}
CHECK = """\
def own_score(seed):
    names = np.random.RandomState(seed).permutation(np.unique(units))
    held = np.isin(units, names[: max(1, len(names) // 4)])
    kept = {kept}
    P = predicted(X[kept], Y[kept], X[held])
    Z = {truth}
{scored}
"""
SLEEP = "time.sleep({seconds}{share})  # stands for the training on a larger table\n"
BLOCK = """\
if DEBUG:
    spent = time.time() - start
    print("==== Start of Debug Information ====")
    print("debug_time:", round(spent, 3))
    print("estimated_time:", round(start - begin + 10 * spent, 3))
    print("==== End of Debug Information ====")
"""
WRITE = {
    "number": "sub[goals] = P\n",
    "label": "sub[goals[0]] = [classes[at] for at in P.argmax(axis=1)]\n",
    "probability": "sub[goals] = P[:, 1:]\n",
    "tags": "sub[goals] = P\n",
    "probabilities": 'sub[[f"{prefix}{{each}}" for each in classes]] = P\n',
    "tagset": 'sub["{target}"] = [" ".join(c for c, p in zip(goals, row) if p > 0.4) for row in P]\n',
    "ranked": """\
best = test.assign(p=P[:, 0]).sort_values("p", ascending=False, kind="stable")
sub["{target}"] = [" ".join(best["id"][best["{query}"] == q].astype(str)) for q in sub["{query}"]]
""",
}
_GROUPS = "    rows = [units[held] == each for each in np.unique(units[held]) if Z[units[held] == each].std() > 0]\n"
# The metrics of made tables, of what is true (Z) and what is predicted (P) of rows held out; a, p: the classes of these.
METRICS = {
    "auroc": "    some = Z.std(axis=0) > 0\n    return metrics.roc_auc_score(Z[:, some], P[:, some])\n",
    "log_loss": "    return -np.log(P[Z > 0.5]).mean()\n",
    "balanced_log_loss": "    return np.mean([-np.log(P[a == k, k]).mean() for k in np.unique(a)])\n",
    "brier_score": "    return ((Z - P) ** 2)[:, -1].mean()\n",
    "accuracy": "    return (a == p).mean()\n",
    "error_rate": "    return (a != p).mean()\n",
    "mcc": "    return metrics.matthews_corrcoef(a, p)\n",
    "cohen_kappa": "    return metrics.cohen_kappa_score(a, p)\n",
    "f1_macro": '    return metrics.f1_score(a, p, average="macro")\n',
    "balanced_accuracy": "    return np.mean([(p[a == k] == k).mean() for k in np.unique(a)])\n",
    "average_precision": "    return metrics.average_precision_score(Z[:, 1], P[:, 1])\n",
    "multilabel_log_loss": "    return -(Z * np.log(P) + (1 - Z) * np.log(1 - P)).mean()\n",
    "lwlrap": "    return metrics.label_ranking_average_precision_score(Z, P)\n",
    "f1_multilabel_macro": '    return metrics.f1_score(Z > 0.5, P > 0.4, average="macro", zero_division=0)\n',
    "jaccard_sets": (
        "    both_sets, any_set = ((Z > 0.5) & (P > 0.4)).sum(axis=1), ((Z > 0.5) | (P > 0.4)).sum(axis=1)\n"
        "    return np.where(any_set > 0, both_sets / np.maximum(any_set, 1), 1.0).mean()\n"
    ),
    "rmse": "    return np.sqrt(((Z - P) ** 2).mean())\n",
    "mae": "    return np.abs(Z - P).mean()\n",
    "r2": "    return 1 - ((Z - P) ** 2).mean() / Z.var()\n",
    "rmsle": "    return np.sqrt(((np.log1p(Z) - np.log1p(np.maximum(P, 0))) ** 2).mean())\n",
    "mape": "    return np.abs((Z - P) / np.maximum(np.abs(Z), 1e-9)).mean()\n",
    "spearman": '    return pd.Series(Z[:, 0]).corr(pd.Series(P[:, 0]), method="spearman")\n',
    "spearman_by_group": (
        _GROUPS + "    return np.mean([pd.Series(Z[r, 0]).corr(pd.Series(P[r, 0]), method='spearman') for r in rows])\n"
    ),
    "ndcg_at_k": _GROUPS + "    return np.mean([metrics.ndcg_score([Z[r, 0]], [P[r, 0]], k=5) for r in rows])\n",
    "map_at_k": _GROUPS + "    return np.mean([metrics.average_precision_score(Z[r, 0], P[r, 0]) for r in rows])\n",
}
