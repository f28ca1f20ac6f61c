# SPDX-License-Identifier: Apache-2.0
"""For each code of failures.def whose remedy has commands that change something: how to bring it about, and the commands in their order.

After them the join succeeds, or they have shown what the text says that they show.
"""

import contextlib
import re

import yaml

from common import pki
from common.wait import until
from . import approvals
from .controlplane import BINDINGS, CLUSTER_INFO, CLUSTER_INFO_BINDING, CSRS, MANUAL_GROUP, SECRETS, Token, kubeconfig
from .node import CONFIG, KUBECONFIG, TOKEN, UNIT
from .remedies import Remedy
from .web import Web

REFRESH = "node-bootstrap-refresh.service"


SITUATIONS = {}


def situation(*codes):
    def add(function):
        SITUATIONS.update({code: function for code in codes})
        return function
    return add


# --- Approval ---

def token_for(cluster, node):
    token = cluster.token(approvals.GROUP)
    cluster.request("PATCH", f"{SECRETS}/bootstrap-token-{token.id}", {"metadata": {"annotations": {"node-bootstrap/node": node}}})
    return token


@situation("csr-pending-controller")
def token_for_another_node(r):
    r.place.type("node-bootstrap-admin cluster-info publish")   # the permission of the group
    r.begin(token_for(r.cluster, r.node.name))
    assert "no controller is running" in r.place.type("node-bootstrap-admin cluster-info verify", check=False)
    r.there("node-bootstrap-admin requests approve @NODE_BOOTSTRAP_CSR@")
    r.joins()
    r.node.forget()
    r.stack.enter_context(r.admin.controller("--parts=approve-client"))
    r.begin(token_for(r.cluster, "another"))
    first = r.fields["NODE_BOOTSTRAP_CSR"]
    until(lambda: "TokenForAnotherNode" in r.there("kubectl describe csr"), "the Event says why")
    said = r.there("node-bootstrap-admin requests list")
    assert first in said and "another" in said, said
    assert "controller" in r.there("node-bootstrap-admin cluster-info verify", check=False)
    assert not r.cluster.request("GET", f"{CSRS}/{first}")["status"].get("conditions"), "none of this approves it"
    line = r.there("node-bootstrap-admin token create")
    r.node.write("/root/line", line.replace(" setup ", " setup --force "), 0o600)
    said = r.node.run("sh", "/root/line", check=False).stdout
    assert "kubelet is running" in said, said
    assert not r.cluster.request("GET", f"{CSRS}/{first}")["status"].get("conditions")


@situation("csr-pending")
def nobody_has_looked_yet(r):
    r.begin(r.cluster.token(MANUAL_GROUP))
    r.read_request()
    r.approve()
    r.joins()


@situation("csr-pending-unbound")
def group_without_approval(r):
    r.without(f"{BINDINGS}/kubeadm:node-autoapprove-bootstrap")
    r.begin()
    r.read_request()
    said = r.there("node-bootstrap-admin cluster-info publish --auto-approve", " --dry-run")
    assert "node-autoapprove-bootstrap: will be created" in said, said
    r.approve()
    r.joins()
    r.node.forget()
    r.begin()
    r.place.type("node-bootstrap-admin cluster-info publish --auto-approve")
    r.joins()


def begin_without_controller(r, name):
    r.stack.callback(r.place.restart_controllers)
    r.place.restart_controllers(without=name)
    r.begin()


@situation("csr-pending-unapproved")
def no_approver(r):
    begin_without_controller(r, "csrapproving")
    r.there("kubectl --namespace kube-system get pods")
    r.read_request()
    r.approve()
    r.joins()


@situation("csr-not-issued")
def no_signer(r):
    begin_without_controller(r, "csrsigning")
    for start in ("kubectl --namespace kube-system get pods", "kubectl --namespace kube-system logs"):
        r.there(start)
    assert re.search("--cluster-signing-cert-file.*\n.*--cluster-signing-key-file", r.there("grep"))
    r.place.restart_controllers()
    r.joins()


@situation("csr-forbidden")
def group_may_not_ask(r):
    r.without(f"{BINDINGS}/kubeadm:kubelet-bootstrap")
    r.begin()
    assert "default-node-token" in r.there("kubeadm token list")
    r.publish("kubelet-bootstrap: will be created")
    r.joins(restart=True)


# --- cluster-info ---

@situation("cluster-info-missing")
def no_cluster_info(r):
    token = r.cluster.token()
    r.without(CLUSTER_INFO)
    r.begin(token)
    r.publish("cluster-info: will be created")
    r.joins()


