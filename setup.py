"""Packages live under two source roots: ``.`` and ``plugins``; the rest is in setup.cfg."""

from setuptools import find_packages, setup

setup(
    packages=find_packages(include=["placement_core*"]) + find_packages("plugins"),
    package_dir={"placement_plugins": "plugins/placement_plugins"},
)
