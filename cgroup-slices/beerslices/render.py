# SPDX-License-Identifier: Apache-2.0
"""Plan -> texts: systemd drop-ins, the explanation, HTCondor's capacity."""

from __future__ import annotations

from .plan import Offer, Plan

DROPIN = "10-beer-plan.conf"
_HEADER = "# Made by beer-slices from this machine and /etc/beer/slices.toml; see: beer-slices plan --explain\n"


def dropins(plan: Plan) -> dict[str, str]:
    """Relative path -> text. The name sorts before a site's own drop-ins (50-CPUWeight.conf, which is systemctl
    set-property's, 60-..., 90-...), which therefore win."""
    texts: dict[str, str] = {}
    for limit in plan.limits:
        path = f"{limit.slice}.d/{DROPIN}"
        texts.setdefault(path, f"{_HEADER}[Slice]\n")
        texts[path] += f"{limit.key}={limit.value}\n"
    return texts


def refusal() -> dict[str, str]:
    """Makes beer.slice, and with it the engine and HTCondor, fail to start; what already runs goes on."""
    text = f"{_HEADER}[Unit]\nAssertPathExists=/run/beer/plan-was-refused--run-beer-slices-plan\n"
    return {"beer.slice.d/51-beer-plan-refused.conf": text}


def explanation(plan: Plan) -> str:
    rows = [(f"{limit.slice} {limit.key}={limit.value}", limit.why) for limit in plan.limits]
    width = max(len(head) for head, _ in rows)
    return "".join(f"{head:<{width}}  {why}\n" for head, why in rows)


def capacity(offer: Offer) -> str:
    """A fragment that HTCondor includes. It knows no trailing comments."""
    return (
        "# Made by beer-slices when HTCondor starts, from the limits that the kernel has\n"
        f"NUM_CPUS = {offer.cores}\nMEMORY = {offer.memory_mib}\nBEER_SLOTS_PER_CORE = {offer.slots_per_core:g}\n"
    )
