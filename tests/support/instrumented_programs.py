"""Programs as models write them, and the reports that each earns when it is run; for test_instrument_programs.

A report is a letter: Imported packages, Loaded data, Defined model, training loss (A), Trained model, testing loss (B),
Predicted test labels. The data: 60 rows to train on (id, a, b, c of text, y), 23 to predict.
"""

# What most begin with.
HEAD = """
import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler, OneHotEncoder, LabelEncoder
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.metrics import log_loss, accuracy_score
from sklearn.model_selection import train_test_split, KFold, GridSearchCV, cross_val_score
"""
LOAD = (
    HEAD
    + """
train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
X, y = train[["a", "b"]], train["y"]
"""
)

PROGRAMS: dict[str, tuple[str, str]] = {
    "functions and a main": (HEAD + """
def load(name):
    return pd.read_csv(f"input/{name}.csv")

def fit(train):
    return LogisticRegression().fit(train[["a", "b"]], train["y"])

def main():
    model = fit(load("train"))
    pred = model.predict(load("test")[["a", "b"]])
    pd.DataFrame({"id": load("test")["id"], "y": pred}).to_csv("submission.csv", index=False)

if __name__ == "__main__":
    main()
""", "ILDTP"),
    "pipeline of preparation only": (LOAD + """
steps = make_pipeline(StandardScaler())
Xs = steps.fit_transform(X)
Pipeline([("scale", StandardScaler())]).fit(X)
StandardScaler().fit(X); model = LabelEncoder().fit(y)
""", "IL"),
    "hold-out named as a test": (LOAD + """
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
model = LogisticRegression().fit(X_train, y_train)
print(accuracy_score(y_test, model.predict(X_test)))
""", "ILDTB"),
    "hold-out of as many rows as the test file": (LOAD + """
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=23, random_state=0)
model = LogisticRegression().fit(X_train, y_train)
p = model.predict(X_test)
X_tr, X_va, y_tr, y_va = train_test_split(X, y, test_size=23, random_state=1)
print(log_loss(y_va, model.predict_proba(X_va)))
""", "ILDTB"),
    "all within f-strings": (HEAD + """
class Box: pass
box = Box()
print(f"{box.__dict__.update(train=pd.read_csv('input/train.csv'))}")
print(f"{box.__dict__.update(m=LogisticRegression().fit(box.train[['a', 'b']], box.train['y']))}")
print(f"{box.m.predict(pd.read_csv('input/test.csv')[['a', 'b']]).shape[0]:>5}")
""", "ILDTP"),
    "executor by reference": (HEAD + """
import asyncio
from concurrent.futures import ThreadPoolExecutor
async def main():
    loop = asyncio.get_running_loop()
    train = await loop.run_in_executor(None, pd.read_csv, "input/train.csv")
    test = await asyncio.to_thread(pd.read_csv, "input/test.csv")
    model = LogisticRegression()
    with ThreadPoolExecutor() as pool:
        pool.submit(model.fit, train[["a", "b"]], train["y"]).result()
        pred = pool.submit(model.predict, test[["a", "b"]]).result()
asyncio.run(main())
""", "ILDTP"),
    "map, partial, Thread, delayed": (HEAD + """
from functools import partial
from threading import Thread
import joblib
train, test = map(pd.read_csv, ["input/train.csv", "input/test.csv"])
model = LogisticRegression()
thread = Thread(target=model.fit, args=(train[["a", "b"]], train["y"]))
thread.start(); thread.join()
predict = partial(model.predict)
(pred,) = joblib.Parallel(n_jobs=1)([joblib.delayed(model.predict)(test[["a", "b"]])])
""", "ILDTP"),
    "other names for things": (HEAD + """
import importlib
read = pd.read_csv
frames = {name: read(f"input/{name}.csv") for name in ("train", "test")}
Forest = getattr(importlib.import_module("sklearn.ensemble"), "RandomForestClassifier")
MODELS = {"forest": lambda: Forest(n_estimators=3), "ridge": Ridge}
clf = MODELS["forest"]()
fit, predict = clf.fit, clf.predict
fit(frames["train"][["a", "b"]], frames["train"]["y"])
predict(frames["test"][["a", "b"]])
""", "ILDTP"),
    "column transformer": (LOAD + """
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
prep = ColumnTransformer([("num", make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]), ("cat", OneHotEncoder(handle_unknown="ignore"), ["c"])])
prep.fit(train)
pipe = Pipeline([("prep", prep), ("clf", RandomForestClassifier(n_estimators=3))])
pipe.fit(train, y)
test["y"] = pipe.predict_proba(test)[:, 1]
""", "ILDTP"),
    "grid search": (LOAD + """
search = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [0.1, 1]}, cv=3)
search.fit(X, y)
print(search.best_score_)
pred = search.best_estimator_.predict(test[["a", "b"]])
""", "ILDTBP"),
    "cross-validation by hand": (LOAD + """
folds = KFold(3, shuffle=True, random_state=0)
oof, pred = np.zeros(len(X)), np.zeros(len(test))
for fold, (tr, va) in enumerate(folds.split(X)):
    model = RandomForestClassifier(n_estimators=3, random_state=fold)
    model.fit(X.iloc[tr], y.iloc[tr])
    oof[va] = model.predict_proba(X.iloc[va])[:, 1]
    pred += model.predict_proba(test[["a", "b"]])[:, 1] / 3
print(log_loss(y, oof))
""", "ILDTBP"),
    "cross-validation that never predicts": (LOAD + """
for tr, va in KFold(3).split(X):
    model = LogisticRegression().fit(X.iloc[tr], y.iloc[tr])
    model.predict_proba(X.iloc[va])
print(cross_val_score(LogisticRegression(), X, y, cv=3).mean())
""", "ILDTB"),
    "stacking": (LOAD + """
stack = StackingClassifier([("rf", RandomForestClassifier(n_estimators=3)), ("lr", LogisticRegression())], cv=2)
print("train", accuracy_score(y, stack.fit(X, y).predict(X)))
sub = pd.read_csv("input/sample_submission.csv")
sub["y"] = stack.predict(test[["a", "b"]])
""", "ILDATP"),
    "a class of one's own around a model": (HEAD + """
class Trainer:
    def __init__(self, path):
        self.df = pd.read_csv(path)
        self.model = Ridge(alpha=1.0)
    def train(self):
        self.model.fit(self.df[["a", "b"]], self.df["y"])
        return self
    def predict(self, df):
        return self.model.predict(df[["a", "b"]])
t = Trainer("input/train.csv").train()
t.predict(pd.read_csv("input/test.csv"))
""", "ILDTP"),
    "an estimator of one's own": (LOAD + """
from sklearn.base import BaseEstimator, ClassifierMixin
class Blend(BaseEstimator, ClassifierMixin):
    def fit(self, X, y):
        self.parts_ = [LogisticRegression(C=c).fit(X, y) for c in (0.1, 1)]
        return self
    def predict_proba(self, X):
        return np.mean([part.predict_proba(X) for part in self.parts_], axis=0)
    def predict(self, X):
        return self.predict_proba(X).argmax(1)
Blend().fit(X, y).predict(test[["a", "b"]])
""", "ILDTP"),
    "a library's class with a fit of one's own": (LOAD + """
class Mine(RandomForestClassifier):
    def fit(self, X, y):
        super().fit(X.fillna(0), y)
        return self
Mine(n_estimators=3).fit(X, y).predict(test[["a", "b"]])
""", "ILDTP"),
    "arguments in a list and a dict": (LOAD + """
args, named = [X, y], {"X": test[["a", "b"]]}
model = LogisticRegression().fit(*args)
model.predict(**named)
""", "ILDTP"),
    "scaled by hand, with the target's logarithm": (LOAD + """
Xs, Ts = StandardScaler().fit_transform(X), StandardScaler().fit_transform(test[["a", "b"]])
Ridge().fit(Xs, np.log1p(train["a"])).predict(Ts)
""", "ILDTP"),
    "notebook": (HEAD + """
# %% load
df = pd.read_csv("./input/train.csv"); df.head()
# %% explore
df.describe(); df["c"].value_counts()
# %% model
le = LabelEncoder(); df["c"] = le.fit_transform(df["c"])
rf = RandomForestClassifier(n_estimators=3).fit(df[["a", "b", "c"]], df.y)
rf.score(df[["a", "b", "c"]], df.y)
# %% predict
tdf = pd.read_csv("./input/test.csv").assign(c=lambda d: le.transform(d["c"]))
preds = rf.predict(tdf[["a", "b", "c"]])
""", "ILDATP"),
    "in batches": (LOAD + """
model = LogisticRegression().fit(X, y)
out = []
for chunk in np.array_split(test[["a", "b"]].to_numpy(), 4):
    out.append(model.predict(chunk))
""", "ILDTP"),
    "row by row": (LOAD + """
model = LogisticRegression().fit(X, y)
pred = [model.predict(row.reshape(1, -1))[0] for row in test[["a", "b"]].to_numpy()]
""", "ILDTP"),
    "standard library only": ("""
import csv
with open("input/train.csv") as file:
    rows = list(csv.DictReader(file))
values = [float(row["y"]) for row in rows]
print(sum(values) / len(values))
""", "IL"),
    "text": (HEAD + """
from sklearn.feature_extraction.text import TfidfVectorizer
train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
vec = TfidfVectorizer(analyzer="char").fit(train["c"])
model = LogisticRegression().fit(vec.transform(train["c"]), train["y"])
model.predict(vec.transform(test["c"]))
""", "ILDTP"),
    "clusters and neighbours": (LOAD + """
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.decomposition import PCA
from sklearn.cluster import KMeans
PCA(1).fit(X); NearestNeighbors().fit(X)
X2 = X.assign(k=KMeans(2, n_init=1).fit_predict(X))
""", "ILDT"),
    "worker processes of one's own functions": (HEAD + """
from multiprocessing import Pool
def load(name):
    return pd.read_csv(f"input/{name}.csv")
with Pool(2) as pool:
    train, test = pool.map(load, ["train", "test"])
Ridge().fit(train[["a", "b"]], train["y"])
""", "ILDT"),
    "predicts all training rows": (LOAD + """
model = RandomForestClassifier(n_estimators=3).fit(X, y)
pred = model.predict(X)
proba = model.predict_proba(X[:30])
""", "ILDT"),
    "fails at the fit": (LOAD + """
model = LogisticRegression()
model.fit(X, train["no such column"])
""", "ILD"),
    "fails at the prediction": (LOAD + """
model = LogisticRegression()
model.fit(X, y)
model.predict(test)
""", "ILDT"),
    "model from a star import": ("""
from pandas import *
from sklearn.linear_model import *
d = read_csv("input/train.csv")
Ridge().fit(d[["a", "b"]], d["y"]).predict(read_csv("input/test.csv")[["a", "b"]])
""", "ILDTP"),
}  # fmt: skip

