import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
features = ["a", "b", "c"]
model = make_pipeline(StandardScaler(), PCA(2, svd_solver="randomized"), LogisticRegression())
predicted = model.fit(train[features], train["y"]).predict_proba(test[features])[:, 1]
print(np.round(predicted, 9).tolist())
test[["id"]].assign(y=np.round(predicted, 9)).to_csv("submission.csv", index=False)
