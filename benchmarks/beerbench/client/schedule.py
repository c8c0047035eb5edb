# SPDX-License-Identifier: Apache-2.0
"""When requests are due and where they read: pure functions of a seed, so that a run can be repeated."""

from __future__ import annotations

import random
from collections.abc import Iterator


def arrivals(rate: float, seed: int, *, even: bool = False) -> Iterator[float]:
    """Seconds after the start at which requests are due, for ever. Poisson unless `even`."""
    if rate <= 0:
        raise ValueError(f"rate {rate} is not above zero")
    if even:
        number = 0
        while True:
            yield number / rate
            number += 1
    generator = random.Random(f"{seed} arrivals")  # noqa: S311 (no secret)
    due = 0.0
    while True:
        due += generator.expovariate(rate)
        yield due


class Offsets:
    """Random aligned offsets of one file, none twice before all were visited.

    No block is read twice, and blocks are a `stride` apart, so that neither the page cache nor its read-ahead answers
    for the disk. A multiplicative walk modulo a prime above the number of blocks visits each block
    once per turn and needs no table.
    """

    def __init__(self, file_size: int, size: int, stride: int, seed: str) -> None:
        stride = max(stride, size)
        self._blocks = (file_size - size) // stride + 1 if file_size >= size else 0
        if self._blocks < 1:
            raise ValueError(f"a file of {file_size} bytes holds no request of {size} bytes")
        self._stride = stride
        self._prime = _next_prime(max(self._blocks, 3) + 1)
        generator = random.Random(seed)  # noqa: S311 (no secret)
        self._step = generator.randrange(1, self._prime)
        # A walk with a fixed step is evenly spread, not random; a square makes distances between visits irregular.
        self._shift = generator.randrange(self._prime)
        self._position = 0

    @property
    def blocks(self) -> int:
        return self._blocks

    def next(self) -> int:
        while True:
            block = self._permuted(self._position)
            self._position = (self._position + 1) % self._prime
            if block < self._blocks:
                return block * self._stride

    def _permuted(self, index: int) -> int:
        """index -> step * residue(index) + shift modulo p: a bijection of 0..p-1, as p = 3 modulo 4."""
        square = index * index % self._prime
        residue = square if 2 * index <= self._prime else self._prime - square
        return (residue * self._step + self._shift) % self._prime


class Sequential:
    """Offsets one after the other, from the start again at the end."""

    def __init__(self, file_size: int, size: int) -> None:
        self._count = max(1, file_size // size)
        self._size = size
        self._position = 0

    def next(self) -> int:
        offset = (self._position % self._count) * self._size
        self._position += 1
        return offset


def _next_prime(number: int) -> int:
    """The first prime from `number` on that is 3 modulo 4 (for which i*i, mirrored, is a permutation)."""
    while not (number % 4 == 3 and _is_prime(number)):
        number += 1
    return number


def _is_prime(number: int) -> bool:
    if number < 2:
        return False
    divisor = 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 1
    return True
