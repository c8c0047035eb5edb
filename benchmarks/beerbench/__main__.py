# SPDX-License-Identifier: Apache-2.0
"""python3 -m beerbench"""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main(sys.argv[1:]))
