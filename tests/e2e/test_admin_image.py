# SPDX-License-Identifier: Apache-2.0
"""The container image: containerd accepts it, and the program runs in it as the Deployment's container does."""

import contextlib
import hashlib
import json
import shutil
import subprocess
import tarfile
import threading

import pytest
import yaml

from common import SOURCE, versions
from common.wait import until
from .harness import admin, containerd, sbom
from .harness.image import command_in

REFERENCE = "localhost/kube-node-bootstrap-admin"
ACCOUNT_FILES = "/var/run/secrets/kubernetes.io/serviceaccount"


def build(world, name):
    """The libraries are those of the release that the package is for."""
    folder = world.work / "image"
    folder.mkdir(exist_ok=True)
    shutil.copy(world.admin_deb, folder / "admin.deb")
    command = command_in(world.release, folder, "packaging/build-image", f"FOLDER/{name}", "FOLDER/admin.deb")
    assert "MiB" in subprocess.run(command, cwd=SOURCE, check=True, text=True, stdout=subprocess.PIPE).stdout
    return folder / name


@pytest.fixture(scope="module")
def image(world):
    return build(world, "image.tar")


@pytest.fixture(scope="module")
def contents(image):
    with tarfile.open(image) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar}


@pytest.fixture(scope="module")
def ctr(world):
    with containerd.started(world.work / "containerd", 'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n') as ctr:
        yield ctr


def test_each_blob_is_named_by_its_digest(contents):
    blobs = {name: data for name, data in contents.items() if name.startswith("blobs/sha256/")}
    assert len(blobs) == 3
    for name, data in blobs.items():
        assert hashlib.sha256(data).hexdigest() == name.removeprefix("blobs/sha256/")
    [manifest] = json.loads(contents["index.json"])["manifests"]
    manifest = json.loads(contents["blobs/sha256/" + manifest["digest"].removeprefix("sha256:")])
    assert {"blobs/sha256/" + part["digest"].removeprefix("sha256:"): part["size"] for part in [manifest["config"], *manifest["layers"]]}.items() \
        <= {name: len(data) for name, data in blobs.items()}.items()


def test_two_images_of_one_commit_are_equal(image, world):
    assert build(world, "other.tar").read_bytes() == image.read_bytes()


def test_only_what_it_needs(image, world):
    """One program, no shell, no file that its user could write."""
    with tarfile.open(image) as tar:
        layer = max(tar.getmembers(), key=lambda entry: entry.size)
        with tarfile.open(fileobj=tar.extractfile(layer), mode="r:gz") as files:
            entries = files.getmembers()
    assert [e.name for e in entries if e.isfile() and e.mode & 0o111 and "ld-linux" not in e.name] == [admin.PROGRAM]
    assert not [e.name for e in entries if e.uid or e.gid or e.mode & 0o7022 or not (e.isfile() or e.isdir())]


def test_scanners_see_its_libraries(image, world):
    """Where they look: of which Debian, and of which of its packages. A changed document is not valid."""
    document = sbom.made_of(world.work, image)
    names = sbom.assert_names_libraries(document, world.work, world.release)
    assert any(name.startswith("libcurl") for name in names) and "libc6" in names
    with tarfile.open(image) as tar:
        layer = max(tar.getmembers(), key=lambda entry: entry.size)
        with tarfile.open(fileobj=tar.extractfile(layer), mode="r:gz") as files:
            found = {entry.name: files.extractfile(entry).read() for entry in files if entry.isfile()}
    assert f"VERSION_CODENAME={world.release}\n" in found["etc/os-release"].decode()
    status = {name.rpartition("/")[2]: text.decode() for name, text in found.items() if name.startswith("var/lib/dpkg/status.d/")}
    assert status.keys() == names | {"kube-node-bootstrap-admin"}
    assert all(text.startswith(f"Package: {name}\nStatus: install ok installed\n") for name, text in status.items())
    document["components"][0]["type"] = "librarian"
    done = sbom.validate(world.work, document)
    assert done.returncode == 1 and "'librarian' is not one of" in done.stdout


def deployed():
    """The Deployment's container."""
    deployment = yaml.safe_load((admin.KUBERNETES / "deployment.yaml").read_text())
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return container


def served(path):
    """(status, text) at the Deployment's port."""
    [port] = deployed()["ports"]
    return admin.served(path, port["containerPort"])


def is_ready():
    probe = deployed()["readinessProbe"]["httpGet"]
    assert probe["port"] == deployed()["ports"][0]["name"]
    with contextlib.suppress(OSError):
        return served(probe["path"]) == (200, "ok\n")


