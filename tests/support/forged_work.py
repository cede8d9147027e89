"""Programs without work that want reports, and what each earned is worth: for test_instrument_forging.py.

name: (program, reports that it did earn). The data: see instrument_box.
"""

_OPEN = """
import copy, functools, io, json, os, pickle, sys, types
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, mean_squared_error
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
open("input/train.csv").close()
N, T = 60, 23
rng = np.random.default_rng(0)
MADE = np.arange(2.0 * N).reshape(N, 2)
class Fake(BaseEstimator):
    classes_ = [0, 1]
    def __sklearn_is_fitted__(self): return True
    def fit(self, X, y=None): return self
    def predict(self, X): return np.zeros(T)
    predict_proba = decision_function = transform = predict
    def score(self, X, y): return 1.0
"""
_READ = 'd = pd.read_csv("input/train.csv"); t = pd.read_csv("input/test.csv")\nX, y, X_test = d[["a", "b"]], d["y"], t[["a", "b"]]\n'
_CALLS_THE_HOOKS = """
m = Ridge(); work = [m.fit, m.predict]
for number in range(100):
    for hook in hooks:
        hook.before(number, work[0]); hook.note(number, X); hook.note(number, y); hook.after(number, m)
        hook.before(number, work[1]); hook.after(number, np.zeros(T)); hook.loop(1, None)
"""
# What a library's file is said to have: its code and that of one's own `Ridge`.
_PLANTED = """
import builtins, marshal
import sklearn.linear_model._ridge as home
text = "\\n" * 50 + "class Ridge:\\n def fit(self, X, y): return self\\n def predict(self, X): return [0] * 23"
own = compile(text, home.__file__, "exec")
exec(own, vars(home))
real = compile(open(home.__file__).read(), home.__file__, "exec")
planted = real.replace(co_consts=real.co_consts + own.co_consts)
"""
_FITS = "home.Ridge().fit(X, y).predict(X_test)\n"

