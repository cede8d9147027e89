"""The stage that a search is in, by the share of its budget that is used.

R&D-Agent drafts in the first tenth of its time and may ensemble or merge from 70 % on; what it leaves to the final merge
it gives in hours (`merge_hours`), here it is a share like the others. Not covered: what a stage changes (planning, paths).
"""


def stage_of(share: float, draft: float = 0.1, ensemble: float = 0.7, merge: float = 0.8) -> str:
    """One of interfaces.STAGES for a share of the budget, 0 to 1; beyond 1 as at 1.

    Each constant is where the next stage begins, and belongs to it: draft in [0, `draft`), improvement in
    [`draft`, `ensemble`), ensemble in [`ensemble`, `merge`), merge from `merge` on. Where two are equal, the stage between
    them is left out; `merge` goes before `ensemble`, and that before `draft`, where they are out of order.
    """
    if share >= merge:
        return "merge"
    if share >= ensemble:
        return "ensemble"
    return "draft" if share < draft else "improvement"