@pytest.fixture(scope="module")
def container(image, ctr, cluster, world):
    """The arguments of ctr for a container as the Deployment has it: the image's user, a read-only root, the runtime's default profile, and
    the files of the ServiceAccount."""
    ctr("images", "import", "--snapshotter=native", str(image))
    [name] = [line for line in ctr("images", "list", "--quiet").stdout.split() if line.startswith(REFERENCE)]
    assert name == deployed()["image"]
    account = yaml.safe_load(admin.service_account(cluster).read_text())
    folder = world.work / "account"
    folder.mkdir(mode=0o755)
    (folder / "token").write_text(account["users"][0]["user"]["token"])
    (folder / "ca.crt").write_bytes(cluster.ca.pem)
    return [
        "run", "--rm", "--snapshotter=native", "--net-host", "--read-only", "--seccomp",
        f"--mount=type=bind,src={folder},dst={ACCOUNT_FILES},options=rbind:ro",
        "--env=KUBERNETES_SERVICE_HOST=127.0.0.1", f"--env=KUBERNETES_SERVICE_PORT={cluster.port}", name]


def test_runs_as_the_deployments_container(ctr, container, cluster):
    """Against the real control plane."""
    token = cluster.token()
    done = ctr(*container, "one", f"/{admin.PROGRAM}", "token", "list")
    assert token.id in done.stdout and token.secret not in done.stdout


@pytest.mark.parametrize("refused", [False, True])
def test_controller_says_whether_it_has_landlock(ctr, container, world, refused):
    """With the Deployment's arguments and probes. The default profile of an older runtime refuses it: a warning and a metric, and the
    controller works."""
    ended, arguments = [], list(container)
    if refused:
        profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["landlock_create_ruleset"], "action": "SCMP_ACT_ERRNO"}]}
        (world.work / "profile.json").write_text(json.dumps(profile))
        arguments.insert(1, f"--seccomp-profile={world.work}/profile.json")
    assert deployed()["env"] == [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    words = [word.replace("$(POD_IP)", "127.0.0.1") for word in deployed()["args"]]      # as kubelet does
    command = [*arguments, "two", f"/{admin.PROGRAM}", *words, "--parts=signer"]
    thread = threading.Thread(target=lambda: ended.append(ctr(*command)))
    thread.start()
    try:
        until(is_ready, "it is ready")
        text = until(lambda: "_leader 1" in (said := served("/metrics")[1]) and said, "it leads")
    finally:
        ctr("task", "kill", "--signal=SIGTERM", "two")
        thread.join()
    said = ended[0].stdout + ended[0].stderr
    is_without = "node_bootstrap_controller_landlock 0\n" in text
    assert is_without == ("connections are made without Landlock" in said), text + said
    assert is_without or not refused


def test_the_cluster_accepts_the_manifests(cluster):
    """As docs/install.md says it. Kubernetes 1.20 has no policy/v1, so the PodDisruptionBudget is left out there."""
    words = ["--kustomize=."] if cluster.minor >= 21 else ["--filename=rbac.yaml", "--filename=deployment.yaml"]
    if versions.of(cluster.minor, "admission policy"):
        words = [*words, "--filename=admission-policy/policy.yaml"]
    words = [*words, "--filename=approve-serving/rbac.yaml", "--filename=approvers/rbac.yaml"]
    for word in words:
        option, _, name = word.partition("=")
        cluster.kubectl("apply", "--dry-run=server", option, str(admin.KUBERNETES / name))


def test_the_kustomization_lists_every_manifest():
    base = yaml.safe_load((admin.KUBERNETES / "kustomization.yaml").read_text())
    assert {*base["resources"], "kustomization.yaml"} == {path.name for path in admin.KUBERNETES.glob("*.yaml")}
    done = subprocess.run(["kubectl", "kustomize", admin.KUBERNETES], check=True, text=True, stdout=subprocess.PIPE)
    monitor = yaml.safe_load((admin.KUBERNETES / "podmonitor/podmonitor.yaml").read_text())["spec"]
    assert monitor["podMetricsEndpoints"][0]["port"] == deployed()["ports"][0]["name"]
    assert monitor["selector"] == yaml.safe_load((admin.KUBERNETES / "deployment.yaml").read_text())["spec"]["selector"]
    kinds = [document["kind"] for document in yaml.safe_load_all(done.stdout)]
    assert kinds.count("Deployment") == kinds.count("PodDisruptionBudget") == 1
