"""Claims about the switch in userspace: as fast as its links, and right when they lose packets."""

import json
import os
import statistics
import subprocess

from lab import CEILING, ROOT, ROUNDS, in_lab, median_seconds, peer, slowest_total


def ours(build, elements, repeat, *more):
    return [os.path.join(ROOT, build, "passing"), "all-reduce", "--elements", str(elements), "--repeat", str(repeat),
            "--warm-up", "2", "--check-last", "--json", *more]


def against_echo(build):
    """Time with sums over time with a contribution echoed to all instead."""
    ratios = []
    for _ in range(ROUNDS):
        command = ours(build, 4_000_000, 10)
        summed = median_seconds(in_lab(build, [], command))
        # The echo is no sum, so only the time counts.
        echoed = subprocess.run([os.path.join(ROOT, build, "passing"), "lab", "run", "--hosts", "4", "--plain",
                                 "--switch-argument=--echo", "--", *command, "--no-check"], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
        rows = [json.loads(line) for line in echoed.splitlines() if line.startswith("{")]
        if len(rows) != 4 or not all(row["ok"] for row in rows):
            raise RuntimeError("the echo did not run: " + echoed)
        ratios.append(summed / median_seconds(rows))
    return statistics.median(ratios)


def against_gloo(build):
    """Gloo's time over ours, 4 hosts, not shaped, 16 MB, alternating."""
    ratios = []
    for _ in range(ROUNDS):
        mine = median_seconds(in_lab(build, [], ours(build, 4_000_000, 15)))
        theirs = min(median_seconds(peer(build, name, "all_reduce", 4_000_000, 15)) for name in ("gloo ring", "gloo bcube"))
        ratios.append(theirs / mine)
    return statistics.median(ratios)


def of_ceiling(rate, bits, elements, repeat, loss=None):
    """Back-to-back operations on shaped links: rate reached, over what headers leave of the link."""
    def measure(build):
        samples = []
        for _ in range(3):
            arguments = ["--rate", rate] + (["--loss", str(loss)] if loss else [])
            rows = in_lab(build, arguments, ours(build, elements, repeat, "--in-flight", "2" if elements > 1_000_000 else "8"))
            samples.append(8 * rows[0]["bytes"] * rows[0]["repeat"] / slowest_total(rows) / bits / CEILING)
        return statistics.median(samples)
    return measure


def in_network_of_ceiling(rate, bits, elements, repeat):
    def measure(build):
        seconds = statistics.median(
            slowest_total(peer(build, "passing in_network", "all_reduce", elements, repeat, rate,
                               in_flight=2 if elements > 1_000_000 else 8, least=1.0)) for _ in range(3))
        return 8 * 4 * elements * repeat / seconds / bits / CEILING
    return measure


def claims():
    return [
        ("switch-echo", "4 hosts not shaped, 16 MB: sum against echo", "<=", 2, "x its time", against_echo),
        ("switch-gloo", "4 hosts not shaped, 16 MB: against Gloo", ">=", 1.2, "x its speed", against_gloo),
        ("shaped-1g-16m", "4 hosts at 1 Gbit/s, 16 MB back to back", ">=", 0.98, "of ceiling", of_ceiling("1gbit", 1e9, 4_000_000, 10)),
        ("shaped-1g-1m", "4 hosts at 1 Gbit/s, 1 MB back to back", ">=", 0.95, "of ceiling", of_ceiling("1gbit", 1e9, 250_000, 100)),
        ("shaped-200m-16m", "4 hosts at 200 Mbit/s, 16 MB back to back", ">=", 0.98, "of ceiling",
         of_ceiling("200mbit", 2e8, 4_000_000, 4)),
        ("shaped-200m-1m", "4 hosts at 200 Mbit/s, 1 MB back to back", ">=", 0.95, "of ceiling",
         of_ceiling("200mbit", 2e8, 250_000, 50)),
        ("loss-1", "4 hosts at 200 Mbit/s, 16 MB, 1 % loss", ">=", 0.75, "of ceiling", of_ceiling("200mbit", 2e8, 4_000_000, 3, 1)),
        ("loss-5", "4 hosts at 200 Mbit/s, 16 MB, 5 % loss", ">=", 0.5, "of ceiling", of_ceiling("200mbit", 2e8, 4_000_000, 3, 5)),
        ("loss-1-1g", "4 hosts at 1 Gbit/s, 16 MB, 1 % loss", ">=", 0.75, "of ceiling", of_ceiling("1gbit", 1e9, 4_000_000, 5, 1)),
        ("loss-5-1g", "4 hosts at 1 Gbit/s, 16 MB, 5 % loss", ">=", 0.5, "of ceiling", of_ceiling("1gbit", 1e9, 4_000_000, 5, 5)),
        ("in-network-1g-16m", "communicator in_network, 1 Gbit/s, 16 MB", ">=", 0.98, "of ceiling",
         in_network_of_ceiling("1gbit", 1e9, 4_000_000, 10)),
        ("in-network-1g-1m", "communicator in_network, 1 Gbit/s, 1 MB", ">=", 0.95, "of ceiling",
         in_network_of_ceiling("1gbit", 1e9, 250_000, 100)),
        ("in-network-200m-16m", "communicator in_network, 200 Mbit/s, 16 MB", ">=", 0.98, "of ceiling",
         in_network_of_ceiling("200mbit", 2e8, 4_000_000, 4)),
        ("in-network-200m-1m", "communicator in_network, 200 Mbit/s, 1 MB", ">=", 0.95, "of ceiling",
         in_network_of_ceiling("200mbit", 2e8, 250_000, 50)),
    ]
