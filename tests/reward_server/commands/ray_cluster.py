"""A Ray cluster of one node of 4 CPUs, or of as many nodes of one CPU as the argument says.

It prints its address and its folder, kills its last node when a line comes in, and ends with its standard input.
"""

import shutil
import sys
import tempfile

from ray.cluster_utils import Cluster

if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    folder = tempfile.mkdtemp(prefix="ray-")
    node = {"num_cpus": 4 if count == 1 else 1, "num_gpus": 0, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False, "temp_dir": folder})
    others = [cluster.add_node(**node) for _ in range(count - 1)]
    print(cluster.address, folder, flush=True)
    for _ in sys.stdin:
        cluster.remove_node(others.pop(), allow_graceful=False)
        print("killed", flush=True)
    cluster.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
