"""Columns of numbers as they are, and words as columns of zeros and ones."""

import pandas as pd


def cells(table, hidden=()):
    columns = {}
    for c in [c for c in table if c != "id" and c not in hidden]:
        if pd.api.types.is_numeric_dtype(table[c]):
            columns[c] = table[c]
        elif table[c].nunique() < 10:
            for word in table[c].dropna().unique():
                columns[f"{c}={word}"] = (table[c] == word).astype(float)
    return pd.DataFrame(columns, index=table.index)
