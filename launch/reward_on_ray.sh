#!/usr/bin/env bash
# The reward service on a Ray cluster, beside the training: Ray Serve runs replicas of the application of `math-reward
# serve`, more of them under load. Run it on the head node (or any other), or from anywhere:
#
#   MATH_REWARD_TOKEN_FILE=/etc/reward.token bash launch/reward_on_ray.sh
#   ray job submit --working-dir . -- env MATH_REWARD_TOKEN_FILE=/etc/reward.token bash launch/reward_on_ray.sh
#   DETACH=1 bash launch/reward_on_ray.sh     # leaves it running
#   bash launch/reward_on_ray.sh --stop       # stops it, whoever started it
#
# It prints the URL for --reward.remote_url and stays until Ctrl-C or SIGTERM; then it stops the service. If it is
# killed, as `ray job stop` does after 3 s, run --stop.
#
# RAY_ADDRESS   HOST:PORT of the cluster (that of this node)
# HOST, PORT    where Ray Serve's proxies listen, on the head node and on every node that has a replica (0.0.0.0, 8000)
# MIN_REPLICAS, MAX_REPLICAS  limits for the number of replicas, which Ray Serve changes with the load (1, 4)
# WORKERS       grading processes of a replica, and CPUs that it reserves, all on one node (2)
# DETACH        1 leaves the service running
# PYTHON        interpreter with math-reward and Ray Serve (python3): pip install './reward_server[server,ray-serve]' on
#               every node
# MATH_REWARD_TOKEN, MATH_REWARD_TOKEN_FILE  token that clients must send, or a file on this node with the token. Required
#               unless HOST is 127.0.0.1 or --insecure is given. With `ray job submit` use the file: Ray's dashboard shows
#               a job's command line and environment. The other MATH_REWARD_* variables of `math-reward serve` work too,
#               such as MATH_REWARD_DEADLINE
#
# Flags after the script's name are passed on and override the script's.
set -euo pipefail

python=${PYTHON:-python3}
command -v "$python" >/dev/null || {
    echo "launch/reward_on_ray.sh: there is no $python: set PYTHON to the interpreter that has math-reward." >&2
    exit 2
}
"$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("math_reward") is None)' || {
    echo "launch/reward_on_ray.sh: $python has no math-reward: pip install './reward_server[server,ray-serve]', on every node." >&2
    exit 2
}

flags=(
    --host "${HOST:-0.0.0.0}"
    --port "${PORT:-8000}"
    --workers "${WORKERS:-2}"
    --min-replicas "${MIN_REPLICAS:-1}"
    --max-replicas "${MAX_REPLICAS:-4}"
)
case ${DETACH:-0} in
    0) ;;
    1) flags+=(--detach) ;;
    *)
        echo "launch/reward_on_ray.sh: DETACH is $DETACH, but needs to be 1 or 0." >&2
        exit 2
        ;;
esac
exec "$python" -m math_reward.commands.ray_serve "${flags[@]}" "$@"
