"""Which line of a program reports what, library by library, worked out by hand: `#: text, text` ends such a line.

A report behind a loop stands ahead of the statement that follows. Programs are read, not run: most of these libraries are
not installed here (test_instrument_programs runs those of scikit-learn and torch).
"""

import ast

import pytest

from mletools.instrument import MARKERS, instrument
from mletools.instrument.names import head, words
from mletools.instrument.operations import TABLE, as_markdown

PROGRAMS = {
    "scikit-learn": """
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier as Forest
from sklearn import metrics, preprocessing
from sklearn.model_selection import cross_val_score  #: imported packages
train = pd.read_csv("input/train.csv")  #: loaded data
scaler = preprocessing.StandardScaler().fit(train[["a"]])
enc = preprocessing.OneHotEncoder()
enc.fit(train[["b"]])
model = Forest(n_estimators=5)  #: defined model
score = cross_val_score(model, train[["a"]], train["y"])  #: trained model, testing loss:
model.fit(train[["a"]], train["y"])  #: trained model
combined_imp = simple_enc_model = model
simple_enc_model.fit(train[["a"]], 1)  #: trained model
combined_imp.fit(train[["a"]], 1)
simple.fit(train[["a"]], 1)  #: trained model
oof = model.predict_proba(train[["a"]])
print(metrics.log_loss(train["y"], oof))  #: testing loss:
print(metrics.accuracy_score(train["y"], model.predict(train[["a"]])))  #: training loss:
test = pd.read_csv("input/test.csv")  #: loaded data
pred = model.predict(scaler.transform(test[train.columns]))  #: predicted test labels
""",
    "scikit-learn, steps": """
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split, GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler, OneHotEncoder
import pandas as pd  #: imported packages
read = pd.read_csv
train = read("train.csv")  #: loaded data
X_train, X_test = train_test_split(train)
prep = make_pipeline(StandardScaler(), OneHotEncoder())
prep.fit(X_train)
enc = OneHotEncoder()
both = Pipeline([("prep", prep), ("enc", enc)])
both.fit(X_train)
model = Pipeline(steps=[("prep", both), ("ridge", Ridge())])  #: defined model, defined model
search = GridSearchCV(model, {})  #: defined model
search.fit(X_train, 1)  #: trained model, testing loss:
model.predict(X_test)
va = search.predict(X_va)
print(f"{model.fit(X_train)}")
""",
    "scikit-learn, whole": """
from sklearn.linear_model import *
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
import polars as pl  #: imported packages
class Mine(Ridge):
    pass
class Blend(Mine):
    def fit(self, X, y):
        return self
X = pl.read_csv("train.csv"); T = pl.scan_csv("test.csv")  #: loaded data, loaded data
best = make_pipeline(StandardScaler(), Lasso()).fit(X, X["y"])  #: defined model, defined model, trained model
mine = Blend()  #: defined model
print(mine.fit(X, 1).score(X, 1))  #: trained model, training loss:
print(best.predict(X), best.predict(T))  #: predicted test labels
""",
    "xgboost, native": """
import pandas as pd
import xgboost as xgb
from sklearn.metrics import mean_squared_error  #: imported packages
train = pd.read_csv("input/train.csv")  #: loaded data
X_test = pd.read_parquet("input/test.parquet")  #: loaded data
dtrain = xgb.DMatrix(train[["a"]], label=train["y"])  #: loaded data
dval = xgb.DMatrix(train[["a"]][:9], label=train["y"][:9])  #: loaded data
booster = xgb.train({}, dtrain, 10, evals=[(dval, "val")])  #: defined model, trained model, testing loss:
print(mean_squared_error(train["y"][:9], booster.predict(dval)))  #: testing loss:
pred = booster.predict(xgb.DMatrix(X_test))  #: loaded data, predicted test labels
""",
    "xgboost, as scikit-learn": """
from xgboost import XGBClassifier
import pandas  #: imported packages
train, test = pandas.read_csv("train.csv"), pandas.read_csv("test.csv")  #: loaded data, loaded data
model = XGBClassifier()  #: defined model
model.fit(train, train.y, eval_set=[(train, train.y)])  #: trained model, testing loss:
test["y"] = model.predict(test.values)  #: predicted test labels
""",
    "lightgbm": """
import numpy as np
from lightgbm import Dataset, train as fit_booster  #: imported packages
data = np.loadtxt("train.txt")  #: loaded data
lgb_train = Dataset(data[:, 1:], data[:, 0])  #: loaded data
gbm = fit_booster({"objective": "binary"}, lgb_train, valid_sets=[])  #: defined model, trained model
gbm = fit_booster({}, lgb_train, valid_sets=[lgb_train])  #: defined model, trained model, testing loss:
answer = gbm.predict(np.loadtxt("test.txt"))  #: loaded data, predicted test labels
""",
    "catboost": """
import catboost as cb
import pandas as pd
from catboost import CatBoostRegressor, Pool  #: imported packages
df_train = pd.read_feather("train.feather")  #: loaded data
pool = Pool(df_train, cat_features=["c"])  #: loaded data
model = CatBoostRegressor(verbose=0)  #: defined model
model.fit(pool, eval_set=None)  #: trained model
other = cb.train(pool, {"loss_function": "RMSE"})  #: defined model, trained model
print(model.score(pool))  #: training loss:
print(other.predict(Pool(pd.read_feather("test.feather"))))  #: loaded data, loaded data, predicted test labels
""",
    "torch": """
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from PIL import Image  #: imported packages


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Linear(4, 1)

    def forward(self, x):
        return self.layers(x)


class Pictures:
    def __getitem__(self, at):
        return Image.open(f"{at}.png")  #: loaded data


train_loader = DataLoader(Pictures(), batch_size=4)  #: loaded data
val_loader = DataLoader(Pictures())  #: loaded data
test_loader = DataLoader(Pictures())  #: loaded data
device = "cpu"
net = Net().to(device)  #: defined model
criterion = nn.BCEWithLogitsLoss()
optimizer = optim.Adam(net.parameters())
scheduler = optim.lr_scheduler.StepLR(optimizer, 1)
for epoch in range(3):
    net.train()
    for xb, yb in train_loader:
        optimizer.zero_grad()
        loss = criterion(net(xb), yb)  #: training loss:
        loss.backward()  #: training loss:
        optimizer.step()
    with torch.no_grad():
        for xb, yb in val_loader:
            val_loss = F.mse_loss(net(xb), yb)  #: testing loss:
    scheduler.step()
net.eval()  #: trained model
with torch.inference_mode():
    preds = [net(xb) for xb, _ in test_loader]  #: predicted test labels
""",
    "torch, by functions": """
import torch  #: imported packages
def train_one(model, loader, optimizer, loss_fn):
    for x, y in loader:
        loss_fn(model(x), y).backward()  #: training loss:
        optimizer.step()
    return model  #: trained model
@torch.no_grad()
def evaluate(model, loader, criterion):
    return sum(criterion(model(x), y) for x, y in loader)  #: testing loss:
@torch.no_grad()
def predict(model, loader):
    return [model(x) for x in loader]  #: predicted test labels
model = torch.nn.Sequential(torch.nn.Linear(2, 1))  #: defined model
""",
    "keras": """
import os
import keras
import tensorflow as tf
from tensorflow.keras import layers, Sequential
from tensorflow.keras.callbacks import EarlyStopping  #: imported packages
x_train = tf.keras.utils.image_dataset_from_directory("train")  #: loaded data
model = Sequential([layers.Dense(1)])  #: defined model
model.compile("adam", "mse")
norm = layers.Normalization()
norm.fit(x_train)
history = model.fit(x_train, epochs=2, validation_split=0.1)  #: training loss:, trained model, testing loss:
print(model.evaluate(x_train), model.evaluate(x_val))  #: training loss:, testing loss:
base = keras.applications.VGG16()  #: defined model
class Own(keras.Model):
    pass
own = Own()  #: defined model
for step in range(3):
    own.train_on_batch(x_train)  #: training loss:
print(own.predict(x_test))  #: trained model, predicted test labels
""",
    "others": """
import csv, json, soundfile as sf
from tabpfn import TabPFNClassifier
from transformers import AutoModelForSequenceClassification, Trainer  #: imported packages
rows = list(csv.DictReader(open("train.csv")))  #: loaded data
sound, rate = sf.read("a.wav")  #: loaded data
model = AutoModelForSequenceClassification.from_pretrained("x")  #: defined model
trainer = Trainer(model)
trainer.train()  #: trained model
clf = TabPFNClassifier()  #: defined model
clf.partial_fit(rows, rate)  #: trained model
print(clf.predict_proba(X), clf.predict_proba(Xtest))  #: predicted test labels
""",
    "nothing of the kind": """
def fit(x): return x
def read_csv(x): return x
class Shop:
    def train(self, x): return x
    def step(self): return self
print(fit(read_csv("a")), Shop().train(1), Shop().step())
""",
}


