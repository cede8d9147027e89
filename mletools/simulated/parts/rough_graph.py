"""Graphs by how many lines, nodes and neighbours they have."""

import csv
from collections import Counter

import pandas as pd


def graphs(column):
    rows = []
    for path in column:
        with open("input/" + path, newline="") as file:
            lines = list(csv.reader(file))[1:]
        ends = Counter(name for line in lines for name in line[:2])
        rows.append([len(lines), len(ends), len(lines) / max(len(ends), 1), max(ends.values(), default=0)])
    return pd.DataFrame(rows)
