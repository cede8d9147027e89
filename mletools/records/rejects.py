"""Records of kind reject: rejected lines and drafts, with the reasons."""

from collections.abc import Sequence

from ..base.ids import content_id
from .common import Reject


def reject_record(id_parts: Sequence[object], source: str, line_number: int, reason: str, line: str) -> Reject:
    """A reject without lineage; its id is derived from `id_parts`."""
    return {
        "kind": "reject",
        "version": 1,
        "id": content_id(*id_parts),
        "lineage": [],
        "source": source,
        "line_number": line_number,
        "reason": reason,
        "line": line,
    }
