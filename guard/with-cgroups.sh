#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# with-cgroups.sh COMMAND...: runs it with a cgroup2 tree, whose folder is in BEER_TEST_CGROUP. For the build root, which has no /sys;
# the mount goes with its namespace. Who has the variable must not leave a test out for want of cgroups.
set -e
folder=/run/beer-test-cgroup
if mkdir -p "$folder" && mount -t cgroup2 none "$folder"; then
	export BEER_TEST_CGROUP="$folder"
else
	echo "with-cgroups.sh: no cgroup2 can be mounted (root can): what needs it is left out" >&2
fi
exec "$@"