TORCH = """
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
x, y = torch.tensor(train[["a", "b"]].values).float(), torch.tensor(train["y"].values).float()
xt = torch.tensor(test[["a", "b"]].values).float()
train_loader = DataLoader(TensorDataset(x[:40], y[:40]), batch_size=8)
val_loader = DataLoader(TensorDataset(x[40:], y[40:]), batch_size=8)
test_loader = DataLoader(TensorDataset(xt), batch_size=8)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))

    def forward(self, x):
        return self.layers(x).squeeze(1)
"""
LOOP = """
def train_epoch(model, loader, optimizer, criterion):
    model.train()
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()

def evaluate(model, loader, criterion):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for xb, yb in loader:
            total += criterion(model(xb), yb).item()
    return total

model = Net()
opt = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(2):
    train_epoch(model, train_loader, opt, criterion)
    print(epoch, evaluate(model, val_loader, criterion))
"""
TORCH_PROGRAMS: dict[str, tuple[str, str]] = {
    "torch by functions": (TORCH + LOOP + """
preds = []
with torch.no_grad():
    for (xb,) in test_loader:
        preds.append(torch.sigmoid(model(xb)))
""", "ILDATBP"),
    "torch that never predicts": (TORCH + LOOP, "ILDATB"),
    "torch that only defines": (TORCH + "model = Net(); criterion = nn.MSELoss(); opt = torch.optim.SGD(model.parameters(), lr=1)\nopt.step()\n", "ILD"),
    "torch with a schedule": (TORCH + """
model = Net(); opt = torch.optim.AdamW(model.parameters()); schedule = torch.optim.lr_scheduler.StepLR(opt, 1)
criterion = nn.BCEWithLogitsLoss()
for _ in range(2):
    for xb, yb in train_loader:
        opt.zero_grad(); loss = criterion(model((xb - 5) / 3), yb); loss.backward(); opt.step()
    schedule.step()
""", "ILDAT"),
    "torch, a loss of one's own": (TORCH + """
model = nn.Linear(2, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    error = ((model(x).squeeze() - y) ** 2).mean()
    opt.zero_grad(); error.backward(); opt.step()
model.eval()
with torch.inference_mode():
    pred = model(xt)
""", "ILDATP"),
    "torch, compiled": (TORCH + """
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 1)])
    def forward(self, x):
        for layer in self.layers:
            x = scaled(layer(x), nn.Softplus())
        return x.squeeze()
def scaled(x, gate):
    for _ in range(2):
        x = gate(x) / 2
    return x
model = torch.compile(Deep(), backend="eager", fullgraph=True); opt = torch.optim.SGD(model.parameters(), lr=0.1)
def train_step(xb, yb):
    loss = nn.MSELoss()(model(xb), yb)
    opt.zero_grad(); loss.backward(); opt.step()
for _ in range(2):
    for xb, yb in train_loader:
        train_step(xb, yb)
model.eval()
with torch.no_grad():
    pred = model(xt)
""", "ILDATP"),
}  # fmt: skip

