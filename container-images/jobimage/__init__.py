# SPDX-License-Identifier: Apache-2.0
"""Builds the job image: Debian packages and PyPI wheels in, a docker archive out. See ../README.md."""
