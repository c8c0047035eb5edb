# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests say instead of shell: jobs, the guard, the storage client."""
