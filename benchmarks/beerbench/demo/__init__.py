# SPDX-License-Identifier: Apache-2.0
"""The demo: one node, the same attack without and with the guard, a table and a page.

`run` drives it and records; `findings` computes from a record; `table` and `page` show. See README.md of benchmarks.
"""