@situation("cluster-info-forbidden")
def nobody_may_read_it(r):
    r.without(CLUSTER_INFO_BINDING)
    r.cluster.await_anonymous(403)
    r.begin()
    r.publish("will be created")
    r.joins(restart=True)


@situation("cluster-info-unacceptable")
def damaged_cluster_info(r):
    token = r.cluster.token()
    good = r.cluster.cluster_info()["kubeconfig"]
    damaged = yaml.safe_load(good)
    damaged["users"] = [{"name": "u", "user": {"token": "x"}}]
    r.cluster.sign_again(yaml.safe_dump(damaged))
    r.begin(token)
    assert "users" in r.there("kubectl -n kube-public get configmap cluster-info")
    r.publish()
    assert r.cluster.cluster_info()["kubeconfig"] == good
    until(lambda: f"jws-kubeconfig-{token.id}" in r.cluster.cluster_info(), "cluster-info is signed")
    r.joins(restart=True)


@situation("refresh-not-shown")
def refresh_without_permission(r):
    r.node.prepare().join()
    r.without(CLUSTER_INFO_BINDING)
    r.cluster.await_anonymous(403)
    r.node.run("systemctl", "start", REFRESH)
    r.await_code(REFRESH)
    r.publish("will be created")
    r.cluster.await_anonymous(200)
    r.node.run("systemctl", "start", REFRESH)
    assert r.entries("refresh-unchanged", REFRESH)


# --- kubelet's configuration ---

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/kubelet-config"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system"
CONFIG_PATHS = (CONFIG_MAP, f"{RBAC}/roles/kubeadm:kubelet-config", f"{RBAC}/rolebindings/kubeadm:kubelet-config")


@contextlib.contextmanager
def without_config(r):
    """Without ConfigMap, Role and RoleBinding under the names of any version, before and after."""
    paths = [f"{where}{suffix}" for where in CONFIG_PATHS for suffix in ("", f"-1.{r.cluster.minor}")]
    for path in paths:
        if r.cluster.find(path):
            r.without(path)
    yield
    for path in paths:
        if r.cluster.find(path):
            r.cluster.request("DELETE", path)


def ask_for_config(r):
    path = r.node.path("/var/lib/kubelet/config.yaml")
    r.stack.callback(path.write_bytes, path.read_bytes())
    path.unlink()
    r.begin(kubelet={"configFrom": "cluster"})


@situation("kubelet-config-forbidden")
def no_role(r):
    r.stack.enter_context(without_config(r))
    ask_for_config(r)
    r.there("kubectl --namespace kube-system get configmap,role,rolebinding")
    r.place.type(Remedy("kubelet-config-missing", r.place, r.stack, None).take("kubectl --namespace kube-system create configmap"))
    for kind in ("role ", "rolebinding"):
        assert "created" in r.there(f"kubectl --namespace kube-system create {kind}")
    r.joins(restart=True)
    assert r.node.exists("/var/lib/kubelet/config.yaml")


@situation("kubelet-config-missing")
def no_config_map(r):
    r.stack.enter_context(without_config(r))
    for start in ("role ", "rolebinding"):
        r.place.type(Remedy("kubelet-config-forbidden", r.place, r.stack, None).take(f"kubectl --namespace kube-system create {start}"))
    ask_for_config(r)
    assert "kubelet-config " not in r.there("kubectl --namespace kube-system get configmaps")
    assert "created" in r.there("kubectl --namespace kube-system create configmap")
    r.joins(restart=True)
    assert r.node.exists("/var/lib/kubelet/config.yaml")


# --- Settings and tokens ---

@situation("settings-incomplete", "ca-pin-mismatch")
def wrong_settings(r):
    """Of setup, which a new line replaces; or of a file that is written by hand."""
    wrong = {"pins": ["sha256:" + 64 * "0"]} if r.code == "ca-pin-mismatch" else {"discovery": {}}
    r.begin(**wrong)
    r.node.configure()
    r.here("systemctl restart")
    r.joins()
    r.node.forget().give(r.cluster.token())
    if "pins" in wrong:
        r.says("node-bootstrap", "setup", r.cluster.front.endpoint, "--ca-cert-hash", *wrong["pins"])
    assert "kubelet is running" in r.here("node-bootstrap setup -", stdin=r.there("kubeadm token create"))


@situation("signature-invalid")
def mistyped_secret(r):
    token = r.cluster.token()
    r.begin(Token(token.id, r.cluster.fresh_token().secret))
    assert token.id in r.there("kubeadm token list")
    replace_token(r)


