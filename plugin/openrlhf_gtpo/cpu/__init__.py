"""OpenRLHF's loop on a machine without a GPU. Imported only with ``--device cpu`` (automatic where no GPU is
found)."""
