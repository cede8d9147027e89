"""The child process of LlamaModel: llama.cpp's server for one GGUF file, until its parent ends.

The settings come as a line of JSON on standard input, the address goes as one to standard output.
"""

import json
import os
import sys
import time

CHECK_S = 0.5


def main() -> None:
    """Serve the file of the settings. Exit status 1: it cannot be loaded."""
    parent = os.getppid()
    settings = json.loads(sys.stdin.readline())
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # llama.cpp writes to both
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["file"]
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.api_keys = [settings["key"]]
    params.n_parallel, params.n_threads_http = settings["slots"], settings["slots"] + 2
    params.n_ctx = settings["slots"] * settings["context"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = settings["cache_mb"]
    params.ctx_shift = False
    params.use_jinja = True
    params.ui, params.api_prefix = False, "/v1"
    try:
        server = xllamacpp.Server(params)
    except Exception as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    with answer:
        answer.write(json.dumps({"address": server.listening_address}) + "\n")
    while os.getppid() == parent:
        time.sleep(CHECK_S)
    os._exit(0)


if __name__ == "__main__":
    main()
