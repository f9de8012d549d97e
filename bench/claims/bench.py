"""Claims about `passing` beside its opponents, each table row from one run of `passing bench`, whose JSON stays in build/bench/."""

import functools
import json
import os
import subprocess

from lab import ROOT, program

GLOO = ("gloo", "gloo_bcube", "gloo_hd")
OPEN_MPI = ("openmpi", "openmpi_ring")
PEERS = (*GLOO, *OPEN_MPI)

# Each is one run. What a strategy is slow at is measured less often.
RUNS = {
    "4x1-1gbit": "--hosts 4 --rate 1gbit --sizes 1M,16M --strategies passing,ring --peers gloo,gloo_hd,openmpi,openmpi_ring",
    "4x1-200mbit": "--hosts 4 --rate 200mbit --sizes 1M,16M --strategies passing,ring --peers gloo,gloo_hd,openmpi_ring --samples 3",
    "8x1-200mbit": "--hosts 8 --rate 200mbit --sizes 16M --strategies passing --peers gloo,gloo_hd --samples 3",
    "4x4-200mbit": "--hosts 4 --ranks 4 --rate 200mbit --sizes 16M --strategies passing,ring_hierarchical,in_network,ps "
                   "--peers gloo,gloo_hd,openmpi_ring --samples 3",
    "racks": "--hosts 8 --racks 2 --rate 400mbit --spine-rate 100mbit --sizes 16M --strategies passing:rack,passing "
             "--peers gloo,gloo_hd,openmpi_ring --samples 3",
    "4x1-none": "--hosts 4 --rate none --sizes 16M,64M --strategies passing --peers gloo,gloo_bcube,openmpi,openmpi_ring",
    "4x4-none": "--hosts 4 --ranks 4 --rate none --sizes 16M --strategies passing --peers gloo,gloo_bcube,openmpi,openmpi_ring",
    "4x1-small": "--hosts 4 --rate none --sizes 1K:64K --strategies auto --peers gloo,gloo_bcube,gloo_hd,openmpi",
    "4x4-small": "--hosts 4 --ranks 4 --rate none --sizes 1K:64K --strategies auto --peers gloo,gloo_bcube,gloo_hd,openmpi",
}


def name_of(row):
    """As in ratio_to: passing:rack for sums in the rack, passing@tc for a switch that is not the usual one."""
    return row["strategy"] + (":rack" if row["local_domain"] == "rack" else "") + ("" if row["dataplane"] in ("", "userspace") else "@" + row["dataplane"])


@functools.lru_cache
def run(build, name):
    """Its rows, by name and bytes."""
    directory = os.path.join(ROOT, "build", "bench")
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name + ".json")
    subprocess.run([program(build, "passing"), "bench", *RUNS[name].split(), "--json", path], check=True)
    with open(path) as file:
        results = json.load(file)
    for each in results["absent"]:
        raise RuntimeError(f"{each['strategy']} is absent: {each['reason']}")
    return {(name_of(row), row["bytes"]): row for row in results["results"]}


def field(name, size, what, strategy="passing"):
    return lambda build: run(build, name)[strategy, size][what]


def against(name, size, others, strategy="passing"):
    """The least of the ratios to those of `others` that took part."""
    def measure(build):
        ratios = run(build, name)[strategy, size]["ratio_to"]
        return min(ratio for other, ratio in ratios.items() if other in others)
    return measure


def latency(name, size):
    """Median latency of the fastest peer over ours."""
    def measure(build):
        rows = {strategy: row["latency_seconds"] for (strategy, bytes), row in run(build, name).items() if bytes == size}
        return min(rows[peer] for peer in PEERS if peer in rows) / rows["auto"]
    return measure


def rack_uplink(build):
    """What the busiest uplink carried, in tensors. A host's own link carries more: 1.75 of them."""
    row = run(build, "racks")["passing:rack", 16_000_000]
    return row["uplink_bytes"] / row["bytes"]


def claims():
    found = []

    def claim(name, text, target, unit, measure, comparison=">="):
        found.append(("bench-" + name, "passing, " + text if unit != "of latency" else text, comparison, target, unit, measure))

    mega = 1_000_000
    for rate, shown in (("1gbit", "1 Gbit/s"), ("200mbit", "200 Mbit/s")):
        name = "4x1-" + rate
        for size, target in ((16, 0.98), (1, 0.95)):
            claim(f"{name}-{size}m", f"4 x 1, {shown}, {size} MB", target, "of ceiling", field(name, size * mega, "ceiling_ratio"))
            for other, who, least in ((GLOO, "Gloo", 1.4), (("openmpi_ring",), "Open MPI ring", 1.5), (("ring",), "our ring", 1.4)):
                claim(f"{name}-{size}m-{other[0].replace('_', '-')}", f"4 x 1, {shown}, {size} MB: against {who}", least, "x its speed",
                      against(name, size * mega, other))
    claim("8x1", "8 x 1, 200 Mbit/s, 16 MB", 0.97, "of ceiling", field("8x1-200mbit", 16 * mega, "ceiling_ratio"))
    claim("8x1-gloo", "8 x 1, 200 Mbit/s, 16 MB: against Gloo", 1.6, "x its speed", against("8x1-200mbit", 16 * mega, GLOO))
    claim("4x4", "4 x 4, 200 Mbit/s, 16 MB", 0.96, "of ceiling", field("4x4-200mbit", 16 * mega, "ceiling_ratio"))
    for other, who, least in ((PEERS, "the best peer", 1.6), (("in_network",), "in_network", 3.6), (("ps",), "ps, one server", 12),
                              (("ring_hierarchical",), "ring_hierarchical", 1.4)):
        claim(f"4x4-{other[0].replace('_', '-')}", f"4 x 4, 200 Mbit/s, 16 MB: against {who}", least, "x its speed", against("4x4-200mbit", 16 * mega, other))
    claim("racks", "2 racks x 4, 400 and 100 Mbit/s: over local_domain=host", 3, "x its speed",
          against("racks", 16 * mega, ("passing",), "passing:rack"))
    claim("racks-uplink", "2 racks x 4: a spine link carries", 1.1, "tensors", rack_uplink, "<=")
    claim("racks-peer", "2 racks x 4, 400 and 100 Mbit/s: against the best peer", 1.5, "x its speed", against("racks", 16 * mega, PEERS, "passing:rack"))
    for size in (16, 64):
        claim(f"4x1-none-{size}m-gloo", f"4 x 1 not shaped, {size} MB: against Gloo", 1.2, "x its speed", against("4x1-none", size * mega, GLOO))
        claim(f"4x1-none-{size}m-open-mpi", f"4 x 1 not shaped, {size} MB: against Open MPI", 2, "x its speed",
              against("4x1-none", size * mega, OPEN_MPI))
    claim("4x4-none", "4 x 4 not shaped, 16 MB: against the best peer", 1.5, "x its speed", against("4x4-none", 16 * mega, PEERS))
    for shape in ("4x1", "4x4"):
        for size in (1, 4, 16, 64):
            claim(f"{shape}-small-{size}k", f"auto, {shape.replace('x', ' x ')} not shaped, {size} KB: best peer's latency over ours", 0.8,
                  "of latency", latency(shape + "-small", size * 1000))
    return found
