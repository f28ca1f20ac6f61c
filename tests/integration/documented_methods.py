# SPDX-License-Identifier: Apache-2.0
"""Each join method as in its example in the manual, with the addresses and files of this cluster."""

import re

import yaml

from common import apiserver, faults
from common.machine import NODE, SECRET, TOKEN, TOKEN_ID, Machine
from . import join_methods, k3s, kubelet_config

PIN = "sha256:6d2a8f0d2a9c5a7c2f5f0e6d0f3b8e6b7f4a9c0d1e2f3a4b5c6d7e8f9a0b1c2d"
OTHER = "ghijkl.fedcba9876543210"
BEARER = "c2VydmljZS1hY2NvdW50" * 8
FLAGS = "var/lib/kubelet/kubeadm-flags.env"
LABELS, SOCKET, TAINT = "--node-labels=example.com/rack=r1", "--container-runtime-endpoint=unix:///run/containerd/containerd.sock", \
    "--register-with-taints=dedicated=gpu:NoSchedule"


def at(world, text):
    """The first endpoint is this cluster's, the others are dead."""
    first, *others = dict.fromkeys(re.findall(r"[\w.-]+:6443|\[[\w:]+\]:6443", text))
    for other in others:
        text = text.replace(other, faults.dead_endpoint())
    return text.replace(first, world.server.endpoint).replace(PIN, world.cluster.ca.pin)


def in_place(text, key, found):
    """Replaces the paths and addresses in the document; the rest stays unchanged."""
    changed, count = re.subn(rf"(^ *{key}: ).*", rf"\g<1>{found}", text, flags=re.M)
    assert count == 1, f"{key} is not in the example once"
    return changed


def requested_as(world, user):
    assert world.request()["username"] == user


def by_token(world, text):
    yield at(world, text)
    requested_as(world, f"system:bootstrap:{TOKEN_ID}")


def by_file(world, text):
    yield in_place(text, "file", world.give("cluster-info.yaml", world.document(), 0o644))
    requested_as(world, f"system:bootstrap:{TOKEN_ID}")


def by_url(world, text):
    web = world.endpoint(world.stranger())
    web.on("any", lambda request: faults.answer(world.document(), Content_Type="text/yaml")(request))
    path = re.search(r"file: https://[^/]+(/.*)", text)[1]
    text = in_place(text, "file", f"https://{web.endpoint}{path}").replace(PIN, world.cluster.ca.pin)
    yield in_place(text, "urlCAFile", world.give("web.pem", web.cluster.ca.pem, 0o644))
    assert [request.target for request in web.requests] == [path]


def by_kubeconfig(world, text):
    """A service account token, and no other credential."""
    user = "system:serviceaccount:kube-system:node-bootstrapper"
    world.cluster.bearers[BEARER], world.cluster.requesters[user] = user, ("system:serviceaccounts",)
    world.machine.secrets.append(BEARER)
    (world.machine.credentials / "node-bootstrap.token").unlink()
    first = text.index("kubeconfig: ")
    kubeconfig = world.give("bootstrap.conf", join_methods.bootstrap_kubeconfig(world.server.url, world.cluster.ca.pem, {"token": BEARER}))
    world.machine.secret_files.append(world.given / "bootstrap.conf")
    yield text[:first] + in_place(text[first:].split("\n", 1)[0], "kubeconfig", kubeconfig) + "\n" + text[first:].split("\n", 1)[1]
    requested_as(world, user)


def by_supervisor(world, text):
    yield at(world, text)
    assert world.csrs() == [] and len(world.server.seen("client-kubelet")) == 1


def by_csr_of_k3s(world, text):
    yield at(world, text)
    assert world.server.seen("client-kubelet") == [] and len(world.csrs()) == 1


def with_arguments(world, text):
    yield at(world, text)
    flags = world.machine.read(FLAGS)
    for argument in (LABELS, SOCKET, TAINT, f"--hostname-override={yaml.safe_load(text)['node']['name']}"):
        assert argument in flags


def configured(world, text):
    world.server.on("other", lambda request: kubelet_config.config_map())
    yield at(world, text)
    assert world.machine.read(kubelet_config.CONFIG) == kubelet_config.FILTERED


def anew(world, text):
    """Joined and reinstalled, while its Node is still Ready."""
    yield at(world, text)
    [name] = world.csrs()
    world.cluster.nodes[NODE] = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": NODE}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    for path in (Machine.KUBECONFIG, Machine.CURRENT, Machine.RECORD):
        world.machine.target(path).unlink()
    world.machine.unit().joined()
    assert len(world.csrs()) == 2 and name in world.csrs()


def by_join_configuration(world, text):
    assert f"token: {TOKEN}\n" in text and f"tlsBootstrapToken: {OTHER}\n" in text
    for path in world.machine.credentials.iterdir():
        path.unlink()
    world.machine.secrets.append(OTHER.split(".")[1])
    world.machine.secret_files.append(world.machine.etc / "config.yaml")
    world.cluster.tokens = {TOKEN_ID: apiserver.Token(SECRET, may=()), OTHER.split(".")[0]: apiserver.Token(OTHER.split(".")[1], signs=False)}
    yield at(world, text)
    requested_as(world, f"system:bootstrap:{OTHER.split('.')[0]}")
    flags = world.machine.read(FLAGS)
    for argument in (LABELS, SOCKET, TAINT, f"--hostname-override={yaml.safe_load(text)['nodeRegistration']['name']}"):
        assert argument in flags


class K3sWorld(k3s.K3sWorld):
    request = join_methods.World.request


METHODS = {
    "token": (join_methods.World, by_token),
    "file": (join_methods.World, by_file),
    "url": (join_methods.World, by_url),
    "kubeconfig": (join_methods.World, by_kubeconfig),
    "k3s": (K3sWorld, by_supervisor),
    "k3s-csr": (K3sWorld, by_csr_of_k3s),
    "node": (join_methods.World, with_arguments),
    "config": (join_methods.World, configured),
    "node-anew": (join_methods.World, anew),
    "kubeadm": (join_methods.World, by_join_configuration),
}
