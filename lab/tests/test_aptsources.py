# SPDX-License-Identifier: Apache-2.0
import pytest
from beerlab.aptsources import Source, deb822_sources, mirror, one_line_sources
from beerlab.errors import LabError

DEB822 = """\
Types: deb
# a snapshot
URIs: http://m.test/debian
Suites: bookworm
 bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://m.test/debian-security
Suites: bookworm-security
Components: main

Enabled: no
Types: deb
URIs: http://off.test/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://source.test/debian
Suites: bookworm
Components: main
"""


@pytest.fixture
def apt(tmp_path):
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "os-release").write_text('ID=debian\nVERSION_CODENAME=bookworm\nVERSION_ID="12"\n')
    return tmp_path


def test_deb822_has_folded_suites_and_leaves_out_what_is_off_or_source():
    found = list(deb822_sources(DEB822))
    assert found == [
        Source("http://m.test/debian", ("bookworm", "bookworm-updates"), ("main",)),
        Source("http://m.test/debian-security", ("bookworm-security",), ("main",)),
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "deb http://m.test/debian trixie main contrib",
            [Source("http://m.test/debian", ("trixie",), ("main", "contrib"))],
        ),
        (
            "deb [arch=amd64 signed-by=/k] http://m.test/d trixie main",
            [Source("http://m.test/d", ("trixie",), ("main",))],
        ),
        ("deb http://m.test/d trixie main # why", [Source("http://m.test/d", ("trixie",), ("main",))]),
        ("# deb http://m.test/debian trixie main", []),
        ("deb-src http://m.test/debian trixie main", []),
    ],
)
def test_one_line_sources(line, expected):
    assert list(one_line_sources(line)) == expected


def test_mirror_is_the_one_with_the_hosts_own_suite(apt):
    (apt / "sources.list").write_text("deb http://other.test/tools bookworm stable\n")
    (apt / "sources.list.d" / "debian.sources").write_text(DEB822)
    (apt / "sources.list.d" / "ignored.sources.bak").write_text("deb http://bak.test/debian bookworm main\n")
    assert mirror(apt, apt / "os-release") == "http://m.test/debian"


def test_no_mirror_names_the_suite(apt):
    with pytest.raises(LabError, match="no source has the suite 'bookworm'"):
        mirror(apt, apt / "os-release")
