"""On the Python path of each run of `launch/same/compare.py`: every process writes down where it imports this
project's packages from, and the forks of a process that has imported them do so when they begin."""

import importlib.machinery
import os
import sys

PACKAGES = ("openrlhf_gtpo", "math_reward")


def tell(package, origin):
    with open(os.environ["SAME_WITNESS"], "a") as file:
        file.write(f"{os.getpid()} {package} {os.path.realpath(origin)}\n")


class Witness:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in PACKAGES and (spec := importlib.machinery.PathFinder.find_spec(name, path)):
            tell(name, spec.origin)
        return None  # the next finder imports it


def forked():
    for package in PACKAGES:
        if package in sys.modules:
            tell(package, sys.modules[package].__file__)


if "SAME_WITNESS" in os.environ:
    sys.meta_path.insert(0, Witness)
    os.register_at_fork(after_in_child=forked)
