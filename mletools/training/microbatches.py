"""An optimiser step cut into micro-batches: rows of like length together, padded to their own longest.

How a step is cut changes nothing but the order of additions. Covered: several processes, each of which makes as many
forward passes as the others (sharded models gather their weights in each); a row without loss fills up where rows are
missing. Not covered: packing several rows into one sequence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .steps import Row


@dataclass(frozen=True)
class Layout:
    """Size limits of a micro-batch: rows, and tokens including padding (None: no limit)."""

    rows: int = 8
    tokens: int | None = None


def cut(rows: Sequence[Row], layout: Layout, processes: int = 1) -> list[list[list[Row]]]:
    """The micro-batches of each process: as many for one as for another, and each at most one row shorter than its fellows.

    Longest first, so that what does not fit in memory is found out at once. A row longer than the token bound goes alone.
    """
    chunks: list[list[Row]] = [[]]  # what all processes do at once
    for row in sorted(rows, key=lambda row: -len(row.tokens.input_ids)):
        chunk = chunks[-1]
        each = -(-(len(chunk) + 1) // processes)
        full = each > layout.rows
        if chunk and layout.tokens is not None and each > 1:
            full = full or each * len(chunk[0].tokens.input_ids) > layout.tokens
        if full:
            chunks.append(chunk := [])
        chunk.append(row)
    return [[chunk[rank::processes] for chunk in chunks] for rank in range(processes)]


def padding_share(batches: Sequence[Sequence[Row]]) -> float:
    """The share of the positions that go through the model which hold no token of any row."""
    held = sum(len(row.tokens.input_ids) for batch in batches for row in batch)
    padded = sum(len(batch) * max(len(row.tokens.input_ids) for row in batch) for batch in batches if batch)
    return 1.0 - held / padded if padded else 0.0


def tensors_of(rows: Sequence[Row], pad: int, count: int = 1) -> dict[str, Any]:
    """What TRL's loss reads of a micro-batch, padded right to its longest row; filled up with rows without loss.

    TRL pads prompts left and completions right, each to its longest. Here all rows' prompts end where the shortest does, and what is
    left of the others' begins their completions, where `tool_mask` is 0: so no row is longer than the longest.

    count: rows at least. The first process's micro-batch is the longest, and the others' have as many rows.

    Shapes: prompt_* (B, P), completion_*, tool_mask, recorded_logps (B, C), advantages, recorded (B,); `recorded` is 1
    where a row has the sampler's log-probabilities.
    """
    import torch

    count = max(1, count, len(rows))
    split = min((row.tokens.prompt_length for row in rows), default=1)
    longest = max((1, *(len(row.tokens.input_ids) - split for row in rows)))
    prompt_ids = torch.full((count, split), pad)
    prompt_mask = torch.ones((count, split), dtype=torch.long)
    completion_ids = torch.full((count, longest), pad)
    completion_mask = torch.zeros((count, longest), dtype=torch.long)
    tool_mask = torch.zeros((count, longest), dtype=torch.long)
    recorded_logps = torch.zeros((count, longest))
    advantages, recorded = torch.zeros(count), torch.zeros(count)
    for index, row in enumerate(rows):
        tokens, length = row.tokens, len(row.tokens.input_ids) - split
        prompt_ids[index] = torch.tensor(tokens.input_ids[:split])
        completion_ids[index, :length] = torch.tensor(tokens.input_ids[split:])
        completion_mask[index, :length] = 1
        tool_mask[index, :length] = torch.tensor(tokens.loss_mask[split:])
        if tokens.logprobs is not None:
            recorded_logps[index, :length] = torch.tensor(tokens.logprobs[split:])
            recorded[index] = 1.0
        advantages[index] = row.advantage
    completion_mask[len(rows) :, 0] = 1  # a row without any visible token would turn attention into 0 / 0
    return {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask,
        "completion_ids": completion_ids,
        "completion_mask": completion_mask,
        "tool_mask": tool_mask,
        "recorded_logps": recorded_logps * tool_mask,
        "recorded": recorded,
        "advantages": advantages,
    }
