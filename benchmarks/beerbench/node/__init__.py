# SPDX-License-Identifier: Apache-2.0
"""What runs inside the node to measure it: `sampler.py`, standard library only, copied there for the run."""