def reports_by_line(code: str) -> dict[int, list[str]]:
    """Line: the texts of the reports that stand there."""
    found: dict[int, list[str]] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_report":
            assert isinstance(node.args[0], ast.Constant)
            found.setdefault(node.lineno, []).append(str(node.args[0].value))
    return {line: sorted(texts) for line, texts in sorted(found.items())}


@pytest.mark.parametrize("library", PROGRAMS)
def test_each_line_reports_what_was_worked_out_by_hand(library: str) -> None:
    code = PROGRAMS[library]
    expected = {}
    for number, line in enumerate(code.split("\n"), 1):
        if "#:" in line:
            expected[number] = sorted(line.partition("#:")[2].strip().split(", "))
    result = instrument(code)
    assert result.problem is None and result.code is not None
    assert result.code.count("\n") == code.count("\n") + (library == "nothing of the kind")
    shift = 1 if library == "nothing of the kind" else 0  # the helper's own line, ahead of a definition
    assert {line - shift: texts for line, texts in reports_by_line(result.code).items()} == expected
    told = {text for texts in expected.values() for text in texts}
    assert result.markers == [marker for marker in MARKERS if marker in told]


@pytest.mark.parametrize(
    ("expression", "heads"),
    [
        ("test[train.columns]", ["test"]),
        ("xgb.DMatrix(X_test)", ["xgb", "X_test"]),
        ("test[features].fillna(train.mean())", ["test", "train"]),
        ("scaler.transform(test)", ["scaler", "test"]),
        ("df.drop('y', axis=1)", ["df"]),
        ("3", []),
    ],
)
def test_what_an_argument_begins_with(expression: str, heads: list[str]) -> None:
    assert head(ast.parse(expression, mode="eval").body) == heads


