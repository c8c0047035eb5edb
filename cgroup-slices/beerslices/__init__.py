# SPDX-License-Identifier: Apache-2.0
"""Plans what part of this machine batch may use, and writes it as systemd drop-ins."""
