"""PyTorch's own tests of torch.distributed: what gloo passes of them (gloo_passes.txt), this backend passes, and all_to_all.

    suite_test.py WORLD HOSTS
"""

import os
import sys

import pytorch_suite
from harness import Switch  # pytorch_suite knows where

HERE = os.path.dirname(os.path.abspath(__file__))
EXCEPT = {"test_sparse_all_reduce_sum": "sparse tensors are refused with a sentence: faults_test.py proves that"}


def main():
    world, hosts = map(int, sys.argv[1:])
    with open(os.path.join(HERE, "gloo_passes.txt")) as file:
        wanted = set(file.read().split())
    switch = Switch("--mtu", "1500")  # more slots than with the packets of loopback: some tests have many groups
    # auto would go without the switch where that is faster.
    os.environ.update(PASSING_CONTROLLER=switch.address, PASSING_STRATEGY="passing")
    try:
        case = pytorch_suite.names("passing", world)
        more = {name for name in case if name.startswith("test_all_to_all") and "cuda" not in name}
        outcomes = pytorch_suite.run("passing", world, hosts, (wanted | more) - EXCEPT.keys())
        carried = switch.metric("passing_packets_in_total")
    finally:
        switch.end()
    passed = {name for name, outcome in outcomes.items() if outcome[0] == "passed"}
    for name in sorted((wanted | more) - EXCEPT.keys() - passed):
        print(f"{name}: {outcomes.get(name, ['is not there'])}")
    print(f"world {world} on {hosts} hosts: {len(passed & wanted)} of the {len(wanted)} that gloo passes, and {len(passed - wanted)} of "
          f"all_to_all; the switch took {carried:.0f} packets")
    for name, reason in EXCEPT.items():
        print(f"not {name}: {reason}")
    good = wanted - EXCEPT.keys() <= passed and more <= passed and (hosts == 1 or carried > 0)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
