"""How alike texts are, as cosines: by their words (TF-IDF), or by vectors that an embedding model gave.

Covered: texts without any word, vectors of nothing, rounding, so that the number of threads does not show. Not covered:
asking an embedding model.
"""

from collections.abc import Sequence

from ...records.errors import ToolError

DIGITS = 9  # sums in another order differ in the last bits


def tf_idf_cosines(texts: Sequence[str]) -> list[float]:
    """The cosines of texts[0] with each of the others, in [0, 1]; 0 with a text without words.

    Words and pairs of neighbouring words, 1 + log(count) times the inverse document frequency among these texts.
    """
    if len(texts) < 2:
        return []
    from sklearn.feature_extraction.text import TfidfVectorizer

    try:
        vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+").fit_transform(texts)
    except ValueError:  # scikit-learn's word for texts without a single word
        return [0.0] * (len(texts) - 1)
    cosines = (vectors[1:] @ vectors[0].T).toarray().ravel()  # the rows have length 1, or 0
    return [min(1.0, round(float(each), DIGITS)) for each in cosines]


def cosines(vectors: Sequence[Sequence[float]]) -> list[float]:
    """The cosines of vectors[0] with each of the others, in [-1, 1]; 0 with a vector of zeros.

    ToolError: the vectors differ in length, or hold something that is no finite number.
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
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)  # squares of the rest stay finite
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return [max(-1.0, min(1.0, round(float(each), DIGITS))) for each in rows[1:] @ rows[0]]
