"""Similar texts: cosines of words (TF-IDF) or of embeddings, BM25, and the user's notes that suit a query.

Cosines are rounded, since the number of threads changes the last bits.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...base.errors import ToolError

DIGITS = 9
LONGEST = 1500  # characters of a passage
KINDS = (".md", ".txt")


def tf_idf_cosines(texts: Sequence[str]) -> list[float]:
    """The cosines of texts[0] with each of the others, in [0, 1], by words and pairs of words; 0 without words."""
    if len(texts) < 2:
        return []
    from sklearn.feature_extraction.text import TfidfVectorizer

    try:
        vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+").fit_transform(texts)
    except ValueError:  # no text has a word
        return [0.0] * (len(texts) - 1)
    products = (vectors[1:] @ vectors[0].T).toarray().ravel()  # the rows have length 1, or 0
    return [round(float(cosine), DIGITS) for cosine in products]


def bm25(query: str, texts: Sequence[str], k1: float = 1.2, b: float = 0.75) -> list[float]:
    """The BM25 score of each text for the query's different words w, 0 or above (Robertson and Zaragoza, 2009):

        sum over w of ln(1 + (N - n_w + 1/2) / (n_w + 1/2)) * f (k1 + 1) / (f + k1 (1 - b + b l / L))

    N: number of texts; n_w: of those with w; f: how often w is in the text; l: words of the text, L: on average. The 1 in
    the logarithm is Lucene's, so that words of most texts count nothing instead of less.
    """
    counts = [Counter(_words(text)) for text in texts]
    lengths = [each.total() for each in counts]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    scores = [0.0] * len(texts)
    for word in dict.fromkeys(_words(query)):
        having = sum(word in each for each in counts)
        weight = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for at, each in enumerate(counts):
            scores[at] += weight * each[word] * (k1 + 1) / (each[word] + k1 * (1 - b + b * lengths[at] / mean))
    return [round(score, DIGITS) for score in scores]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def cosines(vectors: Sequence[Sequence[float]]) -> list[float]:
    """The cosines of vectors[0] with each of the others, in [-1, 1]; 0 with a vector of zeros.

    ToolError: the vectors differ in length, or hold something other than finite numbers.
    """
    if len(vectors) < 2:
        return []
    import numpy as np

    try:
        rows = np.asarray(vectors, dtype=float)
    except (ValueError, TypeError):
        raise ToolError("the embeddings are not numbers, or differ in length") from None
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise ToolError("the embeddings are not lists of finite numbers")
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)  # so that squares stay finite
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return [round(float(cosine), DIGITS) for cosine in rows[1:] @ rows[0]]


def read_passages(folder: Path) -> list[str]:
    """The passages of all files of KINDS below a folder, by path, each of up to LONGEST characters.

    ToolError: no such folder, no text in it, or a file that cannot be read as UTF-8.
    """
    if not folder.is_dir():
        raise ToolError(f"{folder}: no such folder of knowledge")
    files = [path for path in folder.rglob("*") if path.suffix.lower() in KINDS and not path.is_dir()]
    passages: list[str] = []
    for path in sorted(files, key=lambda path: path.relative_to(folder).as_posix()):
        try:
            passages += _cut(path.read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ToolError(f"{path}: not UTF-8") from None
    if not passages:
        raise ToolError(f"{folder}: no knowledge in it: it needs {' or '.join(KINDS)} files with text")
    return passages


def best_passages(
    query: str, passages: Sequence[str], similar: Callable[[str, Sequence[str]], list[float]], most: int = 3
) -> list[str]:
    """Up to `most` passages that are the most similar to the query, by values above 0, best first."""
    values = similar(query, passages) if passages else []
    order = sorted(range(len(passages)), key=lambda at: -values[at])
    return [passages[at] for at in order[:most] if values[at] > 0]


def _cut(text: str) -> Iterator[str]:
    """Join paragraphs into passages as long as they fit, and cut paragraphs that are too long."""
    passage = ""
    for paragraph in re.split(r"\n\s*\n", text):
        paragraph = paragraph.strip()
        if passage and len(passage) + 2 + len(paragraph) > LONGEST:
            yield passage
            passage = ""
        passage = f"{passage}\n\n{paragraph}" if passage and paragraph else passage or paragraph
        while len(passage) > LONGEST:
            at = max(passage.rfind("\n", 1, LONGEST), passage.rfind(" ", 1, LONGEST))
            at = at if at > 0 else LONGEST
            yield passage[:at].rstrip()
            passage = passage[at:].lstrip()
    if passage:
        yield passage
