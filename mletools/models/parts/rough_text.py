"""Texts by their length and a few of the commonest words."""

import os

import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer


def words(column):
    if os.path.exists("input/" + column.iloc[0]):
        column = column.map(lambda path: open("input/" + path, encoding="utf-8").read())
    counts = CountVectorizer(max_features=15).fit_transform(column).toarray()
    sizes = [[len(text), len(text.split())] for text in column]
    return pd.concat([pd.DataFrame(sizes), pd.DataFrame(counts)], axis=1)
