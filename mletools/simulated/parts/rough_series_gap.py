"""What is asked of a series is told by its mean, its deviation, its last value, and the place of the step asked for."""

import csv

import numpy as np


def units(table, goals, train):
    rows = []
    for path in table["series"]:
        with open("input/" + path, newline="") as file:
            values = np.array([float(line[1]) for line in list(csv.reader(file))[1:] if line[1]])
        rows.append([[at, values.mean(), values.std(), values[-1]] for at in range(len(goals))])
    return np.array(rows), np.zeros((len(table), len(goals))), np.ones((len(table), 1))
