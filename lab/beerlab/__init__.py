# SPDX-License-Identifier: Apache-2.0
"""The virtual site: builds disk-server images, boots nodes under QEMU, drives them.

What tests and benchmarks use:

    from beerlab import Machine, NodeSpec, DiskSpec, HeadSpec, Site, LabError, EmulationFault
    from beerlab import ready_node, ready_site, client_root, default_disks
"""

from .errors import LabError
from .machine import Machine
from .ready import Preparation, ready_node, ready_site
from .result import Result
from .roots import build_root, client_root
from .site import Site
from .spec import DiskSpec, HeadSpec, NodeSpec, default_disks
from .vm import EmulationFault

__all__ = [
    "DiskSpec",
    "EmulationFault",
    "HeadSpec",
    "LabError",
    "Machine",
    "NodeSpec",
    "Preparation",
    "Result",
    "Site",
    "build_root",
    "client_root",
    "default_disks",
    "ready_node",
    "ready_site",
]
