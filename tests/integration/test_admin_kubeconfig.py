# SPDX-License-Identifier: Apache-2.0
"""How node-bootstrap-admin finds a kubeconfig, the credentials that it takes from it, and what it says about those that it cannot use."""

import contextlib
import json
import os
import pathlib
import pty
import signal
import socket
import subprocess

import pytest

from common import pki
from common.csrs import timestamp
from common.wait import until
from . import admin
from .admin_cluster import Cluster

pytestmark = pytest.mark.each_release
TOKENS = "list secrets"
POD = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT = pathlib.Path("/etc/kubernetes/admin.conf")


def list_tokens(*words, **options):
    return admin.run_admin("token", "list", *words, **options)


def user_of(api, *words, **options):
    """The user whose credential the program sends."""
    before = len(api.seen(TOKENS))
    result = list_tokens(*words, **options)
    assert (result.returncode, result.stderr) == (0, "")
    [request] = api.seen(TOKENS)[before:]
    return request.user


def refusal(*words, status=78, code="admin-kubeconfig-unusable", **options):
    result = list_tokens(*words, **options)
    assert (result.returncode, result.stdout) == (status, "")
    assert f": {code}: " in result.stderr
    return result.stderr


@contextlib.contextmanager
def pod(api, account):
    """The files of a ServiceAccount; yields the variables of the pod."""
    POD.mkdir(parents=True)
    try:
        (POD / "ca.crt").write_bytes(api.cluster.ca.pem)
        (POD / "token").write_text(token_of(api, account)["token"] + "\n")
        yield {"KUBERNETES_SERVICE_HOST": api.host, "KUBERNETES_SERVICE_PORT": api.port}
    finally:
        for path in POD.iterdir():
            path.unlink()
        POD.rmdir()


def cut_connections(api):
    for connection in list(api.connections):
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def token_of(api, user):
    api.cluster.bearers[f"token-of-{user}"] = user
    return {"token": f"token-of-{user}"}


# Where it is found.

def test_the_option_comes_first(api):
    other = api.kubeconfig("other", user=token_of(api, "other"))
    assert user_of(api, "--kubeconfig", api.kubeconfig(), env={"KUBECONFIG": other}) == admin.ADMIN


def test_the_variable_comes_before_the_home_directory(api, tmp_path):
    api.kubeconfig("home/.kube/config", user=token_of(api, "home"))
    env = {"HOME": tmp_path / "home", "KUBECONFIG": api.kubeconfig()}
    assert user_of(api, env=env) == admin.ADMIN
    assert user_of(api, env={**env, "KUBECONFIG": ""}) == "home"


def test_the_home_directory_comes_before_the_file_of_kubeadm(api, tmp_path):
    DEFAULT.write_text(api.kubeconfig("x", user=token_of(api, "kubeadm")).read_text())
    try:
        api.kubeconfig("home/.kube/config")
        assert user_of(api, env={"HOME": tmp_path / "home"}) == admin.ADMIN
        assert user_of(api, env={"HOME": tmp_path / "elsewhere"}) == "kubeadm"
        assert user_of(api, env={"HOME": None}) == "kubeadm"
    finally:
        DEFAULT.unlink()


def test_a_pod_uses_its_service_account(api):
    account = "system:serviceaccount:kube-system:controller"
    with pod(api, account) as env:
        assert user_of(api, env=env) == account
        (POD / "token").write_text("")
        assert "tokenFile: expected a token" in refusal(env=env)
        (POD / "token").unlink()
        assert "automountServiceAccountToken" in refusal(env=env)


def test_without_any_it_names_the_places():
    assert "$KUBECONFIG are not set, ~/.kube/config and /etc/kubernetes/admin.conf do not exist" in refusal()


def test_a_relative_path(api, tmp_path):
    (tmp_path / "ca.pem").write_bytes(api.cluster.ca.pem)
    api.kubeconfig(cluster={"server": api.url, "certificate-authority": "ca.pem"})
    assert user_of(api, "--kubeconfig", "admin.conf", cwd=tmp_path) == admin.ADMIN


# Several files.