def replace_token(r):
    """With one for any node: for the one node, it comes from another command, and setup takes it likewise."""
    bound = r.there("node-bootstrap-admin token create", f" {r.node.name}").split()[-1]
    assert r.cluster.find(f"{SECRETS}/bootstrap-token-{bound[:6]}")
    token = r.there("kubeadm token create").split()[-1]
    until(lambda: f"jws-kubeconfig-{token[:6]}" in r.cluster.cluster_info(), "cluster-info is signed")
    assert "kubelet is running" in r.here("node-bootstrap setup --token-file=-", stdin=f"{token}\n")


@situation("token-missing")
def no_token(r):
    r.node.configure()
    r.start()
    replace_token(r)


@situation("token-unknown")
def unknown_token(r):
    token = r.cluster.fresh_token()
    r.begin(token)
    assert token.id not in r.there("kubeadm token list")
    replace_token(r)


@situation("token-malformed")
def token_cut_in_the_middle(r):
    r.begin("abcdef.0123456")
    replace_token(r)


@situation("token-rejected")
def token_not_for_authentication(r):
    token = r.cluster.token()
    r.cluster.patch_token(token, {"usage-bootstrap-authentication": "false"})
    r.begin(token)
    assert re.search(rf"{token.id}\S+ +\S+ +\S+ +signing ", r.there("kubeadm token list"))
    replace_token(r)
    r.joins(restart=True)


@situation("token-exposed", "token-not-discarded")
def token_that_others_know(r):
    token = r.cluster.token()
    if r.code == "token-exposed":
        path = "/etc/node-bootstrap/bootstrap.conf"
        r.node.write(path, kubeconfig(f"https://{r.cluster.front.endpoint}", r.cluster.ca.pem, token), 0o644)
        r.node.configure(bootstrap={"kubeconfig": path}, discovery={})
        r.start()
        r.here("chmod 600", f" {path}")
        r.here("systemctl restart")
        r.joins()
        r.node.forget().write("/srv/line", r.there("kubeadm token create --print-join-command"), 0o644)   # everybody can reach it there
        r.says("sh", "-c", "node-bootstrap setup - </srv/line")
        r.here("chmod 600", " /srv/line")
        assert "kubelet is running" in r.node.run("sh", "-c", "node-bootstrap setup - </srv/line").stdout
    r.there("kubeadm token delete", f" {token.id}")
    assert r.cluster.find(f"{SECRETS}/bootstrap-token-{token.id}") is None


@situation("token-on-command-line")
def pasted_line(r):
    line = r.cluster.join_command()
    said = r.node.run("node-bootstrap", "setup", *line.split()).stdout
    r.is_brought_about = "a token on the command line" in said
    assert "kubelet is running" in said, said
    r.node.forget()
    said = r.here("node-bootstrap setup -", stdin=line)
    assert "a token on the command line" not in said and "kubelet is running" in said, said


# --- The machine ---

def join(r, **configuration):
    r.node.prepare(**configuration).join()
    r.node.await_kubelet()


@situation("answer-malformed")
def another_service_answers(r):
    web = Web("198.51.100.202", "hello")
    r.stack.callback(web.close)
    r.begin(endpoints=[f"{web.address}:443"])
    assert "answer-malformed: " in r.here("node-bootstrap check", check=False)
    r.node.configure()
    assert "answer-malformed: " not in r.here("node-bootstrap check", check=False)
    r.joins(restart=True)


@situation("already-joined")
def joined_before(r):
    join(r)
    r.cluster.await_node(r.node.name)
    r.start()
    r.joins()
    r.node.await_kubelet()
    before = r.node.certificate().serial_number
    r.here("node-bootstrap reset --stop-kubelet")
    assert not r.node.kubelet_pid() and not r.node.exists(KUBECONFIG) and r.node.exists(TOKEN) and r.node.exists(CONFIG)
    assert "NotReady" in r.there("kubectl get node")
    r.here("systemctl restart")
    r.joins()
    assert r.node.certificate().serial_number != before
    r.node.await_kubelet()


@situation("stopped", "usage")
def stopped_join(r):
    r.node.prepare(r.cluster.token(MANUAL_GROUP)).begin()
    csr = r.cluster.await_csr(r.node.name)["metadata"]["name"]
    r.node.run("systemctl", "stop", UNIT)
    if r.code == "stopped":
        r.await_code()
    r.cluster.kubectl("certificate", "approve", csr)
    r.here("systemctl start")
    r.joins()


@situation("refreshed")
def kubelet_with_the_old_ca(r):
    join(r)
    before = r.node.kubelet_pid()
    r.here("systemctl restart kubelet")
    until(lambda: r.node.kubelet_pid() not in (0, before), "kubelet is another process")


