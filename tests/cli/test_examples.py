"""The examples for more than one machine: every word of them is known where it is read, and their parts agree. What
trains on several machines runs in `test_pretraining_processes`."""

import os
import re
import subprocess
import sys
from email.parser import HeaderParser
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from accelerate.commands.launch import _validate_launch_command, launch_command_parser

from hf_albert_plus.cli.servers import TOKEN
from tests.support.command_line import parsed

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
# The oldest that the schemas reach back to: later versions keep what a stable one has.
KUBERNETES = "1.32"


def documents(name):
    return list(yaml.safe_load_all((EXAMPLES / "kubernetes" / f"{name}.yaml").read_text()))


def of_kind(kind, name):
    (found,) = [document for document in documents(name) if document["kind"] == kind]
    return found


def pod_of(workload):
    return workload["spec"]["template"]["spec"]


def container_of(workload):
    (container,) = pod_of(workload)["containers"]
    return container


def values_of(container):
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container["env"]}


def gibibytes(quantity):
    return int(quantity.removesuffix("Gi"))


@pytest.fixture(scope="module")
def deployment():
    return of_kind("Deployment", "serve")


@pytest.fixture(scope="module")
def job():
    return of_kind("Job", "pretrain")


@pytest.mark.parametrize("name", ["serve", "pretrain"])
def test_kubernetes_knows_every_field(name):
    for document in documents(name):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_whatever_selects_finds_the_deployments_pods(deployment):
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels
    assert of_kind("Service", "serve")["spec"]["selector"].items() <= labels
    assert of_kind("PodDisruptionBudget", "serve")["spec"]["selector"]["matchLabels"].items() <= labels
    target = of_kind("HorizontalPodAutoscaler", "serve")["spec"]["scaleTargetRef"]
    assert target == {
        "apiVersion": deployment["apiVersion"],
        "kind": "Deployment",
        "name": deployment["metadata"]["name"],
    }


def test_the_server_answers_probes_without_its_token_and_prometheus_with_it(deployment):
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from hf_albert_plus.serving.application import build_app
    from hf_albert_plus.serving.catalogue import Catalogue
    from hf_albert_plus.serving.gate import Gate
    from hf_albert_plus.serving.settings import ServeSettings

    client = TestClient(build_app(Catalogue(), ServeSettings(), Gate(token="secret")))
    container = container_of(deployment)
    paths = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "readiness", "liveness")}
    # There is no model yet.
    assert {probe: client.get(path).status_code for probe, path in paths.items()} == {
        "startup": 503, "readiness": 503, "liveness": 200,
    }  # fmt: skip
    metrics = deployment["spec"]["template"]["metadata"]["annotations"]["prometheus.io/path"]
    assert client.get(metrics).status_code == 401
    assert client.get(metrics, headers={"Authorization": "Bearer secret"}).status_code == 200


def test_every_port_is_the_servers(deployment):
    container = container_of(deployment)
    (port,) = container["ports"]
    assert str(port["containerPort"]) == container["command"][container["command"].index("--port") + 1]
    (served,) = of_kind("Service", "serve")["spec"]["ports"]
    probed = [container[f"{probe}Probe"]["httpGet"]["port"] for probe in ("startup", "readiness", "liveness")]
    assert [served["targetPort"], *probed] == [port["name"]] * 4
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])


def test_the_server_has_its_token_and_ends_before_it_is_killed(deployment):
    container = container_of(deployment)
    assert values_of(container)[TOKEN]["secretKeyRef"]
    program, verb, *words = container["command"]
    assert program == "albert-plus"
    given = parsed(verb, words)
    assert given["host"] == "0.0.0.0"
    (models,) = [mount for mount in container["volumeMounts"] if mount["mountPath"] == given["target"]]
    assert models["readOnly"]
    waited = container["lifecycle"]["preStop"]["sleep"]["seconds"] + given["drain_s"] + given["deadline_s"]
    assert waited < pod_of(deployment)["terminationGracePeriodSeconds"]


@pytest.mark.parametrize(("kind", "name"), [("Deployment", "serve"), ("Job", "pretrain")])
def test_what_must_be_written_has_a_place(kind, name):
    """The image's own files are read-only."""
    workload = of_kind(kind, name)
    container = container_of(workload)
    assert container["securityContext"]["readOnlyRootFilesystem"]
    volumes = {volume["name"]: volume for volume in pod_of(workload)["volumes"]}
    own = {mount["mountPath"] for mount in container["volumeMounts"] if "emptyDir" in volumes[mount["name"]]}
    assert own == {"/tmp", "/dev/shm"}
    assert values_of(container)["HOME"] in own
    assert set(volumes) == {mount["name"] for mount in container["volumeMounts"]}


