"""Series by mean, deviation, least, most, and the last value."""

import csv

import numpy as np
import pandas as pd


def series(column):
    rows = []
    for path in column:
        with open("input/" + path, newline="") as file:
            values = np.array([float(line[1]) for line in list(csv.reader(file))[1:] if line[1]])
        rows.append([values.mean(), values.std(), values.min(), values.max(), values[-1]])
    return pd.DataFrame(rows)
