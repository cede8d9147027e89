import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

for _ in range(3):
    warnings.warn("odd")
X = np.random.default_rng(0).normal(size=(40, 3)) * 1000
print(LogisticRegression(max_iter=2).fit(X, X[:, 0] > 0).n_iter_, np.log(np.zeros(1)))
