"""Claims about the switch in the kernel beside the one in userspace, from runs of `passing bench`."""

import re
import subprocess

import bench
from lab import program

MEGA = 1_000_000
CHUNK = 1400  # 350 elements: one packet at MTU 1500

bench.RUNS.update({
    "kernel-1gbit-9000": "--hosts 4 --rate 1gbit --mtu 9000 --sizes 16M --strategies passing --peers none --dataplane userspace,mmsg,tc",
    "kernel-200mbit": "--hosts 4 --rate 200mbit --sizes 16M --strategies passing --peers none --dataplane userspace,mmsg,tc,xdp --samples 3",
    "kernel-none-3500": "--hosts 4 --rate none --mtu 3500 --sizes 16M --strategies passing --peers none --dataplane userspace,mmsg,tc,xdp --profile",
    "kernel-none-9000": "--hosts 4 --rate none --mtu 9000 --sizes 16M --strategies passing --peers none --dataplane userspace,mmsg,tc --profile",
    "kernel-chunk": f"--hosts 4 --rate none --sizes {CHUNK} --strategies passing --peers none --dataplane userspace,mmsg,tc,xdp",
})


def over(name, size, what, dataplane, other):
    def measure(build):
        rows = bench.run(build, name)
        return rows["passing@" + dataplane, size][what] / rows["passing" + other, size][what]
    return measure


def verified(dataplane, mtu):
    """Instructions that the verifier walked, in thousands, as the switch itself says."""
    def measure(build):
        said = subprocess.run([program(build, "passing"), "lab", "run", "--hosts", "1", "--dataplane", dataplane, "--mtu", str(mtu), "--", "true"],
                              capture_output=True, text=True, check=True)
        return int(re.search(r"(\d+) instructions verified", said.stdout + said.stderr).group(1)) / 1000
    return measure


def claims():
    tc, xdp = "passing@tc", "passing@xdp"
    return [
        ("kernel-tc-1gbit", "tc, 4 x 1, 1 Gbit/s, MTU 9000, 16 MB", ">=", 0.92, "of ceiling",
         bench.field("kernel-1gbit-9000", 16 * MEGA, "ceiling_ratio", tc)),
        ("kernel-tc-200mbit", "tc, 4 x 1, 200 Mbit/s, MTU 1500, 16 MB", ">=", 0.97, "of ceiling",
         bench.field("kernel-200mbit", 16 * MEGA, "ceiling_ratio", tc)),
        ("kernel-xdp-200mbit", "xdp, 4 x 1, 200 Mbit/s, MTU 1500, 16 MB", ">=", 0.97, "of ceiling",
         bench.field("kernel-200mbit", 16 * MEGA, "ceiling_ratio", xdp)),
        ("kernel-xdp-3500", "xdp, 4 x 1 not shaped, MTU 3500: against userspace without GSO", ">=", 1.1, "x its speed",
         bench.against("kernel-none-3500", 16 * MEGA, ("passing@mmsg",), xdp)),
        ("kernel-tc-cpu", "tc, 4 x 1 not shaped, MTU 9000: CPU of the machine over userspace mmsg", "<=", 0.8, "x its CPU",
         over("kernel-none-9000", 16 * MEGA, "machine_cpu_seconds_per_gb", "tc", "@mmsg")),
        ("kernel-tc-chunk", "tc, one chunk not shaped: latency over userspace", "<=", 0.7, "x its latency",
         over("kernel-chunk", CHUNK, "latency_seconds", "tc", "")),
        ("kernel-tc-verifier", "tc at MTU 9000: the verifier walks", "<=", 200, "thousand instructions", verified("tc", 9000)),
        ("kernel-xdp-verifier", "xdp at MTU 3500: the verifier walks", "<=", 200, "thousand instructions", verified("xdp", 3500)),
    ]
