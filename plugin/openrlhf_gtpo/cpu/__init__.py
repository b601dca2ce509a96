"""OpenRLHF's loop on a machine without a GPU. Imported only with ``--device cpu``, the default where there is no
GPU."""
