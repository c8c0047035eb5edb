# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the lab: their text is what the user sees, so the first line must stand alone."""


class LabError(Exception):
    """Something the lab was asked to do did not work."""


class NoEnd(LabError):
    """A command of a node took longer than it was given: the node may be slow, or dead."""
