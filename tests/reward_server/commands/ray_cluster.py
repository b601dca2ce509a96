"""A Ray cluster of one node; prints its address and its folder, and ends with its standard input."""

import os
import shutil
import tempfile

import ray

if __name__ == "__main__":
    folder = tempfile.mkdtemp(prefix="ray-")
    ray.init(
        address="local",
        num_cpus=4,
        num_gpus=0,
        include_dashboard=False,
        object_store_memory=200 * 2**20,
        log_to_driver=False,
        _temp_dir=folder,
    )
    print(ray.get_runtime_context().gcs_address, folder, flush=True)
    while os.read(0, 4096):
        pass
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
