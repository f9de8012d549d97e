"""pip install . builds the backend of torch.distributed by CMake, and puts the library beside it.

Offline, beside the distribution's torch:  pip install --no-build-isolation .
CMAKE_ARGS in the environment go to CMake.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = HERE / "integrations" / "torch" / "python"


class CMakeBuild(build_ext):
    def build_extension(self, extension):
        build = HERE / "build" / "pip"  # as deep as other builds: ccache knows the files then
        off = [f"-DPASSING_{part}=OFF" for part in ("TESTS", "BENCHMARKS", "EXAMPLES", "REPORT")]
        subprocess.run(["cmake", "--preset", "release", "-S", HERE, "-B", build, "-DPASSING_PYTHON_DIR=.",
                        f"-DPython3_EXECUTABLE={sys.executable}", *off, *shlex.split(os.environ.get("CMAKE_ARGS", ""))], check=True)
        built = subprocess.run(["cmake", "--build", build, "--target", "passing_torch", "--parallel", "2"])
        if built.returncode != 0:
            raise SystemExit("passing.torch was not built: it needs torch with its headers (Debian: python3-torch libtorch-dev "
                             "python3-dev pybind11-dev; tools/install-deps installs all)")
        target = pathlib.Path(self.get_ext_fullpath(extension.name)).resolve().parents[2]
        subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", target], check=True)
        for library in build.glob("libpassing.so.*"):
            if not library.is_symlink():
                soname = re.match(r"libpassing\.so\.\d+\.\d+", library.name).group(0)
                shutil.copy(library, target / "passing" / "torch" / soname)


setup(
    name="passing",
    version=re.search(r"project\(passing VERSION ([\d.]+)", (HERE / "CMakeLists.txt").read_text()).group(1),
    description="Gradient synchronisation with in-host and in-network aggregation",
    python_requires=">=3.9",
    packages=find_packages(str(PACKAGES)),
    package_dir={"": str(PACKAGES.relative_to(HERE))},
    ext_modules=[Extension("passing.torch._backend", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    # torch 2.5 and later finds backends by themselves.
    entry_points={"torch.backends": ["passing = passing.torch:_autoload"]},
    zip_safe=False,
)
