"""The backend "passing" of torch.distributed.

    import passing.torch
    torch.distributed.init_process_group("passing")

Where srun, mpirun or mpiexec has started the ranks, passing.torch.rendezvous_from_environment() goes between the two.
Settings come from the environment: PASSING_CONTROLLER (of the switch), PASSING_STRATEGY and others; see docs/torch.md.
"""

import atexit
import functools

import torch
import torch.distributed as dist

from . import _built

if not dist.is_available():
    raise ImportError("passing.torch needs a torch with torch.distributed; this one was built without it")
if torch.__version__.split(".")[:2] != _built.TORCH.split(".")[:2]:
    raise ImportError(
        f"passing.torch was built for torch {_built.TORCH}, but this is torch {torch.__version__}: "
        "their binary interfaces differ; build it again beside this torch (pip install . in the sources)")

from . import _backend  # noqa: E402 (only now it is known to fit)
from .launch import rendezvous_from_environment  # noqa: E402

__all__ = ["explain", "rendezvous_from_environment"]


def explain(elements, group=None, dtype=torch.float32):
    """Which way an all-reduce of so many elements goes in a group, and why, in a sentence."""
    return _backend.explain(_raw(group), elements, torch.empty(0, dtype=dtype))


def _raw(group):
    group = group or dist.distributed_c10d._get_default_group()
    # From 2.0 on a process group holds a backend per device.
    return group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group


def _register():
    if int(torch.__version__.split(".")[0]) >= 2:
        dist.Backend.register_backend("passing", _backend.create, extended_api=False, devices=["cpu"])
    else:
        dist.Backend.register_backend("passing", _backend.create)


def _allow_monitored_barrier():
    """torch asks for gloo by name before it calls the group's monitored barrier; ours has one too."""
    original = dist.monitored_barrier

    @functools.wraps(original)
    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        if dist.distributed_c10d._rank_not_in_group(group) or dist.get_backend(group) != "passing":
            arguments = {} if timeout is None else {"timeout": timeout}
            return original(group=group, wait_all_ranks=wait_all_ranks, **arguments)
        chosen = group or dist.distributed_c10d._get_default_group()
        timeout = dist.distributed_c10d.default_pg_timeout if timeout is None else timeout
        return chosen.monitored_barrier(timeout, wait_all_ranks)

    dist.monitored_barrier = dist.distributed_c10d.monitored_barrier = monitored_barrier


def _leave_when_destroyed():
    """destroy_process_group() drops torch's own reference; a model in DDP has another, which would keep slots of the switch."""
    original = dist.destroy_process_group

    @functools.wraps(original)
    def destroy_process_group(group=None):
        default = group is None or group == dist.group.WORLD
        known = dict(dist.distributed_c10d._pg_map)
        ours = [each for each, (backend, _) in known.items() if backend == "passing" and (default or each == group)]
        original(group)
        for each in ours:
            _backend.leave(_raw(each))

    dist.destroy_process_group = dist.distributed_c10d.destroy_process_group = destroy_process_group


def _autoload():
    """Called by torch 2.5 and later, which finds backends by itself: importing this module was all."""


_register()
_allow_monitored_barrier()
_leave_when_destroyed()
# Threads of groups that nobody destroyed must not meet an interpreter that is no more.
atexit.register(_backend.leave_all)