@situation("refresh-unfinished")
def refresh_of_a_machine(r):
    join(r)
    r.node.configure(timeout="5s")
    r.node.run("systemctl", "reload", UNIT)
    r.cluster.front.refuse()
    r.stack.callback(r.cluster.front.listen)
    r.node.run("systemctl", "start", REFRESH, check=False)
    r.await_code(REFRESH)
    r.cluster.front.listen()
    r.here("systemctl start")
    assert r.entries("refresh-unchanged", REFRESH)


@situation("node-name-taken")
def reinstalled_machine(r):
    r.cluster.make_ready(r.node.name)
    r.begin()
    assert " Ready " in r.there("kubectl get node")
    assert "deleted" in r.there("kubectl delete node")
    r.joins()
    r.joins(restart=True)


def begin_with_host_name(r, name):
    r.stack.callback(r.node.run, "hostnamectl", "set-hostname", r.node.name)
    r.node.set_host_name(name)
    r.begin()


@situation("node-name-invalid")
def host_name_that_is_no_node_name(r):
    begin_with_host_name(r, "a_b")
    r.here("hostnamectl hostname", f" {r.node.name}")
    r.joins(restart=True)


@situation("host-name-unset")
def no_host_name_yet(r):
    begin_with_host_name(r, "localhost")
    r.here("hostnamectl hostname", f" {r.node.name}")
    r.joins()
    r.joins(restart=True)


@situation("bootstrap-kubeconfig-unacceptable")
def kubeconfig_without_credentials(r):
    path, token = "/etc/node-bootstrap/bootstrap.conf", r.cluster.token()
    text = yaml.safe_load(r.cluster.cluster_info()["kubeconfig"])
    text["clusters"][0]["name"] = "k"
    text.update(users=[{"name": "u", "user": {}}], contexts=[{"name": "c", "context": {"cluster": "k", "user": "u"}}], **{"current-context": "c"})
    r.node.write(path, yaml.safe_dump(text), 0o600)
    r.node.configure(bootstrap={"kubeconfig": path}, discovery={})
    r.start()
    copied = r.place.home / "bootstrap.conf"
    copied.write_bytes(r.node.read(path))
    r.there("kubectl config set-credentials", f" u --token={token} --kubeconfig=bootstrap.conf")
    r.node.write(path, copied.read_bytes(), 0o600)
    r.joins(restart=True)


ATTESTATION_KEY = "/etc/credstore/node-bootstrap.attestation-key"
PROOF = {"proof": {"key": "credential"}}


@situation("attestation-key-unusable")
def damaged_key(r):
    path = ATTESTATION_KEY
    key = pki.new_key()
    r.node.write(path, "damaged", 0o600)
    r.begin(**PROOF)
    (r.place.home / "key.pub").write_bytes(pki.public_pem(key))
    r.there("node-bootstrap-admin enroll add", f" {r.node.name} --public-key=key.pub --force")
    r.node.write(path, pki.key_pem(key), 0o600)
    r.joins(restart=True)


@situation("attestation-key-missing")
def missing_key(r):
    r.begin(**PROOF)
    r.node.write(ATTESTATION_KEY, pki.key_pem(pki.new_key()), 0o600)
    r.joins(restart=True)


@situation("attestation-key-misplaced")
def key_of_the_service(r):
    """Whoever has added the drop-in moves it."""
    r.node.write(ATTESTATION_KEY, pki.key_pem(pki.new_key()), 0o600)
    r.node.drop_in(UNIT, f"[Service]\nLoadCredential=node-bootstrap.attestation-key:{ATTESTATION_KEY}\n", "key.conf")
    r.begin(**PROOF)
    assert "key.conf" in r.here("systemctl cat")
    r.node.path(f"/etc/systemd/system/{UNIT}.d/key.conf").unlink()
    r.here("systemctl daemon-reload")
    r.joins(restart=True)


@situation("prover-unavailable")
def masked_socket(r):
    r.node.write(ATTESTATION_KEY, pki.key_pem(pki.new_key()), 0o600)
    r.node.run("systemctl", "mask", "--now", "node-bootstrap-prover.socket")
    r.begin(**PROOF)
    r.here("journalctl --boot --unit=")
    r.here("systemctl unmask")
    r.joins(restart=True)


@situation("clock-wrong")
def clock_that_nobody_waits_for(r):
    for unit in ("systemd-time-wait-sync.service", "chrony-wait.service"):     # of packages that this machine has not
        r.node.write(f"/etc/systemd/system/{unit}", "[Install]\nWantedBy=sysinit.target\n[Service]\nExecStart=/bin/true\n")
        r.here(f"systemctl enable {unit}")
        assert r.node.run("systemctl", "is-enabled", unit).stdout.strip() == "enabled"
        r.node.run("systemctl", "disable", unit)


