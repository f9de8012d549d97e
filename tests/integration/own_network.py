"""A network of its own for a test: what is dropped there, nobody else misses."""

import os
import pathlib
import subprocess
import sys
import unittest

INSIDE = "PASSING_TEST_INSIDE"
TABLE = "table inet test {{ chain input {{ type filter hook input priority 0; {rules} }}; }}"


def drop(rules):
    """From now on; in the terms of nft."""
    subprocess.run(["nft", "flush ruleset; " + TABLE.format(rules=rules)], check=True)


def ports(process):
    """Of all sockets of a process, at its end."""
    descriptors = pathlib.Path(f"/proc/{process.pid}/fd").iterdir()
    inodes = {os.readlink(each).removeprefix("socket:[").removesuffix("]") for each in descriptors}
    found = set()
    for table in ("tcp", "udp"):
        for line in pathlib.Path(f"/proc/{process.pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes:
                found.add(int(fields[1].rpartition(":")[2], 16))
    return found


def cut_off(process):
    """As if its machine were gone: nothing comes from it, and nothing gets there."""
    its = ", ".join(map(str, sorted(ports(process))))
    drop(" ".join(f"{protocol} {end} {{ {its} }} drop;" for protocol in ("tcp", "udp") for end in ("sport", "dport")))


def main():
    if INSIDE in os.environ:
        unittest.main()
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode != 0:
        print("a network of its own needs root, and a system that permits network namespaces")
        sys.exit(77)
    inside = ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\"", sys.executable, *sys.argv]
    sys.exit(subprocess.run(inside, env={**os.environ, INSIDE: "1"}, check=False).returncode)
