"""A Ray cluster of several nodes with logical GPUs on this machine, for as long as a command runs.

    python -m openrlhf_gtpo.cpu.rehearsal --nodes 2 --gpus 1 -- bash launch/train_gtpo.sh

Each node is a raylet of its own, so placement groups, fractions of GPUs and transfers between nodes are Ray's. Before
the command runs, a table shows the placement of the actors. REHEARSE=1 bash launch/train_gtpo.sh starts it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from openrlhf_gtpo.errors import UserError

WAIT_SECONDS = 120


def main() -> int:
    """Start the cluster, print the placement, run the command, stop the cluster; the exit status is the command's, or
    1 where actors cannot be placed."""
    parser = argparse.ArgumentParser(prog="python -m openrlhf_gtpo.cpu.rehearsal", description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--gpus", type=int, default=1, help="logical GPUs of each node")
    parser.add_argument("--engine-gpus", type=int, default=1, help="GPUs of each vLLM engine")
    parser.add_argument("--placement-only", action="store_true", help="print the placement and run nothing")
    parser.add_argument("command", nargs="*")
    args = parser.parse_args()

    from ray.cluster_utils import Cluster

    # Start workers only when they are needed, as on the nodes of a cluster.
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
    node = {"num_gpus": args.gpus, "num_cpus": args.gpus + 6, "object_store_memory": 200 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        for _ in range(args.nodes - 1):
            cluster.add_node(**node, wait=False)
        cluster.wait_for_nodes(timeout=WAIT_SECONDS)
        for line in _placement(cluster.address, args.nodes * args.gpus, args.engine_gpus):
            print(line, flush=True)
        return 0 if args.placement_only else _run(args.command, cluster.address)
    except UserError as error:
        print(f"rehearsal: error: {error}", file=sys.stderr)
        return 1
    finally:
        cluster.shutdown()


def _placement(address: str, gpus: int, engine_gpus: int) -> Iterator[str]:
    """The placement of engines and policy when they share all GPUs of a cluster, by OpenRLHF's own placement group and
    bundles: a line for each node. A UserError where the GPUs are too few, or an engine would sit on several nodes."""
    import ray
    from openrlhf.trainer.ray.utils import get_bundle_indices
    from ray.util import placement_group, placement_group_table, remove_placement_group

    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    try:
        group = placement_group([{"GPU": 1, "CPU": 1}] * gpus, strategy="PACK")
        if not group.wait(WAIT_SECONDS):
            has = ray.cluster_resources().get("GPU", 0)
            raise UserError(f"The run needs {gpus} GPUs, but the cluster has {has:g}: set NODES and GPUS.")
        node_of: dict[int, str] = placement_group_table(group)["bundles_to_node_id"]
        engines = range(gpus // engine_gpus)
        bundles = [get_bundle_indices(group, i, engine_gpus) if engine_gpus > 1 else [i] for i in engines]
        remove_placement_group(group)
    finally:
        ray.shutdown()
    for engine in engines:
        if len({node_of[bundle] for bundle in bundles[engine]}) > 1:
            raise UserError(
                f"Engine {engine} would have workers on several nodes: choose --vllm.tensor_parallel_size so that it "
                "divides the GPUs of a node."
            )
    for number, node in enumerate(dict.fromkeys(node_of[rank] for rank in sorted(node_of))):
        ranks = [rank for rank in sorted(node_of) if node_of[rank] == node]
        here = [engine for engine in engines if node_of[bundles[engine][0]] == node]
        yield (
            f"node {number} ({node[:6]}), {len(ranks)} logical GPUs: policy ranks {', '.join(map(str, ranks))}; "
            f"engines {', '.join(map(str, here))}, {engine_gpus} of the GPUs each"
        )


def _run(command: list[str], address: str) -> int:
    from openrlhf_gtpo.rewards.embedded import start_embedded_service

    log = Path(tempfile.mkdtemp(prefix="rehearsal_")) / "reward_service.log"
    with start_embedded_service(log_path=log) as service:
        addresses = {"RAY_ADDRESS": address, "REWARD_URL": service.url, "MATH_REWARD_TOKEN": service.token}
        return subprocess.run(command, env={**os.environ, **addresses}).returncode


if __name__ == "__main__":
    sys.exit(main())
