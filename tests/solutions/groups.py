import pandas as pd

train = pd.read_csv("input/train.csv")
print(train.groupby("y").agg(["mean", "size"]).to_string())
print(pd.options.display.max_rows, pd.options.display.width)
