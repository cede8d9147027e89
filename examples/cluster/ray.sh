#!/usr/bin/env bash
# The sandbox on a Ray cluster: the box with the GPU samples and trains, other machines run the programs.
#
#   on the head:           examples/cluster/ray.sh head
#   on each other node:    examples/cluster/ray.sh join HEAD
#   where the pipe runs:   mle-sandbox --on ray://HEAD:10001 -j 64 rollouts.jsonl -o executed.jsonl
#   at the end:            examples/cluster/ray.sh stop     (on every node)
#
# Every node wants the same Python and the same version: pip install 'mletools[ray]'. A node whose sandbox does not close the answers
# off refuses to run anything; `mle-sandbox --selftest` on it says why.
set -euo pipefail
export GRPC_ENABLE_FORK_SUPPORT=false # else the head's client server may not come up
case ${1:-} in
  head) ray start --head --port 6379 --ray-client-server-port 10001 --disable-usage-stats ;;
  join) ray start --address "${2:?the name of the head}:6379" --disable-usage-stats ;;
  stop) ray stop ;;
  *)
    echo "usage: $0 head | join HEAD | stop" >&2
    exit 2
    ;;
esac
