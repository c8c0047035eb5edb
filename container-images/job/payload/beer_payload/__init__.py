# SPDX-License-Identifier: Apache-2.0
"""Payloads of the BEER job image: a physics job, an innocent CPU job, and two hostile ones for the tests."""

__version__ = "0.1.0"