# Programs that do nothing of what they pretend.
CHEATS: dict[str, tuple[str, str]] = {
    "comments and strings": ('import os\n"""pd.read_csv model.fit(X, y) model.predict(test)"""\n# model.fit(train); model.predict(test)\ns = "trained model"\n', "I"),
    "prints the texts": ("import os\n" + "".join(f"print({text!r})\n" for text in ("loaded data", "defined model", "training loss:", "trained model", "testing loss:", "predicted test labels")), "I"),
    "dead code": (HEAD + "if False:\n    d = pd.read_csv('input/train.csv'); m = Ridge().fit(d, d); m.predict(d)\ndef never():\n    return Ridge().fit(pd.read_csv('input/train.csv'), 1)\n", "I"),
    "classes of the same names": ("""
import os
class RandomForestClassifier:
    def fit(self, X, y): return self
    def predict(self, X): return [0] * 23
class pd:
    @staticmethod
    def read_csv(name): return [1, 2, 3]
open("input/train.csv").close()
train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
model = RandomForestClassifier()
model.fit(train, train)
model.predict(test)
""", "I"),
    "a module of the same name": ("""
import sys, types
open("input/train.csv").close()
fake = types.ModuleType("sklearn.linear_model"); fake.__file__ = "/usr/lib/python3/sklearn.py"
exec("class Ridge:\\n def fit(self, X, y): return self\\n def predict(self, X): return [0] * 23", fake.__dict__)
sys.modules["sklearn"] = sys.modules["sklearn.linear_model"] = fake
Ridge = fake.Ridge
Ridge().fit(1, 2).predict(3)
""", "I"),
    "without data": (HEAD + """
import io
toy = pd.read_csv(io.StringIO("a,y\\n0,0\\n1,1"))
m = LogisticRegression().fit([[0], [1]], [0, 1])
m.predict(np.zeros((23, 1))); log_loss([0, 1], [0.1, 0.9])
""", "I"),
    "patched builtins": ("""
import builtins, os
open("input/train.csv").close()
builtins.isinstance = lambda *a: True
builtins.hasattr = lambda *a: True
builtins.any = lambda *a: True
os.path.realpath = lambda path: os.getcwd() + "/input/train.csv"
class Model:
    def fit(self, X, y): return self
    def predict(self, X): return [0] * 23
Model().fit(1, 2).predict(3)
""", "I"),
}  # fmt: skip