@situation("handoff-malformed")
def damaged_handoff(r):
    r.node.replace_join('"$0".real "$@" || exit; echo "{" >$STATE_DIRECTORY/joined.json\n')
    try:
        r.begin()
    finally:
        r.node.await_end()
        r.node.restore_join()
    r.here("rm -rf")
    r.joins(restart=True)
    r.here("systemctl start")
    assert r.node.show(REFRESH, "Result") == "success"


@situation("handoff-untrusted")
def node_for_another_cluster(r):
    join(r)
    r.node.run("systemctl", "stop", "kubelet.service")
    r.here("node-bootstrap reset")
    assert not r.node.exists(KUBECONFIG)
    r.joins(restart=True)


@situation("not-alone")
def attacker_on_the_network_side(r):
    token = r.cluster.token()
    r.node.replace_join('setsid sleep 300 & exec "$0".real "$@"\n')
    try:
        r.begin(token)
    finally:
        r.node.await_end()
        r.node.restore_join()
    assert "systemd" in r.here("ps -o", " 1")
    place = approvals.Place(r.cluster, None, "victim")
    request = place.submit(user=f"system:bootstrap:{token.id}")
    r.here("journalctl")
    r.stack.callback(r.node.path("/root/node-bootstrap.journal").unlink)
    assert r.node.path("/root/node-bootstrap.journal").stat().st_size
    r.there("kubeadm token delete", f" {token.id}")
    assert f"system:bootstrap:{token.id}" in r.there("kubectl get csr")
    r.there("kubectl certificate deny", f" {request}")
    assert [kind for kind, _ in place.conditions(request)] == ["Denied"]
    place.clear()


@situation("setup-command-failed")
def links_cannot_be_made(r):
    r.node.run("systemctl", "disable", UNIT)
    r.stack.callback(r.node.enable, UNIT)
    folder = "/etc/systemd/system"
    r.node.run("sh", "-c", f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}")
    token = r.cluster.token()
    setup = ["node-bootstrap", "setup", r.cluster.front.endpoint, f"--token={token}", f"--ca-cert-hash={r.cluster.ca.pin}", "--wait=certificate"]
    r.says(*setup)
    r.node.run("umount", folder)
    r.here("systemctl status", check=False)
    r.node.run(*setup)
    r.joins()


@situation("kubelet-active", "setup-other-cluster")
def joined_machine(r):
    join(r)
    r.cluster.await_node(r.node.name)
    token = r.cluster.token()
    setup = ["node-bootstrap", "setup", r.cluster.front.endpoint, f"--token={token}"]
    wrong = "--ca-cert-hash=sha256:" + 64 * "0"
    r.says(*(["node-bootstrap", "reset"] if r.code == "kubelet-active" else [*setup, wrong]))
    assert "drained" in r.there("kubectl drain", f" {r.node.name}")
    r.here("systemctl stop")
    if r.code == "kubelet-active":
        r.node.run("node-bootstrap", "reset")
        r.joins(restart=True)
        return
    r.here("node-bootstrap reset")
    assert not r.node.exists(TOKEN)
    assert "kubelet is running" in r.node.run(*setup, f"--ca-cert-hash={r.cluster.ca.pin}").stdout


@situation("node-password-missing")
def password_of_k3s(r):
    secret_of_k3s(r)
    r.here("systemctl start node-bootstrap-refresh.service")


@situation("node-password-rejected")
def secret_of_k3s(r):
    r.fields = {"NODE_BOOTSTRAP_NODE": "gone"}
    path = "/api/v1/namespaces/kube-system/secrets"
    r.cluster.request("POST", path, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gone.node-password.k3s"}})
    r.there("kubectl --namespace kube-system delete secret")
    assert r.cluster.find(f"{path}/gone.node-password.k3s") is None


# --- The sandbox ---

@situation("sandbox-refused")
def drop_in_refuses_landlock(r):
    r.node.drop_in(UNIT, "[Service]\nSystemCallFilter=~landlock_create_ruleset\n", "50-filter.conf")
    r.begin()
    assert "SystemCallFilter=~landlock_create_ruleset" in r.here("systemctl cat")
    r.node.path(f"/etc/systemd/system/{UNIT}.d/50-filter.conf").unlink()
    r.here("systemctl daemon-reload")
    r.here("systemctl restart")
    r.joins()
