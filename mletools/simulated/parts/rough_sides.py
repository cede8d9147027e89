"""The first line of each sample in the side tables."""

import pandas as pd


def joined(table, files):
    for file in files:
        side = pd.read_csv("input/" + file)
        if side.columns[0] == "id":
            table = table.merge(side.drop_duplicates("id"), on="id", how="left")
    return table