def test_each_entry_is_taken_from_the_first_file_that_has_it(api, tmp_path):
    """As kubectl: what a later file says of the same entry is not even added to it."""
    none = {"clusters": None, "users": None, "contexts": None, "current-context": None}
    first = api.kubeconfig("first", **{**none, "current-context": "one"})
    contexts = [{"name": "one", "context": {"cluster": "c", "user": "u"}}]
    second = api.kubeconfig("second", **{**none, "contexts": contexts, "users": [{"name": "u", "user": token_of(api, "second")}]})
    third = api.kubeconfig("deep/third", **{"current-context": "three", "contexts": [{"name": "one", "context": {"cluster": "no", "user": "no"}}],
                                            "clusters": [{"name": "c", "cluster": {"server": api.url, "certificate-authority": "ca.pem"}}],
                                            "users": [{"name": "u", "user": api.user()}]})
    (tmp_path / "deep" / "ca.pem").write_bytes(api.cluster.ca.pem)
    env = {"KUBECONFIG": f"{tmp_path}/missing::{first}:{second}:{third}:"}
    assert user_of(api, env=env) == "second"
    assert "clusters: expected one entry that the current context names, found none" in refusal(env={"KUBECONFIG": f"{first}:{third}"})


def test_a_list_of_missing_files(tmp_path):
    assert f"no file that $KUBECONFIG names exists: '{tmp_path}/a:{tmp_path}/b'" in refusal(env={"KUBECONFIG": f"{tmp_path}/a:{tmp_path}/b"})


def test_a_listed_file_that_cannot_be_parsed(api, tmp_path):
    (tmp_path / "broken").write_text("clusters: [")
    assert f"{tmp_path}/broken" in refusal(env={"KUBECONFIG": f"{api.kubeconfig()}:{tmp_path}/broken"})


def test_another_context(api):
    contexts = [{"name": name, "context": {"cluster": "scripted", "user": name}} for name in ("one", "two")]
    users = [{"name": name, "user": token_of(api, name)} for name in ("one", "two")]
    path = api.kubeconfig(contexts=contexts, users=users, **{"current-context": "one"})
    assert user_of(api, "--kubeconfig", path) == "one"
    assert user_of(api, "--kubeconfig", path, "--context", "two") == "two"
    assert "contexts: expected one entry that the current context names, found none; the context is 'three'" in refusal(
        "--kubeconfig", path, "--context", "three")


# Credentials.

def test_a_token_file(api, tmp_path):
    (tmp_path / "token").write_text(f"  {token_of(api, 'file')['token']}\n")
    assert user_of(api, "--kubeconfig", api.kubeconfig(user={"tokenFile": "token"})) == "file"


def test_files_of_a_client_certificate(api, tmp_path):
    identity = api.client("somebody", admin.MASTERS)
    (tmp_path / "cert.pem").write_bytes(identity.chain)
    (tmp_path / "key.pem").write_bytes(pki.key_pem(identity.key))
    assert user_of(api, "--kubeconfig", api.kubeconfig(user={"client-certificate": "cert.pem", "client-key": "key.pem"})) == "somebody"


