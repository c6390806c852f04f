"""What a user installs is what lies in the repository."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

try:
    import tomllib
except ModuleNotFoundError:  # python 3.10
    import tomli as tomllib


@pytest.fixture(scope="module")
def root(pytestconfig) -> Path:
    return pytestconfig.rootpath


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text())


def test_every_package_on_disk_is_in_the_table(root, project):
    """One that is missing there imports from a checkout and is absent from the wheel."""
    found = set()
    for folder, package in (
        ("hf_albert_plus", "hf_albert_plus"),
        ("export", "hf_albert_plus.export"),
        ("eval", "hf_albert_plus.eval"),
    ):
        for path in (root / folder).rglob("__init__.py"):
            below = path.parent.relative_to(root / folder).parts
            found.add(".".join((package, *below)))
    # The namespace in which optimum looks for commands has no __init__.py, by its rule.
    assert set(project["tool"]["setuptools"]["packages"]) == found | {"optimum.commands.register"}
    assert not list((root / "export" / "optimum_register").glob("__init__.py"))


@pytest.fixture(scope="module")
def site(root, tmp_path_factory):
    """The built wheel, unpacked into an empty directory."""
    work = tmp_path_factory.mktemp("wheel")
    # From a copy: setuptools keeps build/ beside the sources, and packs what an older build left there.
    unwanted = shutil.ignore_patterns(".*", "build", "*.egg-info", "demo-output", "__pycache__")
    source = shutil.copytree(root, work / "source", ignore=unwanted)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", str(work), str(source)],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = work.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(work / "site")
    return work / "site"


@pytest.mark.slow
def test_the_wheel_holds_everything_and_nothing_else(site):
    top = {path.name for path in site.iterdir()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"hf_albert_plus", "optimum"}
    command = site / "optimum" / "commands" / "register" / "register_albert_plus.py"
    assert [path for path in (site / "optimum").rglob("*") if path.is_file()] == [command]
    for name in (
        "py.typed",
        "eval/reporting/templates/report.html.jinja",
        "eval/reporting/templates/model_card.md.jinja",
        "export/graph/tracing.py",
    ):
        assert (site / "hf_albert_plus" / name).is_file()
    (info,) = site.glob("*.dist-info")
    assert "albert-plus = hf_albert_plus.cli:main" in (info / "entry_points.txt").read_text()
    assert any(path.name == "LICENSE" for path in info.rglob("*"))


@pytest.mark.slow
def test_the_wheel_runs_the_demos_first_stage_from_an_empty_directory(site, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(site)}
    where = [sys.executable, "-c", "import hf_albert_plus.eval; print(hf_albert_plus.eval.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.startswith(str(site))
    demo = [sys.executable, "-m", "hf_albert_plus", "demo", "--out", "out", "--stop-after", "data"]
    subprocess.run(demo, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert (tmp_path / "out" / "data" / "sst2" / "train-00000-of-00001.parquet").is_file()
    assert (tmp_path / "out" / "data" / "record.json").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
