"""The modality of an imported task, by its files and by the table whose rows are to be predicted.

    image, audio, video  half of the public files or more have a usual ending of that kind
    text                 a named metric reads texts, tokens, spans or orders; or long text is all that test.csv has beside
                         ids and targets: each other column has LONG_TEXT_WORDS words or more in its median row
    tabular              everything else

A metric that is code says nothing of its cells. Rows are the first SAMPLED_ROWS of test.csv. A word is a piece between
blanks that begins with a letter, punctuation aside, so rows of numbers, molecules and sequences are no text. Not covered:
languages without blanks, a test.csv in an archive or under another name.
"""

import itertools
import statistics
import string
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import PurePosixPath

from ...base.csv_files import read_rows
from ...records.task import Scoring
from ..folder import Content

ENDINGS = {
    "image": {"png", "jpg", "jpeg", "tif", "tiff", "bmp", "gif", "webp", "dcm", "dicom", "nii", "tfrec"},
    "audio": {"wav", "mp3", "flac", "ogg", "aif", "aiff", "m4a"},
    "video": {"mp4", "avi", "mov", "mkv"},
}
TEXTS = ("text", "tokens", "spans", "order")  # forms of cells of a submission
SAMPLED_ROWS = 200
LONG_TEXT_WORDS = 8  # a name or an address has fewer


def modality_of(public: Mapping[str, Content], grading: Scoring) -> str:
    """The modality of a task with these public files and that grading part."""
    endings = Counter(PurePosixPath(name).suffix.lower().lstrip(".") for name in public)
    for word, known in ENDINGS.items():
        if 2 * sum(endings[ending] for ending in known) >= len(public) > 0:
            return word
    submission = grading["submission"]
    if submission["parse"] in TEXTS and "file" not in grading["metric"]:
        return "text"
    asked = {*submission["id"], *submission["target"]}
    return "text" if "test.csv" in public and _only_long_text(public["test.csv"], asked) else "tabular"


def _only_long_text(table: Content, without: Collection[str]) -> bool:
    """Whether there are columns but for some, and all of them hold long text. A table that cannot be read has none."""
    try:
        header, *rows = itertools.islice(read_rows(table, strict=False), 1 + SAMPLED_ROWS)
    except (OSError, ValueError):  # no table, or an empty one
        return False
    columns = [[row[at] for row in rows if at < len(row)] for at, name in enumerate(header) if name not in without]
    return bool(columns) and all(
        cells and statistics.median(map(_words, cells)) >= LONG_TEXT_WORDS for cells in columns
    )


def _words(cell: str) -> int:
    return sum(piece.strip(string.punctuation)[:1].isalpha() for piece in cell.split())
