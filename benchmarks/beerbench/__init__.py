# SPDX-License-Identifier: Apache-2.0
"""BEER's experiments: record them, study them, print them."""
