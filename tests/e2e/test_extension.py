"""A package outside the repository adds a format, a step, a runtime and a YAML.

By default `test_extending_page.py` installs such a package and runs it.
"""

import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def site(tmp_path_factory, install):
    """A folder into which the example is installed."""
    source = tmp_path_factory.mktemp("extension") / "source"
    return install(shutil.copytree(HERE / "extension", source))


@pytest.fixture
def extended(tmp_path, site, make_place):
    return make_place(tmp_path, site=site)


SMALL = ["model=mlp", "model.widths=[256,16,8]", "workload.batch_size=2"]
FAST = ["stopping=fixed", "stopping.processes=1", "stopping.calls=5", "stopping.window_s=0.05"]
FAST += ["profiler=none", "protocol.canary_tolerance_ratio=null", "executor=inline"]


@pytest.mark.slow
def test_its_conversion_is_measured_and_proven(extended):
    fast = [*FAST, "protocol.pairing=none", "recorder=none", "hydra.run.dir=out"]
    extended.run("conversion=halved", *SMALL, *fast)
    results = {r["build"]["steps"].get("halved"): r for r in extended.results("out")}
    assert set(results) == {"miss", None}
    assert results["miss"]["processes"][0]["facts"]["provider"] == "widened"
    parity = results["miss"]["parity"]
    assert parity["passed"]
    assert 1e-5 < parity["outputs"][0]["relative_l2_ratio"] < 5e-3


@pytest.mark.slow
def test_its_options_are_checked_and_it_can_be_joined(extended):
    told = extended.run("plan", "conversion=bf16+halved", *SMALL, "--json").stdout
    assert '"halved_extension.weights.HalvedWeights"' in told
    wrong = extended.run(
        "conversion=halved", "conversion.steps.halved.compressed=7", *SMALL, code=2
    )
    assert "expected true or false" in wrong.stderr


@pytest.mark.slow
def test_the_command_explains_it(extended):
    assert "float16" in extended.run("conversions", "halved").stdout


def test_it_is_not_there_where_it_is_not_installed(place):
    assert "halved" in place.run("conversion=halved", *SMALL, code=2).stderr


@pytest.mark.slow
def test_lying_in_the_current_folder_is_not_being_installed(place, site):
    shutil.copytree(site, place.path, dirs_exist_ok=True)
    refused = place.run(
        "model=mlp", "conversion.runtime._target_=halved_extension.runtime.Widened", code=2
    )
    assert "not one of benchorch's own components" in refused.stderr
