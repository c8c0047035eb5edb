# SPDX-License-Identifier: Apache-2.0
"""The one exception of the lab: its text is what the user sees, so the first line must stand alone."""


class LabError(Exception):
    """Something the lab was asked to do did not work."""
