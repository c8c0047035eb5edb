# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations


class BenchmarkError(Exception):
    """A benchmark that cannot go on; the message is for the one who runs it."""
