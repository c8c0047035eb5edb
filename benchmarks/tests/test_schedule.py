# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import islice, pairwise

import pytest
from beerbench.client.schedule import Offsets, Sequential, arrivals


def test_poisson_arrivals_have_the_rate_and_repeat_with_the_seed() -> None:
    first = list(islice(arrivals(50, 7), 5000))
    assert first == list(islice(arrivals(50, 7), 5000))
    assert first != list(islice(arrivals(50, 8), 5000))
    assert first == sorted(first)
    assert first[-1] == pytest.approx(100, rel=0.06)


def test_even_arrivals_are_even() -> None:
    assert list(islice(arrivals(4, 1, even=True), 4)) == [0, 0.25, 0.5, 0.75]


def test_a_rate_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="rate 0"):
        next(arrivals(0, 1))


@pytest.mark.parametrize("blocks", [1, 2, 3, 7, 100, 4096])
def test_offsets_visit_every_block_once_per_turn(blocks: int) -> None:
    offsets = Offsets(blocks * 1000, 64, 1000, "seed")
    assert offsets.blocks == blocks
    seen = [offsets.next() for _ in range(blocks)]
    assert sorted(seen) == [1000 * block for block in range(blocks)]


def test_offsets_stay_inside_the_file_and_are_far_apart() -> None:
    offsets = Offsets(10_000_000, 65536, 262144, "seed")
    seen = [offsets.next() for _ in range(30)]
    assert max(seen) + 65536 <= 10_000_000
    assert all(offset % 262144 == 0 for offset in seen)
    assert sum(abs(a - b) == 262144 for a, b in pairwise(seen)) < 5


def test_offsets_of_two_connections_differ() -> None:
    one, two = (Offsets(1 << 30, 65536, 262144, f"1 {number}") for number in (1, 2))
    assert [one.next() for _ in range(20)] != [two.next() for _ in range(20)]


def test_a_file_smaller_than_a_request_is_refused() -> None:
    with pytest.raises(ValueError, match="holds no request"):
        Offsets(1000, 65536, 262144, "seed")


def test_sequential_starts_again_at_the_end() -> None:
    walk = Sequential(300, 100)
    assert [walk.next() for _ in range(4)] == [0, 100, 200, 0]
