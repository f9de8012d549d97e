"""Launchers inside Slurm, and Slurm inside launchers: each rank takes the rank that the nearest of them says. Needs root.

PASSING is the command, PASSING_EXAMPLES_DIR where the examples were built.
"""

import os
import pathlib
import re
import tempfile
import time
import unittest

from slurm import Slurm, missing

PASSING = os.environ["PASSING"]
ALL_REDUCE = f"{os.environ['PASSING_EXAMPLES_DIR']}/all_reduce"
PACKAGE = os.environ.get("PASSING_PYTHON_PACKAGE")
DDP = ["/usr/bin/python3", str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "ddp.py")]
MPIRUN = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "oob_tcp_if_include", "eth0"]
MPIEXEC = ["mpiexec.mpich"]
ALLOCATE = ["salloc", "-Q", "-N", "2", "-n", "4"]
FOUR = ["-N", "2", "-n", "4"]


class Launchers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lacking = "needs root, for network namespaces" if os.geteuid() != 0 else ""
        if missing():
            lacking = f"{', '.join(missing())} missing: tools/install-deps installs Slurm"
        if lacking:
            raise AssertionError(lacking) if os.environ.get("CI") else unittest.SkipTest(lacking)
        cls.directory = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="passing-slurm-"))
        cls.slurm = Slurm(PASSING, cls.directory)
        cls.addClassCleanup(cls.slurm.stop)
        cls.slurm.start()

    def setUp(self):
        # What the step before had is given back a moment after its end.
        deadline = time.monotonic() + 30
        while self.slurm.run("host0", "squeue", "-h").stdout.strip():
            self.assertLess(time.monotonic(), deadline, "a job does not end")
            time.sleep(0.1)

    def output(self, *command, **variables):
        result = self.slurm.run("host0", *command, PASSING_CREATE_TIMEOUT="30", PASSING_TIMEOUT="30", **variables)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def sums(self, size, *launcher, command=(ALL_REDUCE,)):
        found = re.findall(r"all_reduce: size (\d+), .* every element right", self.output(*launcher, *command))
        self.assertEqual(found, [str(size)])

    def test_srun(self):
        self.sums(4, "srun", *FOUR)

    def test_srun_with_pmi2(self):
        self.sums(4, "srun", "--mpi=pmi2", *FOUR)
        self.sums(4, "srun", "--mpi=pmi2", *FOUR, command=("sh", "-c", f"{ALL_REDUCE}; exit $?"))

    def test_mpich_in_an_allocation(self):
        self.sums(4, *ALLOCATE, *MPIEXEC, "-n", "4")

    def test_mpich_in_a_batch_script(self):
        script = f"{self.directory}/script"
        pathlib.Path(script).write_text(f"#!/bin/sh\nmpiexec.mpich -n 4 {ALL_REDUCE}\n")
        self.output("sbatch", "-Q", "-W", *FOUR, "-o", script + ".out", script)
        self.assertRegex(pathlib.Path(script + ".out").read_text(), "size 4, .* every element right")

    def test_mpich_in_a_task(self):
        self.sums(3, "srun", "-n", "1", *MPIEXEC, "-launcher", "fork", "-n", "3")

    def test_two_of_mpich_at_once(self):
        # Each has a step of its own, and so a job of its own.
        one = f"mpiexec.mpich -n 2 {ALL_REDUCE}"
        output = self.output("salloc", "-Q", "-N", "2", "-n", "8", "env", "SLURM_OVERLAP=1", "sh", "-c", f"{one} & {one} && wait $!")
        self.assertEqual(len(re.findall("size 2, .* every element right", output)), 2, output)

    def test_open_mpi_in_an_allocation(self):
        self.sums(4, *ALLOCATE, *MPIRUN, "-n", "4")

    def test_slurm_in_a_process_of_another_launcher(self):
        self.sums(4, *MPIEXEC, "-n", "1", "srun", *FOUR)
        self.sums(4, *MPIRUN, "-n", "1", "srun", *FOUR)

    def trains(self, size, *launcher, command=DDP):
        if not PACKAGE:
            self.skipTest("the torch backend is not built")
        output = self.output("env", "-u", "MASTER_ADDR", *launcher, *command, PYTHONPATH=PACKAGE, OMP_NUM_THREADS="1")
        self.assertEqual(re.findall(r"(\d+) ranks, 9[\d.]+ % right", output), [str(size)], output)

    def test_ddp_by_srun(self):
        self.trains(4, "srun", *FOUR)

    def test_ddp_by_mpich(self):
        self.trains(4, *ALLOCATE, *MPIEXEC, "-n", "4")

    def test_ddp_by_open_mpi(self):
        self.trains(4, *ALLOCATE, *MPIRUN, "-n", "4")

    def test_ddp_by_torchrun(self):
        torchrun = ["/usr/bin/python3", "-m", "torch.distributed.run", "-r", "1", "-t", "1", "--nnodes", "2", "--nproc_per_node", "2",
                    "--rdzv_backend", "c10d", "--rdzv_endpoint", "host0:29400", "--rdzv_id", "slurm"]
        self.trains(4, "srun", "-N", "2", "-n", "2", *torchrun, command=DDP[1:])


if __name__ == "__main__":
    unittest.main(verbosity=2)
