import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
features = ["a", "b", "c"]
model = RandomForestClassifier(30, random_state=3)
predicted = model.fit(train[features], train["y"]).predict_proba(test[features])[:, 1]
print(np.round(predicted, 9).tolist())
test[["id"]].assign(y=np.round(predicted, 9)).to_csv("submission.csv", index=False)
