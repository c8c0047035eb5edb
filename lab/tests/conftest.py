# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """No test touches the real cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("BEER_CACHE", str(folder))
    return folder
