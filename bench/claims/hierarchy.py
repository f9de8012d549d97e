"""Claims about several ranks per host: sums in one host against Gloo and Open MPI, and `passing` across hosts."""

import functools
import math
import statistics
import sys

from collectives import show
from lab import CEILING, HOSTS, ROUNDS, peer, peer_with_links, slowest_total

SIZES = {"1kb": 250, "16kb": 4_000, "256kb": 64_000, "16mb": 4_000_000, "64mb": 16_000_000}
LARGE = ("16mb", "64mb")
RATE, BITS = "200mbit", 2e8
ORDINARY, ALLOCATED = "passing passing", "passing passing allocated"

# The least that a sample lasts, in seconds: the kernel takes some 50 ms to place new processes well.
LONG_ENOUGH = 0.35


def in_one_host(build, name, ranks, elements, repeat):
    """Seconds of the slowest rank per all-reduce, one at a time, back to back."""
    rows = peer(build, name, "all_reduce", elements, repeat, warm_up=2 + repeat // 5, hosts=1, ranks=ranks)
    return slowest_total(rows) / repeat


@functools.lru_cache
def against_rivals_in_host(build, ranks, size):
    """Time of the better rival over each of ours, alternating: medians of the rounds."""
    elements = SIZES[size]
    ours = (ORDINARY, ALLOCATED) if size in LARGE else (ORDINARY,)
    rivals = ["gloo ring", "gloo bcube", "gloo halving_doubling", "open_mpi default", "open_mpi polling"]
    if 4 * elements <= 64 << 10:
        rivals.append("gloo halving_doubling_sync")
    def sample(name):
        return in_one_host(build, name, ranks, elements, repeat)
    # Few, to find the best rival; who comes close to it takes part. Then as often as the fastest needs to last long enough.
    repeat = 10 if size in LARGE else 300
    seconds = {name: sample(name) for name in (*ours, *rivals)}
    show(seconds)
    rivals = [name for name in rivals if seconds[name] < 2.5 * min(seconds[rival] for rival in rivals)]
    while LONG_ENOUGH > repeat * min(seconds.values()):
        repeat = math.ceil(1.2 * LONG_ENOUGH / min(seconds.values()))
        seconds = {name: sample(name) for name in (*ours, *rivals)}
        show(seconds)
    ratios = {name: [] for name in ours}
    for _ in range(ROUNDS):
        seconds = {name: sample(name) for name in (*ours, *rivals)}
        show(seconds)
        for name in ours:
            ratios[name].append(min(seconds[rival] for rival in rivals) / seconds[name])
    return {name: statistics.median(values) for name, values in ratios.items()}


def in_host(ours, ranks, size):
    return lambda build: against_rivals_in_host(build, ranks, size)[ours]


def shared_memory(build):
    """What the rank that has touched most shared memory, whoever owns it, has touched: in tensors."""
    rows = peer(build, ORDINARY, "all_reduce", SIZES["16mb"], 5, hosts=1, ranks=4)
    return max(1024 * row["shared_kb"] / row["bytes"] for row in rows)


def larger_than_memory(build):
    """Ranks with a right result after 1 GB went through the default of 64 MB of shared memory."""
    return len(peer(build, ORDINARY, "all_reduce", 250_000_000, 1, warm_up=0, hosts=1, ranks=2))


def across_hosts(build, strategy, ranks, elements, repeat, in_flight, least):
    """Seconds of the slowest rank per all-reduce; and tensors that the busiest link carried for one, either way."""
    warm_up = 1
    rows, links = peer_with_links(build, "passing " + strategy, "all_reduce", elements, repeat, RATE, in_flight=in_flight,
                                  warm_up=warm_up, least=least, ranks=ranks)
    operations = rows[0]["operations"]
    busiest = max(max(link["up_bytes"], link["down_bytes"]) for link in links)
    return slowest_total(rows) / repeat, busiest / operations / rows[0]["bytes"]


@functools.lru_cache
def against_in_network(build, ranks):
    """passing beside in_network, 16 MB, alternating: speed-up, share of the ceiling and tensors per link, medians of the
    rounds (of the links: the most)."""
    elements = SIZES["16mb"]
    speed_up, of_ceiling, tensors = [], [], []
    for _ in range(ROUNDS):
        ours, carried = across_hosts(build, "passing", ranks, elements, 6, 2, 1)
        theirs, _ = across_hosts(build, "in_network", ranks, elements, 2, 2, ranks)
        show({f"passing {HOSTS} x {ranks}": ours, "in_network": theirs})
        print(f"  the busiest link of passing: {carried:.4f} tensors", file=sys.stderr)
        speed_up.append(theirs / ours)
        of_ceiling.append(8 * 4 * elements / ours / BITS / CEILING)
        tensors.append(carried)
    return {"speed-up": statistics.median(speed_up), "of ceiling": statistics.median(of_ceiling), "tensors": max(tensors)}


def beside_in_network(ranks, what):
    return lambda build: against_in_network(build, ranks)[what]


def back_to_back(build):
    """Rate of 100 operations of 1 MB, 8 in flight, over that of one of 100 MB, alternating."""
    ratios = []
    for _ in range(ROUNDS):
        small, _ = across_hosts(build, "passing", 4, 250_000, 100, 8, 1)
        large, _ = across_hosts(build, "passing", 4, 25_000_000, 1, 1, 1)
        show({"100 of 1 MB": 100 * small, "one of 100 MB": large})
        ratios.append(large / (100 * small))
    return statistics.median(ratios)


AUTO = {"1kb": (250, 400), "64kb": (16_000, 100), "1mb": (250_000, 40), "16mb": (4_000_000, 3)}
FIXED = ("passing", "ring_hierarchical", "ring", "halving_doubling", "in_network")


def auto(rate, size):
    """Time of the fastest fixed strategy, over that of auto, 4 hosts x 2, alternating."""
    elements, repeat = AUTO[size]

    def seconds(build, strategy):
        rows = peer(build, "passing " + strategy, "all_reduce", elements, repeat, rate, ranks=2, least=0.1)
        return slowest_total(rows) / repeat

    def figure(build):
        first = {name: seconds(build, name) for name in FIXED}
        show(first)
        close = [name for name in FIXED if first[name] < 1.5 * min(first.values())]
        ratios = []
        for _ in range(ROUNDS):
            times = {name: seconds(build, name) for name in ("auto", *close)}
            show(times)
            ratios.append(min(times[name] for name in close) / times["auto"])
        return statistics.median(ratios)

    return figure


def in_host_claims():
    found = []
    for ranks in (2, 4):
        for size in SIZES:
            text = f"{ranks} ranks in a host, {size[:-2]} {size[-2:].upper()}"
            target = (1.1 if ranks == 2 else 2) if size in LARGE else (0.9 if ranks == 2 else 1.0)
            found.append((f"in-host-{ranks}-{size}", text, ">=", target, "of the better", in_host(ORDINARY, ranks, size)))
            if size in LARGE:
                found.append((f"in-host-{ranks}-{size}-allocated", text + ", allocated buffers", ">=", 4, "of the better",
                              in_host(ALLOCATED, ranks, size)))
    found.append(("in-host-memory", "4 ranks in a host, 16 MB: shared memory of a rank", "<=", 1.1, "tensors", shared_memory))
    found.append(("in-host-1gb", "2 ranks in a host, 1 GB in 64 MB: all right", ">=", 2, "ranks", larger_than_memory))
    return found


def across_claims():
    found = []
    for ranks in (2, 4):
        found.append((f"passing-{ranks}-speed-up", f"passing, {HOSTS} hosts x {ranks}, 200 Mbit/s, 16 MB: over in_network", ">=",
                      0.9 * ranks, "x its speed", beside_in_network(ranks, "speed-up")))
    found.append(("passing-4-ceiling", f"passing, {HOSTS} hosts x 4, 200 Mbit/s, 16 MB", ">=", 0.96, "of ceiling",
                  beside_in_network(4, "of ceiling")))
    found.append(("passing-4-links", f"passing, {HOSTS} hosts x 4, 16 MB: the busiest link", "<=", 1.08, "tensors",
                  beside_in_network(4, "tensors")))
    found.append(("passing-4-small", f"passing, {HOSTS} hosts x 4, 100 of 1 MB: over one of 100 MB", ">=", 0.9, "x its speed",
                  back_to_back))
    return found


def auto_claims():
    found = []
    for rate, shown in (("200mbit", "200 Mbit/s"), ("1gbit", "1 Gbit/s")):
        for size in AUTO:
            found.append((f"auto-{rate}-{size}", f"auto, {HOSTS} hosts x 2, {shown}, {size[:-2]} {size[-2:].upper()}: of the best fixed",
                          ">=", 0.9, "x its speed", auto(rate, size)))
    return found
