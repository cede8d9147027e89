"""Finding the fields that a server refuses whose error names none of them, by short questions with more and more fields.

A refusal costs nothing, an answer a few tokens. Each field is tried once a run. Not covered: errors that name a field
(dialect), sending and retrying the questions (http).
"""

import threading
from collections.abc import Callable, Mapping, Set
from dataclasses import replace

from ..base.errors import RecordError
from ..records.rollout import Message
from . import Request
from .dialect import OPTIONAL, Dialect

PROBE: list[Message] = [{"role": "user", "content": "Answer with the word JSON."}]
PROBE_TOKENS = 16


class Elimination:
    """Drops from `dialect` what of OPTIONAL its server refuses. Thread-safe.

    ask(fields, read, seed) sends a request and reads the answer's body; RecordError where the server refuses it.
    """

    def __init__(
        self, dialect: Dialect, ask: Callable[[dict[str, object], Callable[[bytes], None], int], None]
    ) -> None:
        self._dialect, self._ask = dialect, ask
        self._lock = threading.Lock()
        self._tried = frozenset[str]()  # that the server takes, or that were not the cause of an error

    def changes(self, request: Request, sent: Mapping[str, object]) -> bool:
        """Whether a refused request, sent as `sent`, is now sent otherwise.

        Where the server refuses the question without the fields, too, or takes it with all of them, the request is at
        fault.
        """
        with self._lock:
            suspects = [name for name in OPTIONAL if name in sent]
            if self._dialect.known.dropped.intersection(suspects):
                return True  # another thread has found them
            suspects = [name for name in suspects if name not in self._tried]
            others = set(OPTIONAL).difference(suspects)
            if not suspects or self._takes(request, others | set(suspects)) or not self._takes(request, others):
                self._tried |= set(suspects)
                return False
            taken = others
            for name in suspects if len(suspects) > 1 else ():
                taken = taken | {name} if self._takes(request, taken | {name}) else taken
            self._dialect.drop(set(suspects) - taken)
            self._tried |= taken.intersection(suspects)
            return not taken.issuperset(suspects)

    def _takes(self, request: Request, names: Set[str]) -> bool:
        """Whether the server answers a question with those of OPTIONAL in `names`."""
        fields = self._dialect.fields(replace(request, messages=PROBE, max_tokens=PROBE_TOKENS))
        fields = {name: value for name, value in fields.items() if name not in OPTIONAL or name in names}
        try:
            self._ask(fields, lambda body: None, request.seed)
        except RecordError:
            return False
        return True
