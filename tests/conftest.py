"""What all tests share: the filter for one warning that is torch's own, and no tracking but where it is the subject."""

from __future__ import annotations

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """torch scripts its forward-mode decompositions at the first jvp, and warns of itself."""
    config.addinivalue_line("filterwarnings", "ignore:.torch.jit.script. is deprecated:DeprecationWarning")
    os.environ["WANDB_MODE"] = "disabled"  # tests/tracking takes it away again