UNUSABLE = {
    "no current context": ({"current-context": ""}, "current-context: expected the name of a context"),
    "an unknown context": ({"current-context": "x"}, "contexts: expected one entry that the current context names, found none"),
    "an unknown user": ({"users": []}, "users: expected one entry that the current context names, found none"),
    "no credential": ({"user": {}}, "expected either a token, or a client certificate and key, found neither"),
    "two credentials": ({"user": {"token": "t", "client-key-data": "eA=="}}, "found both"),
    "a password": ({"user": {"username": "admin", "password": "secret-of-admin"}}, "expected either a token, or a client certificate and key, found username"),
    "an auth-provider": ({"user": {"auth-provider": {"name": "gcp"}}}, "found auth-provider"),
    "impersonation": ({"user": {"token": "t", "as": "root"}}, "found as"),
    "exec and impersonation": ({"user": {**admin.exec_user("exit 1"), "as": "root"}}, "expected either a token, or a client certificate and key, found "),
    "an unverified server": ({"cluster": {"server": "https://h", "insecure-skip-tls-verify": True}}, "insecure-skip-tls-verify: expected false or no such key, found 4 characters; remove the key, and set certificate-authority-data"),
    "plain http": ({"cluster": {"server": "http://h"}}, "expected https://HOST[:PORT][/PREFIX], found 8 characters"),
    "another kind": ({"kind": "Pod"}, "expected a kubeconfig (kind: Config, apiVersion: v1), found kind 'Pod'"),
    "exec and a token": ({"user": {**admin.exec_user("exit 1"), "token": "t"}}, "expected either a token, or a client certificate and key, found both"),
    "exec of another version": ({"user": admin.exec_user("", version="v2")}, "apiVersion: expected client.authentication.k8s.io/v1 or"),
    "exec without a command": ({"user": admin.exec_user("", command="")}, "command: expected a program"),
    "exec with a bad variable": ({"user": admin.exec_user("", env=[{"value": "x"}])}, "env: expected a list of names and values"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_kubeconfig(api, name):
    changes, expected = UNUSABLE[name]
    said = refusal("--kubeconfig", api.kubeconfig(**changes))
    assert expected in said and str(api.folder) in said and "secret-of-admin" not in said
    assert not api.connections


def test_a_missing_file(tmp_path):
    assert f"cannot read the kubeconfig '{tmp_path}/x': No such file or directory" in refusal("--kubeconfig", tmp_path / "x")
    assert f"the kubeconfig '{tmp_path}' is not a regular file" in refusal("--kubeconfig", tmp_path)


# exec.

def exec_config(api, script, **fields):
    return api.kubeconfig(user=admin.exec_user(script, **fields))


def test_a_plugin_in_a_namespace_with_many_services(api):
    """A pod has seven variables for each of them."""
    many = {f"SERVICE_{number}_PORT": "tcp://10.0.0.1:80" for number in range(3000)}
    document = admin.exec_credential("v1", **token_of(api, "plugin"))
    assert user_of(api, "--kubeconfig", exec_config(api, f"echo '{document}'"), env=many) == "plugin"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_plugin_writes_a_token(api, version):
    document = admin.exec_credential(version, **token_of(api, "plugin"))
    fields = {"interactiveMode": ""} if version == "v1beta1" else {}
    assert user_of(api, "--kubeconfig", exec_config(api, f"echo '{document}'", version=version, **fields)) == "plugin"


def test_a_plugin_writes_a_client_certificate(api):
    identity = api.client("plugin", admin.MASTERS)
    document = admin.exec_credential(clientCertificateData=identity.chain.decode(), clientKeyData=pki.key_pem(identity.key).decode())
    (api.folder / "credential").write_text(document)
    assert user_of(api, "--kubeconfig", exec_config(api, f"cat {api.folder}/credential")) == "plugin"


def test_a_plugin_has_the_environment_and_no_input(api):
    script = f"cat >{api.folder}/input; env >{api.folder}/env; echo '{admin.exec_credential(**token_of(api, 'plugin'))}'"
    path = exec_config(api, script, env=[{"name": "ADDED", "value": "1"}, {"name": "CHANGED", "value": "new"}])
    assert user_of(api, "--kubeconfig", path, env={"INHERITED": "2", "CHANGED": "old"}, stdin="not for the plugin") == "plugin"
    variables = dict(line.split("=", 1) for line in (api.folder / "env").read_text().splitlines() if "=" in line)
    assert (variables["ADDED"], variables["INHERITED"], variables["CHANGED"]) == ("1", "2", "new")
    assert json.loads(variables["KUBERNETES_EXEC_INFO"]) == {
        "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "spec": {"interactive": False}}
    assert (api.folder / "input").read_text() == ""


def test_a_plugin_is_told_the_cluster(api):
    (api.folder / "ca.pem").write_bytes(api.cluster.ca.pem)
    cluster = {"server": api.url, "certificate-authority": "ca.pem", "tls-server-name": "kubernetes"}
    script = f"printenv KUBERNETES_EXEC_INFO >{api.folder}/info; echo '{admin.exec_credential(**token_of(api, 'plugin'))}'"
    path = api.kubeconfig(user=admin.exec_user(script, provideClusterInfo=True), cluster=cluster)
    assert user_of(api, "--kubeconfig", path) == "plugin"
    assert json.loads((api.folder / "info").read_text())["spec"] == {
        "interactive": False, "cluster": {"server": api.url, "tls-server-name": "kubernetes", "proxy-url": "",
                                          "certificate-authority-data": admin.encode(api.cluster.ca.pem)}}


def test_where_a_plugin_is_found(api):
    """With a slash, in the folder of the kubeconfig; without, in $PATH."""
    plugin = api.folder / "bin" / "plugin"
    plugin.parent.mkdir()
    plugin.write_text(f"#!/bin/sh\necho '{admin.exec_credential(**token_of(api, 'plugin'))}'\n")
    plugin.chmod(0o755)
    relative = exec_config(api, "", command="bin/plugin", args=None)
    assert user_of(api, "--kubeconfig", relative, cwd="/") == "plugin"
    bare = exec_config(api, "", command="plugin", args=[])
    assert user_of(api, "--kubeconfig", bare, env={"PATH": f"{plugin.parent}:{os.environ['PATH']}"}) == "plugin"
    hint = exec_config(api, "", command="plugin", args=[], installHint="Install it\nwith apt.")
    said = refusal("--kubeconfig", hint, status=77, code="admin-exec-failed")
    assert "users[0].user.exec: 'plugin': No such file or directory; Install it with apt." in said


@pytest.mark.parametrize("mode", ["Always", "IfAvailable", "Never"])
def test_a_plugin_reads_from_the_terminal(api, mode):
    script = f"read -r line; echo \"$line\" >{api.folder}/typed; echo '{admin.exec_credential(**token_of(api, 'plugin'))}'"
    path = exec_config(api, script, interactiveMode=mode)
    ours, theirs = pty.openpty()
    os.write(ours, b"password\n")
    result = subprocess.run(admin.command("token", "list", "--kubeconfig", path), env=admin.environment(), stdin=theirs, text=True,
                            capture_output=True, timeout=30, check=False)
    assert result.returncode == 0 and api.seen(TOKENS)[0].user == "plugin"
    assert (api.folder / "typed").read_text() == "password\n"
    for end in (ours, theirs):
        os.close(end)


FAILING = {
    "it fails": ("echo 'no session' >&2; exit 3", "'/bin/sh': failed with exit status 3"),
    "it is killed": ("kill -9 $$", "failed with exit status 137"),
    "it writes nothing": ("true", "expected JSON"),
    "it writes something else": ("echo secret-of-plugin", "expected JSON"),
    "it writes too much": ("head -c 300000 /dev/zero", "it wrote too much"),
    "it writes no credential": (f"echo '{admin.exec_credential()}'", "status: expected a token, or clientCertificateData and clientKeyData"),
    "it writes a key alone": (f"echo '{admin.exec_credential(token='t', clientKeyData='secret-of-plugin')}'", "expected a token, or"),
    "it writes a token with a blank": (f"echo '{admin.exec_credential(token='secret-of-plugin 2')}'", "printable characters without blanks"),
    "it writes another version": (f"echo '{admin.exec_credential('v1beta1', token='t')}'", "apiVersion: expected 'client.authentication.k8s.io/v1'"),
    "it writes a bad time": (f"echo '{admin.exec_credential(token='t', expirationTimestamp='soon')}'", "expirationTimestamp: expected a time"),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_plugin_fails(api, name):
    script, expected = FAILING[name]
    said = refusal("--kubeconfig", exec_config(api, script), status=77, code="admin-exec-failed")
    assert expected in said and "users[0].user.exec: " in said and "secret-of-plugin" not in said
    assert ("no session\n" in said) == ("no session" in script)
    assert not api.connections


def test_a_plugin_runs_again_after_its_credential_expired(api):
    """Two pages need two requests: the second one has a new token, and a credential that is valid is kept."""
    for i in range(201):
        api.objects.put(f"/api/v1/namespaces/kube-system/secrets/s{i}", type="bootstrap.kubernetes.io/token")
    for user in "123":
        token_of(api, user)

    def users(expires):
        path, before = api.folder / "count", len(api.seen(TOKENS))
        path.unlink(missing_ok=True)
        credential = admin.exec_credential(token="token-of-NUMBER", **expires)
        script = f"echo >>{path}; echo '{credential}' | sed s/NUMBER/$(wc -l <{path})/"
        list_tokens("--kubeconfig", exec_config(api, script))
        return [request.user for request in api.seen(TOKENS)[before:]]
    assert users({"expirationTimestamp": "2020-01-02T03:04:05Z"}) == ["2", "3"]
    assert users({"expirationTimestamp": "2100-01-02T03:04:05Z"}) == ["1", "1"]
    assert users({}) == ["1", "1"]


def test_a_token_file_is_read_again_after_a_401(api, tmp_path):
    """A controller goes on with the token that somebody has written meanwhile."""
    (tmp_path / "token").write_text(token_of(api, "old")["token"])
    with admin.Running("controller", "--kubeconfig", api.kubeconfig(user={"tokenFile": "token"})):
        api.objects.wait(lambda: any(request.user == "old" for request in api.requests))
        (tmp_path / "token").write_text(token_of(api, "new")["token"])
        del api.cluster.bearers["token-of-old"]
        cut_connections(api)    # its watches begin again
        api.objects.wait(lambda: any(request.user == "new" for request in api.requests), 30)


def test_a_controller_in_a_pod_takes_another_ca(api):
    """As when somebody rotates the cluster's CA, and kubelet writes the new one into the pod."""
    account = "system:serviceaccount:kube-system:controller"
    with pod(api, account) as env, admin.Running("controller", env=env) as controller:
        controller.wait_line("is the leader")
        api.cluster.ca = pki.CA()
        api.identity = api.cluster.ca.serving()
        before = len(api.requests)
        (POD / "ca.crt").write_bytes(api.cluster.ca.pem)
        cut_connections(api)
        controller.wait_line("admin-untrusted")
        api.objects.wait(lambda: any(request.kind == "watch secrets" for request in api.requests[before:]))


@pytest.mark.parametrize("kind", ["token", "certificate"])
def test_watches_continue_with_a_new_token_and_begin_again_with_a_certificate(api, kind):
    identity = api.client("second", admin.MASTERS)
    second = {"token": token_of(api, "second"), "certificate": {
        "clientCertificateData": identity.chain.decode(), "clientKeyData": pki.key_pem(identity.key).decode()}}[kind]
    cluster, credential = Cluster(api), api.folder / "credential"
    credential.write_text(admin.exec_credential(**token_of(api, "first"), expirationTimestamp=timestamp(3)))
    with admin.Running("controller", "--kubeconfig", exec_config(api, f"cat {credential}")) as controller:
        controller.wait_line("is the leader")

        def watchers():
            return [request.user for request in api.requests if request.verb == "watch"]
        api.objects.wait(lambda: len(watchers()) == 6)
        credential.write_text(admin.exec_credential(**second))
        cluster.settle()       # with requests of the old credential or the new one
        api.objects.wait(lambda: any(request.user == "second" for request in api.requests))
        if kind == "certificate":
            api.objects.wait(lambda: len(watchers()) == 12)
        cluster.settle("other")
        assert watchers() == ["first"] * 6 + ["second"] * (6 if kind == "certificate" else 0)
        assert controller.stop() == 0


def test_a_plugin_that_closes_its_output_and_lives_on_is_ended(api):
    with admin.Running("token", "list", "--kubeconfig", exec_config(api, f"exec >&-; touch {api.folder}/started; exec sleep 100")) as program:
        until((api.folder / "started").exists, "the plugin has started")
        assert program.stop(5) == -signal.SIGTERM


# The connection.

def test_another_cluster_of_the_same_address(api):
    """The file has the CA of another cluster, as after `kubeadm reset`."""
    path = api.kubeconfig(cluster=api.user_cluster(**{"certificate-authority-data": admin.encode(pki.CA().pem)}))
    said = refusal("--kubeconfig", path, status=76, code="admin-untrusted")
    assert f"server and CA are from {path}" in said and not api.requests


def test_an_api_server_that_is_away(api):
    path = api.kubeconfig()
    api.close()
    said = refusal("--kubeconfig", path, status=69, code="admin-unreachable")
    assert f"{api.host}:{api.port}: Connection refused" in said and f"server and CA are from {path}" in said


def test_a_rejected_credential(api):
    path = api.kubeconfig(user={"token": "unknown-token"})
    said = refusal("--kubeconfig", path, status=77, code="admin-unauthorized")
    assert "unknown-token" not in said
    api.denied.add(TOKENS)
    said = refusal("--kubeconfig", api.kubeconfig(), status=77, code="admin-forbidden")
    assert 'User "kubernetes-admin" cannot list resource "secrets"' in said
