"""Which call is which operation: a table over the names that solutions use.

The table knows pandas, numpy, scikit-learn and the scikit-learn faces of xgboost, lightgbm and catboost. A name is
matched by how it is written, for nothing is imported or run here; an unknown library's calls report nothing.
"""

import ast
import re

MARKERS = (
    "imported packages",
    "loaded data",
    "defined model",
    "training loss:",
    "trained model",
    "testing loss:",
    "predicted test labels",
)
_LOAD = re.compile(
    r"^(read_(csv|table|parquet|json|excel|pickle|feather|hdf|fwf)|loadtxt|genfromtxt|fromfile|load_npz|DictReader)$"
)
_MODEL = re.compile(
    r"(Classifier|Regressor|Regression|RegressionCV|Ridge|RidgeCV|Lasso|LassoCV|ElasticNet|ElasticNetCV|NB|SVC|SVR"
    r"|Perceptron|Discriminant|DiscriminantAnalysis|GridSearchCV|RandomizedSearchCV|Pipeline|Sequential|KernelRidge"
    r"|BayesianRidge|Lars|LarsCV|CatBoost|Booster)$|^make_pipeline$"
)
_FIT = re.compile(r"^(fit|partial_fit|fit_predict)$")
_PREDICT = re.compile(r"^(predict|predict_proba|predict_log_proba|decision_function)$")
_METRIC = re.compile(r"^(score|cross_val_score|cross_validate|log_loss|.+_score|.+_error|.+_loss)$")
_TRAINED_ON = re.compile(r"(train|val|oof|holdout|dev|\bx\b|\bx_tr)", re.IGNORECASE)
_HELD_OUT = re.compile(r"(test|val|valid|holdout|oof|dev|cv)", re.IGNORECASE)
_PREPARE = re.compile(
    r"(scal|encod|imput|prep|vector|transform|select|pca|poly|bin|token|label|vec|enc|imp)", re.IGNORECASE
)


def _called_name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _receiver(call: ast.Call) -> str:
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _arguments(call: ast.Call) -> str:
    return " ".join(ast.unparse(node) for node in [*call.args, *(keyword.value for keyword in call.keywords)])


def operation_of(call: ast.Call) -> str | None:
    """The report that this call earns once it has returned, or None."""
    name = _called_name(call)
    if _LOAD.match(name):
        return MARKERS[1]
    if _MODEL.search(name):
        return MARKERS[2]
    if _FIT.match(name) and not _PREPARE.search(_receiver(call).split("(")[0]):
        return MARKERS[4]
    if _PREDICT.match(name) and not _TRAINED_ON.search(_arguments(call)):
        return MARKERS[6]
    if _METRIC.match(name):
        held_out = name.startswith("cross_val") or _HELD_OUT.search(_arguments(call))
        return MARKERS[5] if held_out else MARKERS[3]
    return None
