"""The table of operations: which call earns which report, by library.

Notation of calls:

    pandas.read_*            a function or class by its full name, imports resolved (`pd.read_csv`)
    torch.nn.Module          also a class of the program that inherits from it
    torch.optim.*().step     a method of the call's result, also through a variable (`opt = Adam(...)`, `opt.step()`)
    torch.nn.*Loss()()       a call of the call's result
    ().fit                   a method of any object
    {*optim*}.step           a method of a variable so named; {criterion}: a call of a function or variable so named

A `*` matches any characters except brackets, [A-Z] a capital letter. Nothing is imported or run: names are matched as
text, so an unknown library's calls report nothing, and a function of the same name reports too much.
Not covered: losses written in numpy, names built with getattr or exec, and, where the program prints its reports itself,
arguments and effects (a model fitted on the wrong rows counts as trained).
"""

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

MARKERS = (
    "imported packages",
    "loaded data",
    "defined model",
    "training loss:",
    "trained model",
    "testing loss:",
    "predicted test labels",
)
_IMPORTED, LOADED, DEFINED, TRAINING, TRAINED, TESTING, PREDICTED = MARKERS

# When a row applies. Words are those of the names and texts in the arguments: X_test, dtest and df["test"] have "test".
ALWAYS, SEEN, HELD_OUT, TEST, INFERENCE, LOOP = "ALWAYS", "SEEN", "HELD_OUT", "TEST", "INFERENCE", "LOOP"
_SENTENCES = {
    ALWAYS: "always",
    SEEN: "nothing refers to held-out rows",
    HELD_OUT: "an argument refers to held-out rows, or gradients are off",
    TEST: "no argument refers to training or validation rows",
    INFERENCE: "gradients are off, and argument, loop or function refer to test rows",
    LOOP: "after the loops around it",
}


@dataclass(frozen=True)
class Row:
    """Calls of one library that earn `marker`; `when` is ALWAYS, SEEN, HELD_OUT, TEST, INFERENCE or LOOP."""

    marker: str
    library: str
    calls: str  # separated by spaces
    when: str = ALWAYS


_SKLEARN_METRICS = "sklearn.metrics.*_score sklearn.metrics.*_error sklearn.metrics.*_loss ().score"
_TORCH_LOSSES = "torch.nn.*Loss()() torch.nn.functional.*loss torch.nn.functional.*cross_entropy* {criterion} {*loss_f*} {loss_func*}"
_KERAS_LOSSES = "().evaluate keras.losses.*()()"

TABLE = (
    Row(LOADED, "pandas, polars", "pandas.read_* polars.read_* polars.scan_*"),
    Row(LOADED, "numpy, scipy", "numpy.load numpy.loadtxt numpy.genfromtxt numpy.fromfile scipy.sparse.load_npz scipy.io.loadmat scipy.io.wavfile.read"),
    Row(LOADED, "Python", "csv.reader csv.DictReader json.load json.loads pickle.load joblib.load"),
    Row(LOADED, "scikit-learn", "sklearn.datasets.load_files sklearn.datasets.load_svmlight_file*"),
    Row(LOADED, "xgboost, lightgbm, catboost", "xgboost.*DMatrix lightgbm.Dataset catboost.Pool"),
    Row(LOADED, "torch", "torch.utils.data.DataLoader torchvision.datasets.* torchvision.io.read_* torchvision.io.decode_* torchaudio.load"),
    Row(LOADED, "keras", "keras.utils.*_from_directory keras.utils.load_img keras.preprocessing.image.load_img keras.preprocessing.*_from_directory"),
    Row(LOADED, "images, sound, others", "PIL.Image.open cv2.imread imageio.*imread skimage.io.imread soundfile.read librosa.load pyarrow.*.read_table datasets.load_dataset networkx.read_*"),
    Row(DEFINED, "scikit-learn", "sklearn.linear_model.[A-Z]* sklearn.ensemble.[A-Z]* sklearn.tree.[A-Z]* sklearn.svm.[A-Z]* sklearn.neighbors.[A-Z]* sklearn.naive_bayes.[A-Z]* sklearn.neural_network.[A-Z]* sklearn.discriminant_analysis.[A-Z]* sklearn.gaussian_process.Gaussian* sklearn.dummy.[A-Z]* sklearn.multiclass.[A-Z]* sklearn.multioutput.[A-Z]* sklearn.calibration.[A-Z]* sklearn.semi_supervised.[A-Z]* sklearn.cross_decomposition.[A-Z]* sklearn.kernel_ridge.[A-Z]* sklearn.isotonic.[A-Z]* sklearn.cluster.[A-Z]* sklearn.mixture.[A-Z]* sklearn.model_selection.*SearchCV sklearn.pipeline.Pipeline sklearn.pipeline.make_pipeline sklearn.base.ClassifierMixin sklearn.base.RegressorMixin"),
    Row(DEFINED, "named as in scikit-learn", "*Classifier *Regressor"),
    Row(DEFINED, "xgboost", "xgboost.XGB* xgboost.Booster xgboost.train xgboost.cv"),
    Row(DEFINED, "lightgbm", "lightgbm.LGBM* lightgbm.Booster lightgbm.train lightgbm.cv"),
    Row(DEFINED, "catboost", "catboost.CatBoost* catboost.train catboost.cv"),
    Row(DEFINED, "torch", "torch.nn.Module torch.nn.Sequential torchvision.models.[a-z]* torch.hub.load timm.create_model lightning.*LightningModule"),
    Row(DEFINED, "transformers", "transformers.Auto*.from_pretrained transformers.*For*.from_pretrained transformers.*Model.from_pretrained"),
    Row(DEFINED, "keras", "keras.Sequential keras.models.Sequential keras.Model keras.models.Model keras.applications.*"),
    Row(TRAINING, "scikit-learn", _SKLEARN_METRICS, SEEN),
    Row(TRAINING, "torch", _TORCH_LOSSES, SEEN),
    Row(TRAINING, "torch", "torch.Tensor().backward {*loss*}.backward"),
    Row(TRAINING, "keras", f"{_KERAS_LOSSES} keras.*().train_on_batch", SEEN),
    Row(TRAINING, "keras, which computes it as it fits", "keras.*().fit"),
    Row(TRAINED, "scikit-learn, keras, lightning", "().fit ().partial_fit ().fit_predict"),
    Row(TRAINED, "scikit-learn", "sklearn.model_selection.cross_val*"),
    Row(TRAINED, "xgboost, lightgbm, catboost", "xgboost.train xgboost.cv lightgbm.train lightgbm.cv catboost.train catboost.cv"),
    Row(TRAINED, "torch", "torch.optim.*().step {*optim*}.step {opt}.step torch.*GradScaler().step", LOOP),
    Row(TRAINED, "keras", "keras.*().train_on_batch keras.optimizers.*().apply_gradients", LOOP),
    Row(TRAINED, "transformers", "transformers.*Trainer().train"),
    Row(TESTING, "scikit-learn", _SKLEARN_METRICS, HELD_OUT),
    Row(TESTING, "scikit-learn", "sklearn.model_selection.cross_val_score sklearn.model_selection.cross_validate"),
    Row(TESTING, "scikit-learn", "sklearn.model_selection.*SearchCV().fit"),
    Row(TESTING, "xgboost, lightgbm, catboost", "xgboost.cv lightgbm.cv catboost.cv"),
    Row(TESTING, "torch", _TORCH_LOSSES, HELD_OUT),
    Row(TESTING, "keras", _KERAS_LOSSES, HELD_OUT),
    Row(PREDICTED, "scikit-learn, xgboost, lightgbm, catboost, keras", "().predict ().predict_proba ().predict_log_proba ().decision_function ().predict_on_batch xgboost.*().inplace_predict", TEST),
    Row(PREDICTED, "torch", "torch.nn.Module()() torch.nn.Sequential()() torchvision.models.*()() torch.hub.load()() timm.create_model()() {*model*} {*net} {clf}", INFERENCE),
)  # fmt: skip

