"""Bundles are checked in processes of their own: what loops, inflates or crashes there ends nothing else."""
