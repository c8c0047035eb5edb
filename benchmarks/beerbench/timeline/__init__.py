# SPDX-License-Identifier: Apache-2.0
"""What happened during a run, on one clock: the host's Unix time.

One module per source: `requests` (storage clients), `decisions` (the guard's journal), `node` (cgroups and CPUs of the
node), `jobs` (HTCondor's user logs). `clock` brings the node's time to the host's.
"""
