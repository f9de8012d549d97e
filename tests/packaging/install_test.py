"""Installs into a prefix, moves it, and uses it as others would. PASSING_BUILD is the build directory."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = os.environ["PASSING_BUILD"]
HERE = pathlib.Path(__file__).resolve().parent
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
# curl, its libcrypto, hwloc and what every C++ program has: nothing that could clash with another copy in the same process.
NEEDED = {"libcurl.so.4", "libcrypto.so.3", "libhwloc.so.15", "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6",
          "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
# Alone in its group, whatever launcher this test runs under.
ALONE = {"PASSING_RANK": "0", "PASSING_SIZE": "1",
         **{key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}}


def run(*command, **options):
    """Standard output of a command that must succeed."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300,
                            **{"env": ALONE, **options})
    if result.returncode != 0:
        raise AssertionError(f"{command}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="passing-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        run("cmake", "--install", BUILD, "--prefix", cls.directory / "first")
        cls.prefix = cls.directory / "moved"  # nothing may depend on where it was
        os.rename(cls.directory / "first", cls.prefix)
        cls.library = next(cls.prefix.glob("lib*/**/libpassing.so"))
        cls.doc = cls.prefix / "share/doc/passing"

    def symbols(self, *options):
        """The defined dynamic symbols."""
        lines = run("nm", "-D", "--defined-only", *options, self.library).splitlines()
        return [line.split(maxsplit=2) for line in lines]

    def build(self, source, name):
        """Builds a CMake project against the installed package; returns its build directory."""
        build = self.directory / name
        run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        return build

    def assert_right(self, output):
        self.assertRegex(output, r"\Aall_reduce: size 1, strategy \w+: 1000000 float32 summed, every element right; seed 42\n\Z")

    def test_files(self):
        for file in ("bin/passing", "include/passing/communicator.h", "include/passing/passing.h",
                     "lib/systemd/system/passing-switch.service", "share/doc/passing/LICENSE",
                     "share/doc/passing/README.md", "share/doc/passing/docs/protocol.md"):
            self.assertTrue((self.prefix / file).is_file(), file)
        self.assertIn("rehearse", run(self.prefix / "bin/passing", "--help"))

    def test_exports_nothing_else(self):
        for _, kind, name in self.symbols("--demangle"):
            if kind == "A" and re.fullmatch(r"PASSING_[\d.]+", name):
                continue  # the version itself
            self.assertRegex(name, r"^(passing_|passing::)\w+.*@@PASSING_", "leaks out")
            self.assertNotRegex(name, r"::(Impl|State|strategy|net|wire|endpoint|numeric)::", "is not public")

    def test_exports_the_whole_c_interface(self):
        header = (self.prefix / "include/passing/passing.h").read_text()
        declared = re.findall(r"PASSING_API [^;(]*?\b(passing_\w+)\(", header)
        self.assertGreater(len(declared), 20)
        exported = {name.split("@")[0] for _, _, name in self.symbols() if name.startswith("passing_")}
        self.assertEqual(exported, set(declared))

    def test_needs_nothing_else(self):
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", self.library)))
        self.assertEqual(needed - NEEDED, set())
        self.assertNotIn("RUNPATH", run("readelf", "-d", self.library))

    def test_soname(self):
        soname = re.search(r"\(SONAME\).*\[(.*)\]", run("readelf", "-d", self.library)).group(1)
        self.assertRegex(soname, r"^libpassing\.so\.\d+\.\d+$")
        self.assertTrue((self.library.parent / soname).exists())

    def test_each_header_alone(self):
        include = self.prefix / "include"
        for header in sorted((include / "passing").glob("*.h")):
            for standard in ("c++17", "c++20"):
                run("g++", f"-std={standard}", *STRICT, "-fsyntax-only", "-x", "c++", "-I", include, "-",
                    input=f"#include <passing/{header.name}>\n")
        run("gcc", "-std=c99", *STRICT, "-fsyntax-only", "-x", "c", "-I", include, "-",
            input="#include <passing/passing.h>\n")

    def test_whole_interface(self):
        build = self.build(HERE / "outside", "outside")
        for program in ("whole_api", "whole_c_api"):
            self.assertEqual(run(build / program), f"{program}: all is there\n")

    def test_examples_by_find_package(self):
        build = self.build(self.doc / "examples", "examples")
        for example in ("all_reduce", "all_reduce_c"):
            self.assert_right(run(build / example))

    def test_c_project_without_cpp(self):
        source = self.directory / "c"
        source.mkdir()
        shutil.copy(self.doc / "examples/all_reduce.c", source)
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(c LANGUAGES C)\nfind_package(passing REQUIRED)\n"
            "add_executable(c all_reduce.c)\ntarget_link_libraries(c PRIVATE passing::passing)\n")
        self.assert_right(run(self.build(source, "c-build") / "c"))

    def test_c_by_pkg_config(self):
        found = {**ALONE, "PKG_CONFIG_PATH": str(self.library.parent / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "passing", env=found).split()
        program = self.directory / "by_pkg_config"
        run("gcc", "-std=c99", *STRICT, "-o", program, self.doc / "examples/all_reduce.c", *flags)
        self.assert_right(run(program, env={**ALONE, "LD_LIBRARY_PATH": str(self.library.parent)}))

    def test_python(self):
        self.assert_right(run("/usr/bin/python3", self.doc / "examples/all_reduce.py",
                              env={**ALONE, "PASSING_LIBRARY": str(self.library)}))

    def test_torch(self):
        package = next(self.prefix.glob("lib/python3*/*-packages"))
        self.trains_alone("/usr/bin/python3", {**ALONE, "PYTHONPATH": str(package)})

    def test_torch_by_pip(self):
        """Offline, into an environment beside the distribution's torch."""
        source = HERE.parent.parent
        # The same flags and language, so that ccache has most of it.
        language = {key: value for key, value in os.environ.items() if key == "LANG" or key.startswith("LC_")}
        cache = pathlib.Path(BUILD, "CMakeCache.txt").read_text()
        same = "-DPASSING_WERROR=" + re.search(r"^PASSING_WERROR:BOOL=(.*)$", cache, re.M).group(1)
        environment = self.directory / "venv"
        run("/usr/bin/python3", "-m", "venv", "--system-site-packages", environment)
        run(environment / "bin/python3", "-m", "pip", "install", "--no-build-isolation", "--no-index", source, cwd=self.directory,
            env={**ALONE, **language, "TMPDIR": str(self.directory), "CMAKE_ARGS": same})
        self.trains_alone(environment / "bin/python3", ALONE)

    def trains_alone(self, python, environment):
        script = ("import passing.torch, torch, torch.distributed as dist\n"
                  f"dist.init_process_group('passing', init_method='file://{tempfile.mktemp(dir=self.directory)}', rank=0, world_size=1)\n"
                  "net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))\n"
                  "net(torch.ones(1, 3)).sum().backward()\n"
                  "print(dist.get_backend(), passing.torch.__file__)\n")
        self.assertIn(f"passing {self.directory}", run(python, "-c", script, env=environment, cwd=self.directory))


if __name__ == "__main__":
    unittest.main()
