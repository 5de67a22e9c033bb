"""The same bytes for any number of lanes and on any x86-64 machine."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import llvmlite.binding
import pytest

from tests.fused.digest import ALL, digest
from tests.fused.families import fused

# A CPU of each kind, and the feature that this machine must have to run its code: SSE2 only; SSE4.2; AVX2 and fused
# multiply-add; AVX-512 of either maker.
CPUS = {"x86-64": "sse2", "nehalem": "sse4.2", "haswell": "fma", "skylake-avx512": "avx512vl", "znver4": "avx512bf16"}
slow = pytest.mark.slow
OTHERS = ("gridworld", "cartpole", "point_mass")


@pytest.mark.parametrize("lanes", [8, *(pytest.param(lanes, marks=slow) for lanes in (4, 32, 64))])
@pytest.mark.parametrize("family", ["navigation", *(pytest.param(name, marks=slow) for name in OTHERS)])
def test_any_number_of_lanes(family: str, lanes: int) -> None:
    assert digest(fused(ALL[family], lanes), family) == digest(fused(ALL[family]), family)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the promise is x86-64's")
@pytest.mark.parametrize("family", ["navigation", *(pytest.param(name, marks=slow) for name in OTHERS)])
@pytest.mark.parametrize(
    "cpu", ["x86-64", "haswell", *(pytest.param(cpu, marks=slow) for cpu in ("nehalem", "skylake-avx512", "znver4"))]
)
def test_any_cpu(cpu: str, family: str) -> None:
    """Compiled for another CPU in a process of its own, with that CPU's instructions and no others."""
    if not llvmlite.binding.get_host_cpu_features().get(CPUS[cpu]):
        pytest.skip(f"this machine cannot run {cpu}'s code")
    environment = {**os.environ, "NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": ""}
    command = [sys.executable, "-m", "tests.fused.digest", family]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.split() == [cpu, digest(fused(ALL[family]), family)]
