"""passing.torch.rendezvous_from_environment(): what launchers say, in torchrun's words."""

import os
import unittest
from unittest import mock

import passing.torch
from passing.torch.launch import first_node

# As Slurm 22.05, MPICH 4.0 and Open MPI 4.1 set them; on a node of its own for each rank, but for the last two.
SRUN = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "1", "SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0", "SLURM_NODEID": "1",
        "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_NODELIST": "gpu[08-09]",
        "SLURM_JOB_NODELIST": "gpu[07-09]"}
# Its proxies are a step without the node that mpiexec is on.
MPICH_IN_SLURM = {**SRUN, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "PMI_RANK": "2", "PMI_SIZE": "3", "MPI_LOCALRANKID": "0",
                  "MPI_LOCALNRANKS": "1"}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            "PMIX_NAMESPACE": "12345"}
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")


class Rendezvous(unittest.TestCase):
    def after(self, environment):
        with mock.patch.dict(os.environ, environment, clear=True):
            passing.torch.rendezvous_from_environment()
            return {name: os.environ[name] for name in (*NAMES, "MASTER_PORT")}

    def said(self, environment):
        return " ".join(self.after(environment)[name] for name in NAMES)

    def test_every_launcher(self):
        self.assertEqual(self.said(SRUN), "1 2 0 1 gpu08")
        self.assertEqual(self.said(MPICH_IN_SLURM), "2 3 0 1 gpu07")
        self.assertEqual(self.said(MPICH), "1 2 1 2 127.0.0.1")
        self.assertEqual(self.said(OPEN_MPI), "1 2 1 2 127.0.0.1")

    def test_what_is_set_stays(self):
        self.assertEqual(self.said({**SRUN, "MASTER_ADDR": "here"}), "1 2 0 1 here")
        torchrun = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "7"}
        self.assertEqual(self.after({**SRUN, **torchrun}), torchrun)

    def test_jobs_have_ports_of_their_own(self):
        port = self.after(SRUN)["MASTER_PORT"]
        self.assertEqual(self.after({**SRUN, "SLURM_PROCID": "0"})["MASTER_PORT"], port)
        self.assertNotEqual(self.after({**SRUN, "SLURM_STEP_ID": "2"})["MASTER_PORT"], port)
        self.assertEqual(self.after(MPICH)["MASTER_PORT"], "29500")

    def test_several_hosts_need_a_master(self):
        with self.assertRaisesRegex(ValueError, "1 of 2 ranks are on this host, but MASTER_ADDR is not set"):
            self.after({**MPICH, "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"})
        with self.assertRaisesRegex(ValueError, "nothing says which rank this process is"):
            self.after({})

    def test_first_nodes(self):
        for nodes, first in {"node0": "node0", "a,b": "a", "gpu[07-09,12],login": "gpu07", "n[1,3]": "n1", "r[1-2]n[03-04]x,b": "r1n03x",
                             "n1-2[5]": "n1-25"}.items():
            self.assertEqual(first_node(nodes), first)


if __name__ == "__main__":
    unittest.main(verbosity=2)