# A training call with one of these arguments also computes a loss on held-out rows.
WATCHED = ("eval_set", "evals", "valid_sets", "validation_data", "validation_split")

# Preprocessing: fitting one of these trains no model.
PREPARATION = (
    "sklearn.preprocessing.* sklearn.impute.* sklearn.decomposition.* sklearn.feature_extraction.* sklearn.random_projection.*"
    " sklearn.feature_selection.* sklearn.compose.ColumnTransformer* sklearn.compose.make_column_* sklearn.manifold.*"
    " category_encoders.* keras.layers.* keras.preprocessing.* umap.*"
)
# Where the receiver's class is unknown, its name decides: a word of preprocessing, and none of a model.
PREPARATION_WORDS = (
    "scal* enc* imput* imp prep* vectori* vec transform* select* pca svd poly* bin* token* label* le ohe tfidf"
)
MODEL_WORDS = "model* clf* classif* reg* net* estimator*"

NO_GRADIENT = "torch.no_grad torch.inference_mode torch.autograd.no_grad torch.autograd.inference_mode"

# Words in names. X alone means the training rows.
TRAINING_WORDS = frozenset(
    ["train", "trn", "tr", "training", "va", "val", "valid", "validation", "oof", "holdout", "dev", "fold"]
)
HELD_OUT_WORDS = frozenset(
    ["test", "tst", "te", "va", "val", "valid", "validation", "holdout", "oof", "dev", "cv", "eval"]
)
TEST_WORDS = frozenset(["test", "tst", "te", "sub", "submission", "submit", "infer", "inference", "predict"])


LOSSES = f"{_TORCH_LOSSES} {_KERAS_LOSSES}"


@functools.cache
def last_names() -> frozenset[str]:
    """The last parts of the names of the table's methods and functions."""
    calls = {call.removesuffix("()()").rpartition(".")[2] for row in TABLE for call in row.calls.split()}
    return frozenset(call for call in calls if call.isidentifier()) | {"from_pretrained", "backward"}


@functools.cache
def pattern(calls: str, apart: bool = False) -> str:
    """Calls of the table as a regular expression; `apart`: other parts may lie between the parts of a path."""
    patterns = []
    for call in calls.split():
        path, bracket, rest = call.partition("(")
        path = re.escape(path).replace(r"\.", r"\.(?:[\w.]*\.)?") if apart else re.escape(path)
        patterns.append(path + re.escape(bracket + rest))
    text = "|".join(patterns).replace(r"\*", "[^(){}]*")
    return text.replace(r"\[A\-Z\]", "[A-Z]").replace(r"\[a\-z\]", "[a-z]")


@functools.cache
def _compiled(calls: str) -> re.Pattern[str]:
    return re.compile(pattern(calls))


def matches(names: Iterable[str], calls: str) -> bool:
    """Whether one of `names` matches one of `calls` (patterns separated by spaces)."""
    return any(map(_compiled(calls).fullmatch, names))


def as_markdown() -> str:
    """The table as Markdown, for the documentation."""
    lines = ["| report | library | after | when |", "|---|---|---|---|"]
    for row in TABLE:
        calls = ", ".join(f"`{call}`" for call in row.calls.split())
        lines.append(f"| {row.marker} | {row.library} | {calls} | {_SENTENCES[row.when]} |")
    return "\n".join(lines) + "\n"
