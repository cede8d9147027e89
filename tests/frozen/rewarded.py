"""Rollouts with rewards by their sample index, in place of a grader's: an untrained policy fails always."""

import json
import sys

for line in sys.stdin:
    record = json.loads(line)
    print(json.dumps({**record, "reward": float(record["sample"])}))