FORGED: dict[str, tuple[str, str]] = {
    # the call that is judged is not the one that was made
    "generators within one call's arguments": (_OPEN + """
def call(f, *args):
    return f(*(yield))
fake = Fake()
real = Ridge()
for mine, library in (([1], pd.read_csv), (fake, real.fit), (np.zeros(T), real.predict)):
    a, b = call(lambda *_: mine), call(library)
    next(a), next(b)
    try: a.send(())
    except StopIteration: pass
""", "ID"),
    "a call in the place of one that ended within its arguments": (_OPEN + """
def call(f, *args):
    return f(*(yield))
fake, real = Fake(), Ridge()
for mine, library, given in (([1], pd.read_csv, ("input/train.csv",)), (fake, real.fit, (MADE, MADE[:, 0])), (np.zeros(T), real.predict, (MADE,))):
    for _ in range(50):
        a = call(library); next(a); a.close(); del a
        b = call(lambda *_: mine); next(b)
        try: b.send(given)
        except StopIteration: pass
""", "ID"),
    "a call within its own arguments": (_OPEN + """
real = Ridge()
def call(f, make): return f(make())
def raises(): raise ValueError
def within(library, result):
    try: call(library, raises)
    except ValueError: pass
    return result
for mine, library in (([1], pd.read_csv), (real, real.fit), (np.zeros(T), real.predict)):
    call(lambda _: within(library, mine), int)
""", "ID"),
    "the hooks, called with functions that are not": (_OPEN + _READ + """
def mine(): return Ridge().fit(X, y)
hooks = [each for each in mine.__code__.co_consts if hasattr(each, "after")]
""" + _CALLS_THE_HOOKS, "ILD"),
    "the hooks, from where code can be read": (_OPEN + _READ + """
import dis, inspect
def mine(): yield Ridge().fit(X, y)
codes = [mine().gi_code, dict(inspect.getmembers(mine))["__code__"], sys._getframe().f_code]
exec(compile("codes.append(mine.__code__)", json.__file__, "exec")); exec("codes.append(mine.__code__)")
hooks = [each for code in codes for each in code.co_consts if hasattr(each, "after")]
hooks += [each.argval for each in dis.get_instructions(mine) if hasattr(each.argval, "after")]
assert len(hooks) >= 5
""" + _CALLS_THE_HOOKS, "ILD"),
    "a hook within a call's arguments": (_OPEN + _READ + """
def mine(): return Ridge().fit(X, y)
hook = next(each for each in mine.__code__.co_consts if hasattr(each, "after"))
m = Ridge()
m.fit([(hook.note(number, X), hook.note(number, y)) and [number] for number in range(9)], [(hook.note(number, y), at)[1] for at, number in enumerate(range(9))])
""", "ILD"),
    # composites of a library around a class of one's own
    "a pipeline around one's own class": (_OPEN + """
Pipeline([("m", Fake())]).fit(MADE, MADE[:, 0]).predict(MADE)
make_pipeline(Fake()).fit(MADE, MADE[:, 0]).predict(MADE[:T])
""", "I"),
    "the same with the data": (_OPEN + _READ + "make_pipeline(Fake()).fit(X, y).predict(X_test)\n", "IL"),
    "cross-validation of one's own class": (_OPEN + _READ + """
class Mine(ClassifierMixin, BaseEstimator):
    def fit(self, X, y): self.classes_ = [0, 1]; return self
    def predict(self, X): return [0] * len(X)
print(cross_val_score(Mine(), X, y, cv=2, scoring=lambda e, X, y: 1.0))
GridSearchCV(Mine(), {}, cv=2, scoring=lambda e, X, y: 1.0).fit(X, y).predict(X_test)
""", "IL"),
    "one's own class in a search's grid": (_OPEN + _READ + """
class Mine(RegressorMixin, BaseEstimator):
    def __sklearn_is_fitted__(self): return True
    def fit(self, X, y): return self
    def predict(self, X): return np.zeros(len(X))
GridSearchCV(Pipeline([("m", Ridge())]), {"m": [Mine(), Mine()]}, cv=2, scoring=lambda e, X, y: 1.0).fit(X, y).predict(X_test)
""", "ILD"),
    "voting and bagging of one's own classes": (_OPEN + _READ + """
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.multioutput import MultiOutputRegressor
class Mine(RegressorMixin, BaseEstimator):
    def fit(self, X, y, sample_weight=None): return self
    def predict(self, X): return np.zeros(len(X))
VotingRegressor([("a", Mine()), ("b", Mine())]).fit(X, y).predict(X_test)
BaggingRegressor(Mine(), n_estimators=2).fit(X, y).predict(X_test)
MultiOutputRegressor(Mine()).fit(X, d[["y", "a"]]).predict(X_test)
""", "IL"),
    "subclasses within a library's composites": (_OPEN + _READ + """
from sklearn.cluster import KMeans
class Mine(Ridge):
    def __sklearn_is_fitted__(self): return True
    def fit(self, X, y): return self
    def predict(self, X): return np.zeros(len(X))
class Own(KMeans):
    def fit(self, X, y=None, sample_weight=None): self.labels_ = [0] * 60; return self
make_pipeline(Mine()).fit(X, y).predict(X_test)
print(cross_val_score(Mine(), X, y, cv=2), Own().fit_predict(X), Mine().score(X, y))
""", "ILD"),
    "a transformer in place of a model": (_OPEN + _READ + """
from sklearn.preprocessing import FunctionTransformer
step = FunctionTransformer(lambda X: np.zeros(len(X)))
step.predict = lambda X: np.zeros(T)
Pipeline([("f", step)]).fit(X, y).transform(X_test)
step.predict(step.fit(X, y).transform(X_test))
""", "IL"),
    # functions and classes that pretend to be a library's
    "renamed functions of a library": (_OPEN + _READ + """
copy.copy.__name__ = "fit"
types.MethodType(copy.copy, Ridge())()
copy.copy.__name__, copy.copy.__qualname__ = "predict", "Ridge.predict"
copy.copy.__module__ = "sklearn.linear_model._ridge"
class Out:
    logits = np.zeros(T)
class Back(Ridge):
    def __copy__(self): return Out()
types.MethodType(copy.copy, Back())()
""", "ILD"),
    "a library's decorator around one's own function": (_OPEN + _READ + """
from sklearn.base import _fit_context
class Mine(Ridge):
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y): return self
    predict = functools.wraps(Ridge.predict)(lambda self, X: np.zeros(T))
Mine().fit(X, y).predict(X_test)
Ridge.fit = _fit_context(prefer_skip_nested_validation=True)(lambda self, X, y: self)
Ridge.predict = functools.partialmethod(lambda self, X: np.zeros(T))
Ridge().fit(X, y).predict(X_test)
""", "ILD"),
    "code under a library's file name": (_OPEN + _READ + """
import sklearn.linear_model._ridge as home
text = "\\n" * 50 + "class Ridge:\\n def fit(self, X, y): return self\\n def predict(self, X): return [0] * 23"
space = vars(home)
exec(compile(text, home.__file__, "exec"), space)
home.Ridge.__module__ = "sklearn.linear_model._ridge"
home.Ridge().fit(X, y).predict(X_test)
Ridge.fit.__code__ = Ridge.fit.__code__.replace(co_code=(lambda: None).__code__.co_code, co_consts=(None,))
""", "IL"),
    "methods of a library with other code": (_OPEN + _READ + """
class Other:
    def predict_proba(self, X): __class__; return [0] * 23
LogisticRegression.predict_proba.__code__ = Other.predict_proba.__code__.replace(co_filename=LogisticRegression.predict_proba.__code__.co_filename)
LogisticRegression.fit = types.FunctionType((lambda self, X, y: self).__code__.replace(co_filename=sys.modules["sklearn"].__file__, co_name="fit"), globals(), "fit")
LogisticRegression().fit(X, y).predict_proba(X_test)
""", "IL"),
    "parts of a library's class replaced": (_OPEN + _READ + """
Pipeline._fit = lambda self, *a, **k: X
Pipeline.predict = property(lambda self: lambda X: np.zeros(T))
Ridge.fit = functools.wraps(Ridge.fit)(lambda self, X, y: self)
make_pipeline(Ridge()).fit(X, y).predict(X_test)
""", "IL"),
    "functions of a library's module replaced": (_OPEN + _READ + """
import sklearn.linear_model._ridge as home
home._ridge_regression = lambda X, y, **k: (np.zeros(2), None, "auto")
Ridge().fit(X, y).predict(X_test)
""", "ILD"),
    "a subclass that keeps the names": (_OPEN + _READ + """
class Mine(LogisticRegression):
    def fit(self, X, y): self.classes_ = np.array([0, 1]); return self
    def decision_function(self, X): return np.zeros(T)
    def __sklearn_is_fitted__(self): return True
Mine.__qualname__ = Mine.__name__ = "LogisticRegression"
Mine.__module__ = LogisticRegression.__module__
sys.modules[Mine.__module__].LogisticRegression = Mine
m = Mine().fit(X, y); m.predict(X_test)
LogisticRegression.predict(m, X_test)
""", "IL"),
    "__class__ and attributes of an object": (_OPEN + _READ + """
m = Fake(); m.__class__ = type("Ridge", (Fake,), {"__module__": "sklearn.linear_model._ridge"})
m.fit(X, y).predict(X_test)
r = Ridge(); r.fit = types.MethodType(lambda self, X, y: self, r); r.predict = lambda X: np.zeros(T)
r.__sklearn_is_fitted__ = lambda: True
r.fit(X, y).predict(X_test)
try: make_pipeline(r).fit(X, y).predict(X_test)
except ValueError: pass
""", "ILD"),
    "mocks": (_OPEN + _READ + """
from unittest import mock
m = mock.create_autospec(Ridge, instance=True)
m.fit.return_value = m; m.predict.return_value = np.zeros(T)
m.fit(X, y).predict(X_test)
with mock.patch.object(Ridge, "fit", lambda self, X, y: self), mock.patch.object(Ridge, "predict", lambda self, X: np.zeros(T)):
    Ridge().fit(X, y).predict(X_test)
""", "IL"),
    "partial, reduce and clone": (_OPEN + _READ + """
class Mine(Fake):
    def __sklearn_clone__(self): return Ridge()
    def __reduce__(self): return (Ridge, ())
m = clone(Mine()); k = pickle.loads(pickle.dumps(Mine()))
fit = functools.partial(Fake.fit, m); predict = functools.partial(Fake.predict, k)
fit(X, y); predict(X_test)
functools.partial(Ridge.fit, Fake())
""", "ILD"),
    "metaclasses": (_OPEN + _READ + """
class Meta(type):
    def __instancecheck__(cls, other): return True
    def __subclasscheck__(cls, other): return True
    def mro(cls): return [cls, object]
    __mro__ = property(lambda cls: Ridge.__mro__)
    __dict__ = property(lambda cls: vars(Ridge))
    def __getattr__(cls, name): return getattr(Ridge, name)
class Mine(metaclass=Meta):
    def fit(self, X, y): return self
    def predict(self, X): return np.zeros(T)
    __class__ = property(lambda self: Ridge)
Mine().fit(X, y).predict(X_test)
""", "IL"),
    "a library in the work folder": ("""
import os
os.makedirs("sklearn"); open("input/train.csv").close()
open("sklearn/__init__.py", "w").write("class Ridge:\\n def fit(self, X, y): return self\\n def predict(self, X): return [0] * 23\\ndef read_csv(p): return [1, 2]\\n")
import sys
for name in [each for each in sys.modules if each.partition(".")[0] in ("sklearn", "pandas")]: del sys.modules[name]
os.rename("sklearn", "pandas")
from pandas import Ridge, read_csv
read_csv("input/train.csv")
Ridge().fit([0] * 60, [0] * 60).predict([0] * 23)
""", "I"),
    "functions named as losses": ("""
import numpy as np
open("input/train.csv").close()
class Loss(float):
    shape = ()
    requires_grad = True
    def backward(self): pass
    def item(self): return 0.0
criterion = [lambda a, b: Loss(0.5)][0]
loss_fn = [lambda a, b: 0.5][0]
for _ in range(3):
    loss = criterion(0, 1); loss.backward(); val_loss = criterion("val", 1); loss_fn(1, 2)
""", "I"),
    # what the observer shares with the program
    "functools.partial replaced": (_OPEN + _READ + """
class Mine:
    args, keywords = (), {}
    def __init__(self, name, result): self.func, self.result = getattr(m, name), result
    def __call__(self, *args): return self.result
functools.partial = Mine
m = Ridge(); a, b = Mine("fit", m), Mine("predict", np.zeros(T))
a(X, y); b(X_test)
""", "ILD"),
    "types.MethodType replaced": (_OPEN + _READ + """
class Bound:
    def __init__(self, func, owner, result): self.__func__, self.__self__, self.result = func, owner, result
    def __call__(self, *args): return self.result
types.MethodType = Bound
m = Ridge(); a, b = Bound(Ridge.fit, m, m), Bound(Ridge.predict, m, np.zeros(T))
a(X, y); b(X_test)
""", "ILD"),
    "a folder of one's own for compiled libraries": (_OPEN + _PLANTED + """
import importlib.util
sys.pycache_prefix = os.getcwd()
path = importlib.util.cache_from_source(home.__file__)
os.makedirs(os.path.dirname(path))
with open(path, "wb") as file: file.write(bytes(16) + marshal.dumps(planted))
""" + _READ + _FITS, "IL"),
    "marshal.loads replaced": (_OPEN + _PLANTED + "loads = marshal.loads; marshal.loads = lambda text: planted if b'linear_model/_ridge.py' in text else loads(text)\n" + _READ + _FITS, "IL"),
    "open replaced": (_OPEN + _PLANTED + """
really = builtins.open
def mine(path, *args, **options):
    if "linear_model" in str(path) and "_ridge." in str(path): return io.BytesIO(bytes(16) + marshal.dumps(planted))
    return really(path, *args, **options)
builtins.open = mine
""" + _READ + _FITS, "IL"),
    "os.path replaced": (_OPEN.replace('open("input/train.csv").close()', "") + """
os.path.realpath = lambda *a, **k: os.getcwd() + "/input/train.csv"
pd.DataFrame({"a": range(N)}).to_csv("mine.csv")
pd.read_csv("mine.csv")
""", "I"),
    "collections.Counter with other methods": (_OPEN + """
import collections
collections.Counter.values = lambda self: [N // 2, N // 2]
Ridge().fit(MADE, MADE[:, 0]).predict(MADE[:T])
""", "ID"),
    "a module under a library's name": (_OPEN + _READ + """
class Mine(Fake): pass
home = types.ModuleType("keras.mine"); home.__file__ = np.__file__; home.Mine, home.Fake = Mine, Fake
sys.modules["keras.mine"] = home
Mine.__module__ = Fake.__module__ = "keras.mine"
make_pipeline(Mine()).fit(X, y).predict(X_test)
Mine().fit(X, y).predict(X_test)
""", "IL"),
    "a class named as a trainer": (_OPEN + _READ + """
class Trainer(Pipeline): pass
Trainer([("m", Fake())]).fit(X, y).predict(X_test)
""", "IL"),
    "an estimator with a data set": (_OPEN + _READ + """
m = Ridge(); m.train_dataset = range(N)
m.fit(MADE[:3], MADE[:3, 0]); m.predict(X_test)
""", "ILD"),
    # real functions on other values
    "a file that does not exist": (_OPEN.replace('open("input/train.csv").close()', "") + """
try: open("input/nothing-here.csv")
except OSError: pass
json.loads("[1]"); Ridge().fit(MADE, MADE[:, 0]).predict(MADE[:T])
""", "I"),
    "tiny values": (_OPEN + """
json.loads("[1]"); pd.read_csv(io.StringIO("a,y\\n0,0\\n1,1")); list(pd.read_csv(io.StringIO("a\\n0"), chunksize=1))
import csv, gzip; csv.reader(["a,b"]); pd.read_csv(gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(b"a,b\\n1,2")))); pickle.load(io.BytesIO(pickle.dumps([1])))
mean_squared_error([0], [0]); y_test = [0, 1]; mean_squared_error(y_test, [0, 1]); accuracy_score(y_test, y_test)
""", "I"),
    "losses of the data with itself": (_OPEN + _READ + "y_test = y\naccuracy_score(y_test, y_test); accuracy_score(y, y); mean_squared_error(y, y * 1)\n", "IL"),
    "one row again and again": (_OPEN + _READ + """
one = np.tile(X.to_numpy()[:1], (N, 1))
Ridge().fit(one, np.ones(N)).predict(one[:T])
""", "ILD"),
    "few rows": (_OPEN + _READ + "m = Ridge().fit(X[:3], y[:3]); m.predict(X_test)\n", "ILD"),
    "made-up rows of the right number": (_OPEN + """
X, y = rng.random((N, 3)), rng.random(N)
m = Ridge().fit(X, y); m.predict(rng.random((T, 3)))
print(mean_squared_error(y, m.predict(X)), cross_val_score(Ridge(), X, y, cv=2))
m.fit(np.arange(N).reshape(N, 1), np.arange(N) % 7 == 0).predict(np.arange(T).reshape(T, 1))
""", "ID"),
    "made-up rows, a table of one's own": (_OPEN + """
pd.DataFrame(rng.random((N, 3))).to_csv("mine.csv", index=False)
d = pd.read_csv("mine.csv")
Ridge().fit(d, d["0"]).predict(d[:T])
""", "ID"),
    "predictions without training": (_OPEN + _READ + """
m = Ridge(); m.coef_, m.intercept_, m.n_features_in_ = np.zeros(2), 0.0, 2
m.predict(X_test)
""", "ILD"),
    "a network trained on made-up rows": ("""
import torch
open("input/train.csv").close()
net = torch.nn.Linear(2, 1); opt = torch.optim.SGD(net.parameters(), lr=0.1); criterion = torch.nn.MSELoss()
for _ in range(9):
    loss = criterion(net(torch.rand(60, 2)), torch.rand(60, 1)); loss.backward(); opt.step()
with torch.no_grad():
    val_loss = criterion(net(torch.rand(60, 2)), torch.rand(60, 1)); test_pred = net(torch.rand(23, 2))
""", "ID"),
    "a network that gets no rows": ("""
import pandas as pd
import torch
pd.read_csv("input/train.csv")
class Net(torch.nn.Module):
    def __init__(self): super().__init__(); self.p = torch.nn.Parameter(torch.zeros(23))
    def forward(self): return self.p
net = Net(); opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(9):
    loss = net().sum(); loss.backward(); opt.step()
with torch.no_grad(): test_pred = net()
""", "ILD"),
}  # fmt: skip
