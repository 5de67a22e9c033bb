"""A command that has said its last word ends, whatever is left in its process."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from raypfrl.exits import heard_in_time, terminable

LEFT = {
    "a thread": "threading.Thread(target=threading.Event().wait).start()",
    "a hook": "exits.HOOKS = 0.1; atexit.register(threading.Event().wait)",
    "a hook that raises": "atexit.register(lambda: 1 / 0)",
}


@pytest.mark.parametrize("left", LEFT)
def test_a_command_that_has_said_its_last_word_ends(left: str) -> None:
    """By itself the interpreter would wait for the first two for ever."""
    code = f"import atexit, threading\nfrom raypfrl import cli, exits\n{LEFT[left]}\ncli.program(['list'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert "navigation" in done.stdout


def test_hooks_run_and_the_status_arrives() -> None:
    code = (
        "import atexit, sys\nfrom raypfrl import cli\nsys.stdout.write('unflushed ')\n"
        "atexit.register(print, 'the hook ran', flush=True)\ncli.program(['sweep', 'nothing'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == "unflushed the hook ran\n"


@pytest.mark.parametrize("ctrl_c", ["heard", "ignored"])
def test_sigterm_is_heard_whether_ctrl_c_is_or_not(ctrl_c: str) -> None:
    """A script's shell lets what it begins with ``&`` ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if ctrl_c == "ignored" else signal.default_int_handler)
    try:
        with terminable(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)


def test_sigterm_goes_to_who_takes_ctrl_c() -> None:
    told: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: told.append(number))
    try:
        with terminable():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
    assert told == [signal.SIGINT]


CALLS = {
    "a compiled estimator": """
from raypfrl import RunConfig
from raypfrl.sweeps.single import run
few = {"rounds": 1, "hidden": (5000,), "m_out": 1, "m_eval": 1, "m_adapt": (0,), "actors": 0}
for m_in in (1, 10**7):
    if m_in > 1:  # all is imported and compiled; on a slow machine the signal comes a little early, and is heard too
        threading.Timer(0.5, print, ("here",), {"flush": True}).start()
    config = RunConfig(population="navigation", method="first_order", m_in=m_in, **few)
    status = run(config, Path(sys.argv[1], str(m_in)))
sys.exit(status)
""",
    "any other": """
from hashlib import pbkdf2_hmac
with exits.terminable(), exits.heard_in_time():
    print("here", flush=True)
    pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
""",
    "one after a signal that was swallowed": """
import contextlib, os
from hashlib import pbkdf2_hmac
with exits.terminable(), exits.heard_in_time():
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), number)
            threading.Event().wait()
    threading.Event().wait(0.1)
    print("here", flush=True)
    pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
""",
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("call", CALLS)
def test_a_long_call_of_compiled_code_does_not_outlast_a_signal(
    call: str, number: signal.Signals, tmp_path: Path
) -> None:
    """It would last for hours; nothing that was written is half written."""
    code = (
        "import signal, sys, threading\nfrom pathlib import Path\nfrom raypfrl import exits\n"
        f"exits.DEAF = 0.3\n{CALLS[call]}"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "here\n" in process.stdout
        while process.poll() is None:  # again and again: the first may come before anything is in the call
            process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
        # an interrupt that nobody took ends the interpreter as that signal does, whichever it was
        assert process.returncode in (130, -number, -signal.SIGINT), process.stderr.read()


def test_what_is_heard_in_time_is_taken_as_ever() -> None:
    woken = signal.set_wakeup_fd(-1)
    with terminable(), heard_in_time(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert signal.set_wakeup_fd(woken) == -1


def test_the_installed_program_ends_so() -> None:
    scripts = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"raypfrl": "raypfrl.cli:program"}