# Libraries that need not be installed, as far as the programs below use them.
STUBS = {
    "xgboost/__init__.py": """
from .core import Booster, DMatrix, train
from .sklearn import XGBClassifier
""",
    "xgboost/core.py": """
import numpy as np
class DMatrix:
    def __init__(self, data, label=None): self.rows = len(data)
class Booster:
    def predict(self, data): return np.zeros(data.rows)
def train(params, dtrain, num_boost_round=10, evals=()): return Booster()
""",
    "xgboost/sklearn.py": """
import numpy as np
class XGBModel:
    def __init__(self, **options): pass
    def fit(self, X, y, eval_set=None, verbose=True): return self
    def predict(self, X): return np.zeros(len(X))
class XGBClassifier(XGBModel):
    def predict_proba(self, X): return np.zeros((len(X), 2))
""",
    "lightgbm/__init__.py": """
import numpy as np
class Dataset:
    def __init__(self, data, label=None): pass
class Booster:
    def predict(self, data): return np.zeros(len(data))
def train(params, train_set, valid_sets=()): return Booster()
def early_stopping(rounds): return lambda env: None
""",
    "catboost/__init__.py": """
import numpy as np
class Pool:
    def __init__(self, data, label=None, cat_features=()): self.rows = len(data)
class CatBoost:
    def __init__(self, **options): pass
    def fit(self, X, y=None, eval_set=None): return self
    def predict(self, X): return np.zeros(X.rows if isinstance(X, Pool) else len(X))
class CatBoostRegressor(CatBoost): pass
""",
    "keras/__init__.py": "from . import layers\nfrom .src import Sequential\n",
    "keras/layers.py": "class Dense:\n    def __init__(self, *a, **k): pass\n    def fit(self, x): pass\n",
    "keras/src.py": """
import numpy as np
class Model:
    def compile(self, *a, **k): pass
    def fit(self, x, y, epochs=1, validation_split=0.0, verbose=0): return self
    def evaluate(self, x, y): return 0.5
    def predict(self, x, verbose=0): return np.zeros((len(x), 1))
class Sequential(Model):
    def __init__(self, layers): pass
""",
}
_READ = """
import numpy as np
import pandas as pd
train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
X, y, T = train[["a", "b"]], train["y"], test[["a", "b"]]
"""
STUB_PROGRAMS: dict[str, tuple[str, str]] = {
    "xgboost, as scikit-learn": ("from xgboost import XGBClassifier\n" + _READ + """
model = XGBClassifier(n_estimators=100)
model.fit(X[:40], y[:40], eval_set=[(X[40:], y[40:])], verbose=False)
pred = model.predict_proba(T)[:, 1]
""", "ILDTBP"),
    "xgboost, native": ("import xgboost as xgb\n" + _READ + """
booster = xgb.train({"max_depth": 3}, xgb.DMatrix(X, label=y), num_boost_round=5)
va = booster.predict(xgb.DMatrix(X[37:]))
print(booster.predict(xgb.DMatrix(T)))
""", "ILDTP"),
    "lightgbm in folds": ("import lightgbm as lgb\n" + _READ + """
pred = np.zeros(len(T))
for at in range(2):
    dtrain, dval = lgb.Dataset(X[at::2], y[at::2]), lgb.Dataset(X[1 - at::2], y[1 - at::2])
    gbm = lgb.train({"objective": "binary"}, dtrain, valid_sets=[dval])
    oof = gbm.predict(X[1 - at::2])
    pred += gbm.predict(T) / 2
""", "ILDTBP"),
    "catboost": ("from catboost import CatBoostRegressor, Pool\n" + _READ + """
model = CatBoostRegressor(iterations=10, verbose=0)
model.fit(Pool(X, y))
test["y"] = model.predict(Pool(T))
""", "ILDTP"),
    "keras": ("import keras\nfrom keras import layers\n" + _READ + """
layers.Dense(3).fit(X)
model = keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(X.values, y.values, epochs=3, validation_split=0.2, verbose=0)
pred = model.predict(T.values, verbose=0).ravel()
""", "ILDATBP"),
}  # fmt: skip
