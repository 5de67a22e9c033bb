"""The contract on imports, and that no global generator is used anywhere in the library."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import raypfrl

ROOT = Path(raypfrl.__file__).parent
FILES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {name.removesuffix(".__init__"): ast.parse(path.read_text()) for name, path in FILES.items()}

# Import order is data order: a module imports its own layer and those above it in this list, and nothing below. What is
# not listed stands with the command line, at the end.
LAYERS = (
    ("streams", "metrics", "exits", "settings", "text"),
    ("policies",),
    ("populations",),
    ("oracles",),
    ("methods", "evaluation", "theory", "theory_report"),
    ("bounds", "watch"),
    ("uses", "theta0"),
    ("config",),
    ("federation",),
    ("tracking",),
    ("sweeps",),
    ("listing", "check"),
    ("cli", "__main__"),
)
LISTED = {module: number for number, layer in enumerate(LAYERS) for module in layer}
LAYER = {name.split(".")[0]: LISTED.get(name.split(".")[0], len(LAYERS) - 1) for name in TREES}

HEAVY = ("ray", "wandb", "torch", "numba", "matplotlib", "pandas", "scipy", "plotly")


def imports(tree):
    """Every module that is imported, wherever in the file; not what is only for the type checker."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


IMPORTS = {name: set(imports(tree)) for name, tree in TREES.items()}


def users_of(package):
    """The modules that import it."""
    return {name for name, imported in IMPORTS.items() if any(f"{i}.".startswith(f"{package}.") for i in imported)}


def test_the_check_sees_imports():
    """Were the files not found, or the imports not, everything below would pass."""
    assert len(IMPORTS) > 20
    assert "oracles.autodiff" in users_of("torch")
    assert "federation.actors" in users_of("ray")


@pytest.mark.parametrize("module", [name for name in IMPORTS if name != "__init__"])
def test_import_order_is_data_order(module):
    own = LAYER[module.split(".")[0]]
    for imported in IMPORTS[module]:
        if imported.startswith("raypfrl."):
            other = imported.split(".")[1]
            if other in LAYER:  # else a name of the package itself
                assert LAYER[other] <= own, f"raypfrl.{module} imports {imported}"


def test_packages_do_not_import_each_other():
    """Within a layer too: no cycle between two modules of the first level."""
    pairs = {
        (module.split(".")[0], imported.split(".")[1])
        for module, names in IMPORTS.items()
        for imported in names
        if imported.startswith("raypfrl.") and imported.split(".")[1] in LAYER and module != "__init__"
    }
    assert not [(a, b) for a, b in pairs if a < b and (b, a) in pairs]


def test_only_the_actors_and_the_sweeps_import_ray():
    assert {name for name in users_of("ray") if not name.startswith("sweeps")} == {"federation.actors"}


def test_only_the_tracking_module_imports_wandb():
    assert {name for name in users_of("wandb") if not name.startswith("tracking")} == set()


def test_only_the_autodiff_oracle_and_the_policies_import_torch():
    others = {name for name in users_of("torch") if not name.startswith("policies.")}
    assert others <= {"oracles.autodiff", "oracles.advantages", "check.agents", "check.populations"}


def test_only_the_fused_oracle_imports_numba():
    assert {name for name in users_of("numba") if not name.startswith("oracles.fused")} == set()


@pytest.mark.parametrize("package", ["analysis", "tests", "tune_configs"])
def test_the_library_imports_nothing_around_it(package):
    """The command line alone may draw figures and find the sweeps that come with it."""
    assert {name.split(".")[0] for name in users_of(package)} <= {"cli", "listing"}


def imported_by(code):
    """Which heavy modules a fresh interpreter holds after running ``code``."""
    tell = f"import json, sys; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{tell}"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_raypfrl_is_light():
    assert imported_by("import raypfrl") == []


def test_a_run_in_process_needs_neither_ray_nor_wandb():
    run = (
        "from raypfrl import RunConfig, train\n"
        "list(train(RunConfig(population='gridworld', method='exact', rounds=1, tau=1, n=2)))"
    )
    assert not {"ray", "wandb", "matplotlib"} & set(imported_by(run))


def test_a_run_on_the_exact_oracle_needs_no_torch():
    run = (
        "from raypfrl import RunConfig, train\n"
        "list(train(RunConfig(population='bandit', method='exact', oracle='exact', rounds=2)))"
    )
    assert not {"ray", "wandb", "torch"} & set(imported_by(run))


# --- randomness -------------------------------------------------------------------------------------------------------

KEYED = {"Generator", "Philox"}  # of numpy.random: what stands on a key of ours
TORCH_RANDOM = {
    "manual_seed", "seed", "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal",
    "bernoulli", "multinomial", "poisson", "Generator", "default_generator",
}  # fmt: skip


def faults(tree):
    """Uses of a global generator, of one that is seeded from the clock, or of a space's own."""
    for node in ast.walk(tree):
        text = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        if text.startswith(("np.random.", "numpy.random.")) and text.split(".")[2] not in KEYED:
            yield text
        if text.startswith("random."):
            yield text
        if text.startswith("torch.") and text.split(".")[1] in TORCH_RANDOM:
            yield text
        if text.endswith("space.sample"):
            yield text
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            yield from (name for name in names if name in ("random", "secrets", "numpy.random", "torch.random"))


# What looks like a fault and stands on a key. A torch module draws its own initialisation from torch's generator, which
# is forked, seeded from ours, and put back; the paper's theta^0 is what NumPy's generator gives from a fixed seed; a
# space is sampled after it was seeded from ours.
ALLOWED = {
    "policies.modules": {"torch.manual_seed"},
    "theta0": {"np.random.default_rng"},
    "populations.environments": {"env.action_space.sample"},
}


@pytest.mark.parametrize("module", [module for module in TREES if module != "check.agents"])  # it moves them, to see
def test_no_global_generator_is_used(module):
    assert set(faults(TREES[module])) == ALLOWED.get(module, set())


@pytest.mark.parametrize(
    "code",
    [
        "import random", "import random\nx = random.random()", "from random import shuffle", "np.random.seed(0)",
        "np.random.rand(3)", "np.random.default_rng()", "numpy.random.shuffle(x)", "torch.manual_seed(0)",
        "torch.randn(3)", "env.action_space.sample()", "envs.single_action_space.sample()", "from numpy import random",
    ],
)  # fmt: skip
def test_the_check_on_generators_sees_them(code):
    assert list(faults(ast.parse(code)))


def test_generators_stand_on_streams():
    """np.random.Philox is constructed in one place."""
    users = {name for name, tree in TREES.items() if "np.random.Philox" in ast.unparse(tree)}
    assert users == {"streams"}