def test_words_of_names() -> None:
    found = words(ast.parse("f(X_test, ytrain, dval.interval, df['holdOut'], evaluation)"))
    assert {"test", "train", "val", "hold", "out", "interval", "evaluation"} <= found
    assert "eval" not in found


@pytest.mark.parametrize(
    "code",
    [
        "x" + "()" * 400 + "\n",
        "x" + ".fit(test)" * 2000 + "\n",
        "f(" * 90 + "1" + ")" * 90 + "\n",
        "".join(f"class C{at}(C{(at + 1) % 300}, C{(at + 7) % 300}): pass\n" for at in range(300)) + "C0().fit(test)\n",
        "a = b = a.fit(b)\nb = a.to(b.fit(a))\n" * 50,
        "if x:\n" + " y = f(1)\n" * 2000,
    ],
)
def test_programs_that_are_made_to_be_slow_or_deep_end(code: str) -> None:
    result = instrument(code)
    assert result.code is not None or "deeply" in str(result.problem) or "parse" in str(result.problem)


def test_the_table_as_markdown_has_all_rows() -> None:
    lines = as_markdown().split("\n")
    assert len(lines) == len(TABLE) + 3 and {row.marker for row in TABLE} == set(MARKERS[1:])
    assert "| trained model | transformers | `transformers.*Trainer().train` | always |" in lines
