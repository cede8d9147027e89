"""Texts, freed of markup and quotations, by the themes of their words, praise and blame, doubt, order, and numbers."""

import html
import re
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

GOOD = """good better best fine great nice clean clear calm bright strong healthy fresh smooth steady stable solid sound
firm neat tidy safe sharp warm rich lively reliable excellent perfect pleasant dry even flawless sturdy vivid robust"""
BAD = """bad worse worst poor weak dirty dull dark broken cracked rough loose sick stale faulty uneven wet damp cold rusty
damaged noisy worn torn unsafe unstable unreliable slow thin blurred muddy mouldy shaky brittle leaking faded sour"""
DOUBT = "perhaps probably possibly apparently presumably allegedly maybe might seems likely supposedly"
SURE = "certainly definitely surely undoubtedly obviously plainly clearly indeed truly"
DENIAL = "not never no hardly without anything far barely"


def words(column):
    if column.iloc[0].startswith("docs/"):
        column = column.map(lambda path: Path("input/" + path).read_text(encoding="utf-8"))
    texts = [tidy(text) for text in column]
    pairs = TfidfVectorizer(ngram_range=(1, 2), min_df=2, max_features=600, sublinear_tf=True).fit_transform(texts)
    themes = TruncatedSVD(min(12, pairs.shape[1] - 1), random_state=0).fit_transform(pairs)
    counter = CountVectorizer(max_features=100, binary=True)
    several = counter.fit_transform(texts).toarray()
    kept = np.argsort(np.abs(several.mean(axis=0) - 0.4), kind="stable")[:30]
    several, names = several[:, kept], counter.get_feature_names_out()[kept]
    order = [places(text, names) for text in texts]
    return pd.DataFrame(np.hstack([themes, several, order, [told(text) for text in texts]]))


def tidy(text):
    text = re.sub(r"<[^>]*>", "", html.unescape(text)).lower()
    return re.sub(r'"[^"]*"', " quoted ", re.sub(r"\s+", " ", text))


def places(text, wanted):
    return [text.find(word) / len(text) if word in text else 0.5 for word in wanted]


def told(text):
    said = re.findall(r"[^\W\d]+", text)
    lists = [set(each.split()) for each in (GOOD, BAD, DOUBT, SURE, DENIAL)]
    counts = [sum(word in each for word in said) for each in lists]
    turned = 0
    for at, word in enumerate(said):
        sign = (word in lists[0]) - (word in lists[1])
        turned += -sign if lists[4] & set(said[max(0, at - 4) : at]) else sign
    numbers = [float(each.replace(",", ".")) for each in re.findall(r"-?\d+(?:[.,]\d+)?", text)]
    ends = [numbers[0], numbers[-1], max(numbers), min(numbers), numbers[0] - numbers[-1]] if numbers else [0] * 5
    now = re.search(r"now (-?\d+(?:[.,]\d+)?)|: (-?\d+(?:[.,]\d+)?)", text)
    current = float(next(part for part in now.groups() if part).replace(",", ".")) if now else ends[0]
    doubt = counts[2] - counts[3]
    return [
        *counts,
        turned,
        doubt,
        *ends,
        current,
        len(numbers),
        text.count("?"),
        text.count("!"),
        len(said),
        len(text),
    ]
