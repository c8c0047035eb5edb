# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace

import pytest
from beerlab.errors import LabError
from beerlab.spec import LAYOUTS, DiskSpec, HeadSpec, NodeSpec, size


def test_sizes_need_units():
    assert size("4GiB") == 4 << 30
    for wrong in ("4", "4GB", "4 GiB", "-1GiB", ""):
        with pytest.raises(LabError, match="is not a size"):
            size(wrong)


def test_fstab_with_scratch_apart():
    assert NodeSpec(layout="scratch-apart").fstab().splitlines() == [
        "LABEL=beer-data1 /data/01 ext4 noatime 0 2",
        "LABEL=beer-data2 /data/02 ext4 noatime 0 2",
        "LABEL=beer-scratch /var/lib/beer/scratch ext4 noatime 0 2",
        "LABEL=beer-swap none swap sw 0 0",
    ]


def test_fstab_with_scratch_on_a_data_disk():
    assert NodeSpec(layout="scratch-on-data").fstab().splitlines() == [
        "LABEL=beer-data1 /data/01 ext4 noatime 0 2",
        "LABEL=beer-data2 /data/02 ext4 noatime 0 2",
        "/data/01/scratch /var/lib/beer/scratch none bind 0 0",
        "/data/01/scratch/swap none swap sw 0 0",
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_spec_survives_json(layout):
    spec = NodeSpec(cores=4, sockets=2, layout=layout)
    assert NodeSpec.from_dict(json.loads(json.dumps(spec.as_dict()))) == spec


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"layout": "scratch"}, "layout 'scratch': allowed are scratch-apart, scratch-on-data"),
        ({"cores": 3, "sockets": 2}, "cores=3 is no multiple"),
        ({"memory": "4"}, "'4' is not a size"),
        ({"disks": (DiskSpec("beer-a", "data", "1GiB"), DiskSpec("beer-a", "data", "1GiB"))}, "not unique"),
    ],
)
def test_wrong_specs_are_refused(wrong, message):
    with pytest.raises(LabError, match=message):
        NodeSpec(**wrong)


def test_a_label_fits_ext4():
    with pytest.raises(LabError, match="at most 16 characters"):
        DiskSpec("beer-averylonglabel", "data", "1GiB")


def test_a_head_survives_json_and_a_node_without_one_does_not_know_of_it():
    plain = NodeSpec()
    assert "head" not in json.dumps(plain.as_dict())
    spec = replace(plain, disks=(replace(plain.disks[0], head=HeadSpec(8, 190_000_000)), *plain.disks[1:]))
    assert NodeSpec.from_dict(json.loads(json.dumps(spec.as_dict()))) == spec
    assert spec.without_heads() == plain
    assert spec.disks[0].limits == (None, None) != plain.disks[0].limits