def test_rays_object_store_fits_into_shared_memory(deployment):
    """Ray takes a share of the memory that a pod may have."""
    constants = pytest.importorskip("ray._private.ray_constants")
    (shared,) = [volume for volume in pod_of(deployment)["volumes"] if volume["name"] == "shm"]
    memory = gibibytes(container_of(deployment)["resources"]["limits"]["memory"])
    share = constants.DEFAULT_OBJECT_STORE_MEMORY_PROPORTION
    assert memory * share <= gibibytes(shared["emptyDir"]["sizeLimit"])


def test_the_jobs_pods_find_each_other(job):
    service, values = of_kind("Service", "pretrain"), values_of(container_of(job))
    name = job["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    assert pod_of(job)["subdomain"] == service["metadata"]["name"]
    assert values["ENDPOINT"].rpartition(":")[0] == f"{name}-0.{service['metadata']['name']}"
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == int(values["NODES"])
    assert container_of(job)["resources"]["limits"]["nvidia.com/gpu"] == int(values["PROCESSES"])


def test_the_job_pretrains_from_its_volume_into_it(job):
    container = container_of(job)
    given = parsed("pretrain", container["args"])
    (data,) = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "data"]
    for path in (*given["corpus"], given["out"]):
        assert Path(data) in Path(path).parents


@pytest.mark.parametrize(("name", "sharded"), [("ddp", False), ("fsdp", True)])
@pytest.mark.parametrize("machines", [1, 2])
def test_accelerate_launches_as_configured(name, sharded, machines):
    config = EXAMPLES / "accelerate" / f"{name}.yaml"
    more = ["--num_machines", "2", "--machine_rank", "1", "--main_process_ip", "first", "--main_process_port", "29500"]
    words = ["--config_file", str(config), "--num_processes", "8", *(more if machines == 2 else [])]
    parser = launch_command_parser()
    options, _, _ = _validate_launch_command(
        parser.parse_args([*words, "-m", "hf_albert_plus", "pretrain", "--out", "x"])
    )
    assert (options.multi_gpu, options.use_fsdp) == (not sharded, sharded)
    assert (options.num_processes, options.num_machines, options.mixed_precision) == (8, machines, "no")
    assert options.training_script_args == ["pretrain", "--out", "x"]
    # accelerate takes any name there, and does nothing with those that it does not know.
    known = {action.dest for action in parser._actions}
    for option, value in (yaml.safe_load(config.read_text()).get("fsdp_config") or {}).items():
        assert option in known
        assert getattr(options, option) == value


def test_accelerate_asks_how_many_processes():
    words = ["--config_file", str(EXAMPLES / "accelerate" / "ddp.yaml"), "script.py"]
    with pytest.raises(ValueError, match="--num_processes"):
        _validate_launch_command(launch_command_parser().parse_args(words))


@pytest.fixture(scope="module")
def dockerfile():
    return (EXAMPLES / "Dockerfile").read_text()


def test_the_image_has_what_the_package_is_built_from(dockerfile, tmp_path):
    """The metadata of a wheel, from what is copied before it is built and nothing else."""
    before, build, _ = re.split(r"^(RUN pip .*)$", dockerfile, flags=re.MULTILINE)
    for line in re.findall(r"^COPY (.*)$", before, flags=re.MULTILINE):
        *sources, target = line.split()
        for source in sources:
            os.symlink(ROOT / source, tmp_path / target / Path(source).name if target == "./" else tmp_path / target)
    script = "import setuptools.build_meta as build; print(build.prepare_metadata_for_build_wheel('.'))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    (written,) = tmp_path.glob("*.dist-info/METADATA")
    extras = re.search(r"\.\[(.*?)\]", build).group(1).split(",")
    assert set(extras) <= set(HeaderParser().parsestr(written.read_text()).get_all("Provides-Extra"))
    assert (tmp_path / re.search(r"--constraint (\S+)", build).group(1)).is_file()


def test_the_image_does_not_run_among_its_sources(dockerfile):
    """There, `python -m hf_albert_plus` finds a folder without the packages that are mapped into it."""
    built, run = re.findall(r"^WORKDIR (\S+)$", dockerfile, flags=re.MULTILINE)
    assert built != run


@pytest.mark.parametrize(("kind", "name"), [("Deployment", "serve"), ("Job", "pretrain")])
def test_the_image_runs_as_its_own_user(dockerfile, kind, name):
    workload = of_kind(kind, name)
    (user,) = re.findall(r"^USER (\d+)$", dockerfile, flags=re.MULTILINE)
    assert pod_of(workload)["securityContext"]["runAsUser"] == int(user)
    assert f"-t {container_of(workload)['image']} " in dockerfile
