"""Graphs, each edge once, by degrees, motifs, parts, distances, spectrum and weights."""

import csv

import numpy as np
import pandas as pd
from scipy.sparse import csgraph, csr_matrix


def graphs(column):
    return pd.DataFrame([measured("input/" + path) for path in column]).fillna(0)


def measured(path):
    with open(path, newline="") as file:
        lines = list(csv.reader(file))[1:]
    lines = [[line[0].strip().lower(), line[1].strip().lower(), *line[2:]] for line in lines if len(line) > 1]
    names = sorted({name for line in lines for name in line[:2]})
    at = {name: number for number, name in enumerate(names)}
    size = len(names)
    table, weights, loops, several, there = np.zeros((size, size)), [], 0, 0, set()
    for line in lines:
        one, other = at[line[0]], at[line[1]]
        loops += one == other
        several += (one, other) in there or (other, one) in there
        there.add((one, other))
        weight = float(line[2].replace(",", ".")) if len(line) > 2 and line[2] else 1.0
        if one != other:
            table[one, other] = table[other, one] = weight
            weights.append(weight)
    tie = (table != 0).astype(float)
    back = np.mean([(other, one) in there for one, other in there]) if there else 0
    return [size, len(lines), loops, several, back, *motifs(tie), *ways(tie), *heaviness(table, tie, weights)]


def motifs(tie):
    degree = tie.sum(axis=1)
    size = max(len(tie), 1)
    ordered = np.sort(degree)[::-1] / max(degree.sum(), 1)
    square = tie @ tie
    triangles = np.diag(square @ tie) / 2
    pairs = degree * (degree - 1) / 2
    wedges = max(pairs.sum(), 1)
    shared = square - np.diag(np.diag(square))
    fours = (shared * (shared - 1)).sum() / 4
    one, other = np.nonzero(tie)
    alike = np.corrcoef(degree[one], degree[other])[0, 1] if degree[one].std() > 0 else 0.0
    local = np.where(pairs > 0, triangles / np.maximum(pairs, 1), 0)
    shares = [(degree == k).mean() for k in (1, 2, 3)]
    bins = [
        degree.mean(),
        degree.std(),
        degree.max(),
        np.median(degree),
        (degree**2).mean() / max(degree.mean() ** 2, 1e-9),
    ]
    counts = [
        triangles.sum() / 3,
        triangles.sum() / wedges,
        local.mean(),
        local.std(),
        fours,
        fours / max(tie.sum(), 1),
    ]
    core = tie.copy()
    cores = []
    for least in (2, 3, 4):
        while ((core.sum(axis=1) < least) & (core.sum(axis=1) > 0)).any():
            weak = core.sum(axis=1) < least
            core[weak] = core[:, weak] = 0
        cores.append((core.sum(axis=1) > 0).mean())
    return [
        tie.sum() / 2,
        tie.mean(),
        *shares,
        *bins,
        *counts,
        *cores,
        alike,
        ordered[:1].sum(),
        ordered[:3].sum(),
        size,
    ]


def ways(tie):
    sparse = csr_matrix(tie)
    count, part = csgraph.connected_components(sparse, directed=False)
    sizes = np.sort(np.bincount(part))[::-1] / len(tie)
    far = csgraph.shortest_path(sparse, unweighted=True, directed=False)
    reached = far[np.isfinite(far) & (far > 0)]
    steps = [(reached == k).mean() for k in (1, 2, 3, 4)] if len(reached) else [0] * 4
    degree = tie.sum(axis=1)
    scale = 1 / np.sqrt(np.maximum(degree, 1))
    values, vectors = np.linalg.eigh(np.eye(len(tie)) - scale[:, None] * tie * scale)
    largest = np.linalg.eigvalsh(tie)
    cuts = []
    for k in (2, 3, 4):
        if k <= len(tie):
            group = vectors[:, k - 1] > 0
            inside = tie[group][:, group].sum() + tie[~group][:, ~group].sum()
            both = degree[group].sum() ** 2 + degree[~group].sum() ** 2
            cuts.append(inside / max(degree.sum(), 1) - both / max(degree.sum(), 1) ** 2)
    wide = [reached.mean(), reached.max(), reached.std()] if len(reached) else [0] * 3
    spread = [
        *np.pad(values, (0, 8))[1:6],
        values[-1],
        largest[-1],
        largest[0],
        (values**2).sum(),
        (values < 0.5).sum(),
    ]
    # Shares of two colours that neighbours do not share.
    parity = np.mean([-low for low in largest[:1]]) / max(largest[-1], 1e-9)
    return [
        count,
        sizes[0],
        (sizes * len(tie) <= 1).sum(),
        *wide,
        *steps,
        *spread,
        *np.pad(cuts, (0, 3 - len(cuts))),
        parity,
    ]


def heaviness(table, tie, weights):
    weights = np.array(weights or [0.0])
    strength, degree = table.sum(axis=1), tie.sum(axis=1)
    near = np.corrcoef(strength, degree)[0, 1] if strength.std() > 0 and degree.std() > 0 else 0.0
    return [
        weights.mean(),
        weights.std(),
        weights.min(),
        weights.max(),
        np.median(weights),
        strength.max(),
        strength.std(),
        near,
    ]
