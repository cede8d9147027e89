"""The sample submission among a task's public files, and how large a submission may be by it.

Not covered: what it holds (grading).
"""

import os
from pathlib import Path

SAMPLES = ("sample_submission.csv", "sampleSubmission.csv", "sample_submission_null.csv", "SampleSubmission.csv")
TIMES_SAMPLE = 4  # predictions may be longer than the sample's: 0.1234567890123456 for 0
_MB = 1 << 20


def is_sample(name: str) -> bool:
    """Whether a public file's name is that of a sample submission."""
    plain = name.lower().replace("_", "").replace("-", "")
    return "samplesubmission" in plain and plain.endswith(".csv") and "/" not in name


def sample_bytes(public: Path) -> int:
    """The size of the sample submission in a task's public folder; 0: there is none, or none of a usual name."""
    try:
        with os.scandir(public) as entries:
            named = [entry for entry in entries if is_sample(entry.name)]
            return max((entry.stat().st_size for entry in named if entry.is_file()), default=0)
    except OSError:
        return 0


def submission_mb(public: Path, at_least: int) -> int:
    """How many MB (2**20 bytes) a submission may have: TIMES_SAMPLE those of the sample, but `at_least` so many."""
    return max(at_least, -(-TIMES_SAMPLE * sample_bytes(public) // _MB))
