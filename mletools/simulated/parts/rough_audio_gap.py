"""A silent sample is told by its place in the gap and by what stands right before and after the gap."""

import wave

import numpy as np


def units(table, goals, train):
    rows = []
    for path, start in zip(table["audio"], table["gap_start"], strict=True):
        with wave.open("input/" + path) as file:
            level = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2") / 32768
        seen = [level.std(), level[start - 1], level[start + len(goals)]]
        rows.append([[at, *seen] for at in range(len(goals))])
    return np.array(rows), np.zeros((len(table), len(goals))), np.ones((len(table), 1))
