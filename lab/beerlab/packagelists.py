# SPDX-License-Identifier: Apache-2.0
"""Debian packages of the roots, each group with its reason. Adding one here is all it takes."""

from __future__ import annotations

SUITE = "trixie"

# Compilers, packaging, and the services whose own tools check our configuration; also the storage clients' root.
BUILD = (
    # packaging
    *("build-essential", "debhelper", "dh-exec", "dpkg-dev", "fakeroot", "git", "apt-utils"),
    # storage-daemon
    *("cmake", "ninja-build", "pkgconf", "libxrootd-dev", "libxrootd-server-dev", "libxrootd-private-dev"),
    *("xrootd-server", "xrootd-client", "xrootd-plugins", "xrootd-server-plugins", "libgtest-dev", "clang-format"),
    "nlohmann-json3-dev",
    # guard
    *("rustc", "cargo", "rustfmt", "rust-clippy"),
    # clients and Python parts
    *("python3", "python3-xrootd", "python3-pytest", "python3-pytest-xdist", "python3-venv", "python3-pip"),
    # condor_config_val, systemd-analyze, udevadm verify, nft -c and promtool check our fragments
    *("condor", "systemd", "udev", "nftables", "prometheus"),
    # the job image is a Debian root too
    *("mmdebstrap", "debian-archive-keyring", "ca-certificates", "zstd", "xz-utils"),
    # the host's tools for looking into things
    *("fio", "attr", "iproute2", "procps", "openssl", "shellcheck"),
)

# A disk server: what its site would have installed before our packages come.
NODE = (
    *("systemd", "systemd-sysv", "dbus", "udev", "kmod", "util-linux", "procps", "iproute2", "e2fsprogs"),
    *("linux-image-cloud-amd64", "initramfs-tools", "zstd", "openssh-server", "ca-certificates"),
    *("xrootd-server", "xrootd-client", "xrootd-plugins", "xrootd-server-plugins"),
    *("condor", "docker.io", "docker-cli", "podman", "crun", "iptables", "nftables"),
    *("prometheus", "prometheus-node-exporter"),
    # hogs, clients and a look inside, used by tests
    *("python3", "fio", "stress-ng", "dmsetup", "attr", "curl", "strace"),
)
