"""The examples, each with three ranks: started by hand, by Open MPI, by MPICH, and in the lab; DDP also by torchrun.

PASSING_EXAMPLES_DIR is where they were built, PASSING_LIBRARY is libpassing.so, PASSING the command.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

BUILT = os.environ["PASSING_EXAMPLES_DIR"]
LIBRARY = os.environ["PASSING_LIBRARY"]
PASSING = os.environ["PASSING"]
SOURCE = pathlib.Path(__file__).resolve().parents[2] / "examples"
PACKAGE = os.environ.get("PASSING_PYTHON_PACKAGE")
DDP = str(SOURCE / "ddp.py")
RANKS = 3
RIGHT = (r"all_reduce: size (\d+), strategy (\w+): 1000000 float32 summed, every element right; seed 42")
EXAMPLES = {
    "C++": [f"{BUILT}/all_reduce"],
    "C": [f"{BUILT}/all_reduce_c"],
    "Python": ["/usr/bin/python3", str(SOURCE / "all_reduce.py")],
}


def environment(**variables):
    """Ours without what a launcher around this test may have said."""
    foreign = re.compile(r"PASSING_|OMPI_|PMIX?_|SLURM_|MPI_|(LOCAL_)?RANK$|(LOCAL_)?WORLD_SIZE$")
    kept = {key: value for key, value in os.environ.items() if not foreign.match(key)}
    return {**kept, "PASSING_LIBRARY": LIBRARY, **variables}


class Examples(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="passing-examples-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def start(self, command, **variables):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, env=environment(**variables))
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        """With all that it started."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def output(self, process, status=0):
        out, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, status, out + errors)
        return out if status == 0 else errors

    def assert_right(self, out, size=RANKS, strategy="auto"):
        found = re.findall(RIGHT, out)
        self.assertEqual(found, [(str(size), strategy)], out)

    def launch(self, launcher, package, *arguments):
        self.assertIsNotNone(shutil.which(launcher), f"{launcher} is missing; install {package}")
        for language, command in EXAMPLES.items():
            with self.subTest(language):
                process = self.start([launcher, *arguments, "-n", str(RANKS), *command],
                                     PASSING_DIRECTORY=self.directory)
                self.assert_right(self.output(process))

    def test_by_hand(self):
        for language, command in EXAMPLES.items():
            with self.subTest(language):
                ranks = [self.start(command, PASSING_RANK=str(rank), PASSING_SIZE=str(RANKS),
                                    PASSING_DIRECTORY=self.directory) for rank in range(RANKS)]
                first, *others = [self.output(rank) for rank in ranks]
                self.assert_right(first)
                self.assertEqual(others, [""] * (RANKS - 1))

    def test_languages_together(self):
        ranks = [self.start(command, PASSING_RANK=str(rank), PASSING_SIZE=str(RANKS), PASSING_DIRECTORY=self.directory)
                 for rank, command in enumerate([EXAMPLES["C"], EXAMPLES["C++"], EXAMPLES["C++"]])]
        self.assert_right("".join(self.output(rank) for rank in ranks))

    def test_open_mpi(self):
        self.launch("mpirun.openmpi", "openmpi-bin", "--allow-run-as-root", "--oversubscribe")

    def test_mpich(self):
        self.launch("mpiexec.hydra", "mpich")

    def test_lab(self):
        for language, command in EXAMPLES.items():
            with self.subTest(language):
                process = self.start([PASSING, "lab", "run", "--hosts", "2", "--ranks", "2", "--", *command])
                self.assert_right(self.output(process), size=4, strategy="auto")

    def trains(self, command, size, way, **variables):
        if not PACKAGE:
            self.skipTest("the torch backend is not built")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        command = [port if word == "PORT" else word for word in command]
        process = self.start(command, PYTHONPATH=PACKAGE, OMP_NUM_THREADS="1", **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **variables})
        out = self.output(process)
        found = re.search(r"(\d+) ranks, ([\d.]+) % right; (.*)", out)
        self.assertIsNotNone(found, out)
        self.assertEqual(found[1], str(size))
        self.assertGreater(float(found[2]), 90)
        self.assertIn(way, found[3])

    def test_ddp_by_torchrun(self):
        self.trains(["/usr/bin/python3", "-m", "torch.distributed.run", "-r", "1", "-t", "1", "--master_addr", "127.0.0.1",
                     "--master_port", "PORT", "--nproc_per_node", "2", DDP], 2, "in the host")

    def test_ddp_by_mpirun(self):
        self.trains(["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2", "/usr/bin/python3", DDP], 2, "in the host")

    def test_ddp_by_mpich(self):
        self.trains(["mpiexec.mpich", "-n", "2", "/usr/bin/python3", DDP], 2, "in the host")

    def test_ddp_in_the_lab(self):
        self.trains([PASSING, "lab", "run", "--hosts", "2", "--ranks", "2", "--rate", "1gbit", "--", "env", "PASSING_STRATEGY=passing",
                     "/usr/bin/python3", DDP], 4, "passing, as set")

    def test_ddp_by_mpich_in_the_lab(self):
        self.trains([PASSING, "lab", "run", "--hosts", "2", "--once", "--", "env", "PASSING_STRATEGY=passing", "mpiexec.mpich", "-hosts", "host0,host1",
                     "-ppn", "2", "-n", "4", "/usr/bin/python3", DDP], 4, "passing, as set")

    def test_bad_setting(self):
        for language, command in EXAMPLES.items():
            with self.subTest(language):
                errors = self.output(self.start(command, PASSING_RANK="0", PASSING_SIZE="x"), status=1)
                self.assertRegex(errors, r"\Aall_reduce: .*PASSING_SIZE.*'x'.*\n\Z")

    def test_missing_rank(self):
        for language, command in EXAMPLES.items():
            with self.subTest(language):
                process = self.start(command, PASSING_RANK="0", PASSING_SIZE="2", PASSING_CREATE_TIMEOUT="0.5",
                                     PASSING_DIRECTORY=self.directory)
                self.assertRegex(self.output(process, status=1), r"\Aall_reduce: .*rank 1.*\n\Z")


if __name__ == "__main__":
    unittest.main()
