#!/usr/bin/env bash
# The reward service on a Ray cluster, beside the training: the application of `math-reward serve` in replicas of Ray
# Serve, of which there are more while more is asked for. Run on the head node (or any other), or from anywhere:
#
#   MATH_REWARD_TOKEN_FILE=/etc/reward.token bash launch/reward_on_ray.sh
#   ray job submit --working-dir . -- env MATH_REWARD_TOKEN_FILE=/etc/reward.token bash launch/reward_on_ray.sh
#   DETACH=1 bash launch/reward_on_ray.sh     # leaves it running
#   bash launch/reward_on_ray.sh --stop       # takes it down, whoever started it
#
# Waits until it is ready, prints the URLs for --reward.remote_url (any one of them will do, several stand in for each
# other), and stays until Ctrl-C or SIGTERM: it then takes no new work, answers what is under way and is taken down. A
# second signal does not wait. Where it is killed, as `ray job stop` does after 3 s, --stop does the rest.
#
# RAY_ADDRESS   HOST:PORT of the cluster (that of this node)
# HOST, PORT    where Ray Serve's proxies listen, on the head node and on every node that has a replica (0.0.0.0, 8000)
# MIN_REPLICAS, MAX_REPLICAS  between how many replicas there are (1, 4); Ray Serve adds and removes them
# ONGOING_REQUESTS  requests under way per replica that Ray Serve aims at (16)
# WORKERS       grading processes of a replica, and CPUs that it reserves, all on one node (2)
# DETACH        1 leaves the service running
# PYTHON        the interpreter that has math-reward and Ray Serve (python3), pip install '.[server,ray-serve]' on every
#               node
# MATH_REWARD_TOKEN, MATH_REWARD_TOKEN_FILE  what clients must send, or a file on this node that holds it. Needed unless
#               HOST is 127.0.0.1 or --insecure is given. With `ray job submit` use the file: Ray shows a job's command
#               line and its environment to everybody who sees the dashboard. Every MATH_REWARD_* of `math-reward serve`
#               counts too, such as MATH_REWARD_DEADLINE
#
# Flags after the script's name are passed on and win.
set -euo pipefail

python=${PYTHON:-python3}
command -v "$python" >/dev/null || {
    echo "launch/reward_on_ray.sh: there is no $python: set PYTHON to the interpreter that has math-reward." >&2
    exit 2
}
"$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("math_reward") is None)' || {
    echo "launch/reward_on_ray.sh: $python has no math-reward: pip install '.[server,ray-serve]', on every node." >&2
    exit 2
}

flags=(
    --host "${HOST:-0.0.0.0}"
    --port "${PORT:-8000}"
    --workers "${WORKERS:-2}"
    --min-replicas "${MIN_REPLICAS:-1}"
    --max-replicas "${MAX_REPLICAS:-4}"
    --ongoing-requests "${ONGOING_REQUESTS:-16}"
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
