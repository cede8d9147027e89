"""Wait until the model server at a URL answers: python3 wait_for_server.py http://localhost:8000/v1 SECONDS

Its list of models is asked for. Any answer will do, a refused key too, but not 502, 503 or 504, which a server gives that
still loads its model. Exit 1 and one line where none has come in time.
"""

import http.client
import sys
import time
import urllib.error
import urllib.request

NOT_YET = (502, 503, 504)
PAUSE_S, ANSWER_S = 1.0, 10.0
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # as mle-rollout reaches it


def trouble(url: str) -> str | None:
    """Why the server cannot be used yet; None: it answers. ValueError: this is no URL."""
    try:
        OPENER.open(url, timeout=ANSWER_S).close()
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}" if error.code in NOT_YET else None
    except urllib.error.URLError as error:
        if "unknown url type" in str(error.reason):
            raise ValueError(error.reason) from None
        return str(getattr(error.reason, "strerror", None) or error.reason)
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    return None


def main() -> None:
    server, seconds = sys.argv[1].rstrip("/"), float(sys.argv[2])
    models = f"{server}/models" if server.endswith("/v1") else f"{server}/v1/models"
    until, waiting = time.monotonic() + seconds, False
    try:
        while (why := trouble(models)) is not None:
            left = until - time.monotonic()
            if left <= 0:
                sys.exit(
                    f"{server}: no model server answers after {seconds:g} s ({why}). Is it running (examples/cluster/serve.sh)? "
                    "WAIT=SECONDS waits longer"
                )
            if not waiting:
                print(f"waiting up to {seconds:g} s for {server} ({why})", file=sys.stderr, flush=True)
            waiting = True
            time.sleep(min(PAUSE_S, left))
    except ValueError as error:
        sys.exit(f"{server}: no address of a server: {error}")


if __name__ == "__main__":
    main()
