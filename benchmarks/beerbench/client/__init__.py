# SPDX-License-Identifier: Apache-2.0
"""Storage clients that run outside the node.

Only the standard library and the XRootD bindings may be imported below this folder: it runs in a root that holds
Debian's python3-xrootd and nothing else (`PYTHONPATH=<folder above> python3 -m client.open_loop ...`).
"""
