# SPDX-License-Identifier: Apache-2.0
"""`node-bootstrap-admin token` against a scripted API: answers that a real one gives rarely, and input that must be refused."""

import base64
import json
import re
import subprocess

import pytest

from common.apiserver import status
from common.csrs import timestamp
from common.endpoint import Reply
from . import admin

SECRETS = "/api/v1/namespaces/kube-system/secrets"
CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/node-bootstrap:kubelet-bootstrap"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/node-bootstrap-controller"
REVIEW = "create subjectaccessreviews"
NODE_GROUP = "system:bootstrappers:node-bootstrap"
ENROLLED_GROUP = "system:bootstrappers:node-bootstrap-enrolled"
SECRET = "0123456789abcdef"
TOKEN = f"abcdef.{SECRET}"
FORM = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")


def put_token(api, name="abcdef", **data):
    data = {"token-id": name, "token-secret": SECRET, "usage-bootstrap-signing": "true", **data}
    return api.objects.put(f"{SECRETS}/bootstrap-token-{name}", type="bootstrap.kubernetes.io/token",
                           data={key: base64.b64encode(value.encode()).decode() for key, value in data.items()})


def put_bound(api, name, node, **data):
    secret = put_token(api, name, **data)
    return api.objects.put(f"{SECRETS}/bootstrap-token-{name}", {**secret, "metadata": {**secret["metadata"], "annotations": {"node-bootstrap/node": node}}})


def changes(api):
    return [request.kind for request in api.requests if request.method != "GET"]


@pytest.mark.parametrize("words", [
    ["bad"], ["abcdef.0123456789ABCDEF"], ["--ttl=5"], ["--ttl=-5m"], ["--ttl=10ms"], [f"--ttl={TOKEN}"],
    ["--node=bad_name"], ["--node=Worker"], [f"--node={TOKEN}"],
    ["--no-signing", "--print=setup"], ["--count=x"], ["--count=0"], ["--count=2", TOKEN], ["--count=2", "--node=a"], ["--count=2", "--print=ignition"],
    ["--nodes=-", "--enrolled"], ["--nodes=-", "--print=config"], ["--nodes=-", TOKEN], ["--nodes=-"],
    ["--print=foo"], ["--print=qemu"], [f"--print={TOKEN}"], [TOKEN, "ghijkl.0123456789abcdef"], ["--node=a", "--enrolled"],
], ids=" ".join)
def test_malformed_input(api, words):
    """Refused before the cluster is contacted, and without the secret of a token in the wrong place."""
    made = api.run("token", "create", *words)
    assert made.returncode == 64 and "usage" in made.stderr
    assert SECRET not in made.stderr + made.stdout
    assert api.requests == []


def test_collision(api):
    """An existing token is never overwritten."""
    before = put_token(api)
    made = api.run("token", "create", TOKEN)
    assert made.returncode == 73 and "the token abcdef already exists" in made.stderr and SECRET not in made.stderr
    assert api.objects.look(f"{SECRETS}/bootstrap-token-abcdef") == before
    assert changes(api) == ["create secrets"]


def test_namespace_that_does_not_exist(api):
    api.on("create secrets", lambda _: status(404, "NotFound", 'namespaces "kube-system" not found'))
    made = api.run("token", "create")
    assert made.returncode == 66 and "the namespace kube-system does not exist" in made.stderr and made.stdout == ""


def test_forbidden(api):
    """Names the verb and the resource; nothing is printed as if it were a token."""
    api.denied.add("create secrets")
    made = api.run("token", "create", TOKEN)
    assert made.returncode == 77 and 'cannot create resource "secrets"' in made.stderr
    assert made.stdout == "" and SECRET not in made.stderr


def test_api_server_away(api):
    kubeconfig = api.kubeconfig()
    api.stop()
    made = admin.run_admin("token", "create", TOKEN, "--kubeconfig", kubeconfig)
    assert made.returncode != 0 and made.stdout == "" and SECRET not in made.stderr


def test_full_disk(api):
    """The remedy is not that of a node, and the token that nobody has is deleted."""
    with open("/dev/full", "wb") as full:
        made = subprocess.run(admin.command("token", "create", TOKEN, "--kubeconfig", api.kubeconfig()), env=admin.environment(), check=False,
                              stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True, timeout=30)
    assert made.returncode == 73 and "admin-output-unwritable: cannot write to standard output: No space left on device" in made.stderr, made.stderr
    assert "the token abcdef was deleted" in made.stderr and "node-bootstrap.service" not in made.stderr and SECRET not in made.stderr
    assert changes(api) == ["create secrets", "delete secrets"]


def test_dry_run(api):
    put_cluster_info(api)
    for words in ([], [TOKEN], ["--node=a"], ["--enrolled"]):
        assert api.run("token", "create", "--dry-run", *words).returncode == 0
    assert changes(api) == [REVIEW] * 2


def test_the_binding_is_named(api):
    """It is created, or would be, if it is missing."""
    put_cluster_info(api)
    title = "the ClusterRoleBinding node-bootstrap:kubelet-bootstrap"
    made = api.run("token", "create", "--dry-run", "--node=a")
    assert f"{title} would be created\nwould create the Secret kube-system/bootstrap-token-" in made.stderr
    assert f"{title} was created\n" in api.run("token", "create", "--node=a").stderr
    for options in ([], ["--dry-run"]):
        assert title not in api.run("token", "create", "--node=a", *options).stderr
    binding = api.objects.look(BINDING)
    api.objects.put(BINDING, **{**binding, "subjects": []})
    assert f"{title} would be changed\n" in api.run("token", "create", "--dry-run", "--node=a").stderr
    assert f"{title} was changed\n" in api.run("token", "create", "--node=a").stderr and api.objects.look(BINDING)["subjects"] == binding["subjects"]


@pytest.mark.parametrize("words", [[], ["--node=a"], ["--enrolled", "--print=ignition"]], ids=" ".join)
def test_a_dry_run_shows_no_token_that_could_be_used(api, words):
    """Somebody would paste the command. A token of the command line is shown as it would be."""
    put_cluster_info(api)
    made = api.run("token", "create", "--dry-run", *words)
    assert not FORM.search(made.stdout) and re.search(r"[a-z0-9]{6}\.\*{16}", made.stdout), made.stdout
    assert TOKEN in api.run("token", "create", "--dry-run", TOKEN, *words).stdout


# Many tokens.

def test_many_tokens(api):
    put_cluster_info(api)
    made = api.run("token", "create", "--count=5")
    assert made.returncode == 0 and len({line for line in made.stdout.splitlines() if FORM.fullmatch(line)}) == 5 == len(api.objects.all(SECRETS))
    made = api.run("token", "create", "--enrolled", "--count=2", "--print=kubeadm")
    assert made.returncode == 0 and made.stdout.count("kubeadm join ") == 2


def test_tokens_for_many_nodes(api):
    """Checks and bindings are made once."""
    put_cluster_info(api)
    made = api.run("token", "create", "--nodes=-", "--print=credential", stdin="worker-1\n\nworker-2\nworker-3")
    assert made.returncode == 0, made.stderr
    tokens = dict(line.split() for line in made.stdout.splitlines())
    assert list(tokens) == ["worker-1", "worker-2", "worker-3"]
    for node, token in tokens.items():
        assert api.objects.look(f"{SECRETS}/bootstrap-token-{token[:6]}")["metadata"]["annotations"] == {"node-bootstrap/node": node}
    assert changes(api) == [REVIEW, "create clusterrolebindings", *["create secrets"] * 3]
    made = api.run("token", "create", "--nodes=-", stdin="worker-4\nworker-5\n")
    assert made.stdout.count("node-bootstrap setup --token-file=- ") == 2 and "--node-name=worker-5" in made.stdout
    api.on("create secrets", lambda _: status(403, "Forbidden", "no"), skip=1)
    made = api.run("token", "create", "--nodes=-", "--print=credential", stdin="worker-1\nworker-2\n")
    assert made.returncode == 77 and made.stdout.startswith("worker-1 ") and "; created and printed before: 1" in made.stderr


def test_a_wrong_name_among_many_creates_nothing(api):
    made = api.run("token", "create", "--nodes=-", stdin=f"worker-1\n{TOKEN}\n")
    assert made.returncode == 64 and not api.requests and SECRET not in made.stderr


def test_a_token_that_signs_nothing(api):
    put_cluster_info(api)
    made = api.run("token", "create", TOKEN, "--node=worker-1", "--no-signing")
    assert (made.returncode, made.stdout) == (0, f"{TOKEN}\n")
    assert "usage-bootstrap-signing" not in api.objects.look(f"{SECRETS}/bootstrap-token-abcdef")["data"]


def test_cluster_info_that_is_full(api):
    """The oldest tokens lose their signature, which concerns machines with another token."""
    put_cluster_info(api)
    data = api.objects.look(CLUSTER_INFO)["data"]
    for number, is_told in (4999, False), (5000, True):
        api.objects.put(CLUSTER_INFO, data={**data, **{f"jws-kubeconfig-{index:06}": "x" for index in range(number)}})
        assert ("cluster-info has 5000 signatures, and room for 5000" in api.run("token", "create").stderr) == is_told
        assert "signatures" not in api.run("token", "create", "--no-signing").stderr


# Tokens for one node.

def put_cluster_info(api):
    document = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": api.user_cluster()}]}
    api.objects.put(CLUSTER_INFO, data={"kubeconfig": json.dumps(document)})


def put_binding(api, role="system:node-bootstrapper", group=NODE_GROUP):
    rbac = {"apiGroup": "rbac.authorization.k8s.io"}
    api.objects.put(BINDING, roleRef={**rbac, "kind": "ClusterRole", "name": role}, subjects=[{"kind": "Group", **rbac, "name": group}])


def test_token_for_one_node(api):
    put_cluster_info(api)
    made = api.run("token", "create", TOKEN, "--node=worker-1")
    assert made.returncode == 0, made.stderr
    assert changes(api) == [REVIEW, "create clusterrolebindings", "create secrets"]
    secret = api.objects.look(f"{SECRETS}/bootstrap-token-abcdef")
    assert secret["metadata"]["annotations"] == {"node-bootstrap/node": "worker-1"}
    assert base64.b64decode(secret["data"]["auth-extra-groups"]) == b"system:bootstrappers:node-bootstrap"
    assert api.objects.look(BINDING)["roleRef"]["name"] == "system:node-bootstrapper"
    command, rest = made.stdout.split("\n", 1)
    assert "--node-name=worker-1" in command and SECRET not in command and TOKEN in rest


def test_binding_that_may_not_be_created(api):
    """Without it no token is created, since it would be useless."""
    put_cluster_info(api)
    api.denied.add("create clusterrolebindings")
    made = api.run("token", "create", "--node=worker-1")
    assert made.returncode == 77 and "clusterrolebindings" in made.stderr
    assert "create secrets" not in changes(api)
    put_binding(api)
    assert api.run("token", "create", "--node=worker-1").returncode == 0


def test_binding_to_another_role(api):
    """With another role, kube-controller-manager could approve any request."""
    put_cluster_info(api)
    put_binding(api, "system:certificates.k8s.io:certificatesigningrequests:nodeclient")
    made = api.run("token", "create", "--node=worker-1")
    assert made.returncode == 73 and "kubectl delete ClusterRoleBinding node-bootstrap:kubelet-bootstrap`" in made.stderr
    assert changes(api) == [REVIEW]


def test_binding_of_another_group(api):
    """It gets the group as well, and keeps the other one."""
    put_cluster_info(api)
    put_binding(api, group="system:bootstrappers:other")
    assert api.run("token", "create", "--node=worker-1").returncode == 0
    assert [subject["name"] for subject in api.objects.look(BINDING)["subjects"]] == ["system:bootstrappers:other", NODE_GROUP]


def test_enrolled_token(api):
    """For no node in particular, and of a group that may only submit requests."""
    put_cluster_info(api)
    made = api.run("token", "create", TOKEN, "--enrolled")
    assert made.returncode == 0, made.stderr
    assert changes(api) == [REVIEW, "create clusterrolebindings", "create secrets"]
    secret = api.objects.look(f"{SECRETS}/bootstrap-token-abcdef")
    assert "annotations" not in secret["metadata"]
    assert base64.b64decode(secret["data"]["auth-extra-groups"]).decode() == ENROLLED_GROUP
    binding = api.objects.look(BINDING.replace("kubelet", "enrolled"))
    assert binding["roleRef"]["name"] == "system:node-bootstrapper" and binding["subjects"][0]["name"] == ENROLLED_GROUP
    assert "setup --token-file=-" in made.stdout and "--node-name" not in made.stdout


@pytest.mark.parametrize("words, group", [(["--node=worker-1"], NODE_GROUP), (["--enrolled"], ENROLLED_GROUP)])
def test_group_that_is_approved_automatically(api, words, group):
    """The token would be as good as any other."""
    put_cluster_info(api)
    reviews = []
    api.allows = lambda attributes: reviews.append(attributes) or True
    made = api.run("token", "create", *words)
    assert made.returncode == 65 and f"'{group}'" in made.stderr and changes(api) == [REVIEW]
    assert {key: reviews[0][key] for key in ("resource", "subresource", "verb")} == {
        "resource": "certificatesigningrequests", "subresource": "nodeclient", "verb": "create"}
    [spec] = [request.json()["spec"] for request in api.requests if request.kind == REVIEW]
    assert set(spec["groups"]) == {"system:bootstrappers", "system:authenticated", group}
    api.requests.clear()
    assert api.run("token", "create", *words, "--force").returncode == 0
    assert REVIEW not in changes(api) and "create secrets" in changes(api)


def test_a_line_that_is_no_name(api, tmp_path):
    path = tmp_path / "names"
    path.write_text("worker-1\n\nA_B\n", encoding="ascii")
    made = api.run("token", "create", f"--nodes={path}")
    assert made.returncode == 64 and f"found a word of 3 characters; '{path}', line 3" in made.stderr and not api.requests


def test_automatic_approval_that_is_not_known(api):
    """Not to know is no permission."""
    put_cluster_info(api)
    api.denied.add(REVIEW)
    made = api.run("token", "create", "--node=worker-1")
    assert made.returncode == 77 and "--force skips this check" in made.stderr and changes(api) == [REVIEW]
    api.denied.clear()
    api.on(REVIEW, lambda request: Reply(201, json.dumps({**request.json(), "status": {"allowed": False, "evaluationError": "a webhook"}}).encode()))
    made = api.run("token", "create", "--node=worker-1")
    assert made.returncode != 0 and "a webhook" in made.stderr and "create secrets" not in changes(api)


@pytest.mark.parametrize("lease, is_running", [
    (None, False), (("a", -600), False), (("", 0), False), (("a", 0), True),
], ids=["none", "dead", "released", "running"])
def test_controller_that_does_not_run(api, lease, is_running):
    put_cluster_info(api)
    if lease:
        api.objects.put(LEASE, spec={"holderIdentity": lease[0], "renewTime": timestamp(lease[1])})
    made = api.run("token", "create", "--enrolled")
    assert made.returncode == 0 and ("no controller is running" in made.stderr) is not is_running


def test_clock_of_this_machine_does_not_matter(api):
    """The age of the Lease is measured with the API server's clock."""
    put_cluster_info(api)
    api.clock_offset = -3600
    api.objects.put(LEASE, spec={"holderIdentity": "a", "renewTime": timestamp(-3600)})
    assert "no controller is running" not in api.run("token", "create", "--enrolled").stderr


@pytest.mark.parametrize("words", [["--node=worker-1"], ["--enrolled"], ["--print=config"]], ids=" ".join)
def test_cluster_info_that_is_missing(api, words):
    """No machine could join, and its address for machines is not known. The token alone needs neither."""
    made = api.run("token", "create", *words)
    assert made.returncode == 66 and "`node-bootstrap-admin cluster-info publish` creates it" in made.stderr
    assert made.stdout == "" and not changes(api)
    made = api.run("token", "create", *words, "--print=credential")
    assert made.returncode == 0 and FORM.search(made.stdout)


@pytest.mark.parametrize("words", [["requests", "approve", TOKEN], ["token", "create", "--dry-run", f"--node={TOKEN}"], ["enroll", "add", "--public-key=-", TOKEN]], ids=lambda words: words[0])
def test_token_where_a_name_belongs(api, words):
    """A token has the form of a DNS name. No message may have it."""
    made = api.run(*words)
    assert made.returncode == 64 and "found a word of 23 characters" in made.stderr
    assert SECRET not in made.stdout + made.stderr and changes(api) == []


def test_name_that_is_too_long_for_a_label(api):
    for name, is_too_long in (("a" * 63, False), ("a" * 64, True), (".".join(["node"] * 13), True)):
        made = api.run("token", "create", "--node", name, "--print=credential", "--dry-run")
        assert ("at most 63" in made.stderr) == is_too_long, made.stderr


def test_examples_in_the_help_are_accepted(api):
    examples = re.findall(r"^  node-bootstrap-admin (token create .*)$", admin.run_admin("token", "create", "--help").stdout, re.M)
    assert len(examples) >= 3 and api.run("cluster-info", "publish", "--server=https://api.example.org:6443").returncode == 0
    for example in examples:
        made = api.run(*example.split(), "--dry-run")
        assert made.returncode == 0 and made.stdout, made.stderr


def test_help_that_a_message_names(api):
    assert "unknown command: argument 2 (1 characters); see `node-bootstrap-admin --help`" in api.run("token", "x").stderr
    assert "a command is required after token; see" in admin.run_admin("token").stderr
    assert "a command is required; see" in admin.run_admin().stderr
    assert "see `node-bootstrap-admin token create --help`" in api.run("token", "create", "--no-such").stderr
    assert "see `node-bootstrap-admin --help`" in api.run("--no-such").stderr


@pytest.mark.parametrize("words", [["--context=x", "token", "list"], ["token", "--context=x", "list"], ["cluster-info", "--context=x", "show"]])
def test_option_before_the_command(api, words):
    made = api.run(*words)
    assert made.returncode == 64 and " (11 characters) before the command; options follow the command" in made.stderr


def test_server_behind_a_path(api):
    """As behind Rancher. A machine would ask the wrong server: discovery.endpoints has hosts and ports alone."""
    cluster = api.user_cluster()
    cluster["server"] += "/k8s/clusters/c-1"
    api.objects.put(CLUSTER_INFO, data={"kubeconfig": json.dumps({"apiVersion": "v1", "kind": "Config",
                                                                  "clusters": [{"name": "", "cluster": cluster}]})})
    made = api.run("token", "create", "--print=setup")
    assert made.returncode == 78 and "/k8s/clusters/c-1" in made.stderr
    assert changes(api) == []


# list and revoke

def test_list_masks_and_escapes(api):
    """A Secret that is not a token does not hide the others; text of the cluster cannot control the terminal."""
    put_token(api, description="a\x1b[31mb")
    put_token(api, "ghijkl", **{"token-secret": "SHORT"})
    put_bound(api, "mnopqr", "worker-1")
    made = api.run("token", "list")
    assert made.returncode == 0 and "abcdef.****************" in made.stdout and "ghijkl" in made.stderr
    assert [line.split()[-1] for line in made.stdout.splitlines()] == ["NODE", "<none>", "worker-1"]
    assert not [part for part in (SECRET, "SHORT", "\x1b", "MDEyMzQ1") if part in made.stdout + made.stderr]


def test_revoke(api):
    """IDs and whole tokens; one that is missing does not keep the others."""
    for name in ("aaaaaa", "bbbbbb"):
        put_token(api, name)
    made = api.run("token", "revoke", "aaaaaa", "zzzzzz", f"bbbbbb.{SECRET}")
    assert made.returncode == 66 and "zzzzzz" in made.stderr and SECRET not in made.stdout + made.stderr
    assert made.stdout.splitlines() == [f'bootstrap token "{name}" deleted' for name in ("aaaaaa", "bbbbbb")]


def test_revoke_checks_all_words_first(api):
    put_token(api)
    made = api.run("token", "revoke", "abcdef", f"ABCDEF.{SECRET}")
    assert made.returncode == 64 and SECRET not in made.stderr
    assert api.requests == []


def test_revoke_of_a_node(api):
    """Only bound tokens of exactly this node, and even one that is unusable otherwise."""
    put_token(api)
    put_bound(api, "aaaaaa", "worker-1")
    put_bound(api, "bbbbbb", "worker-1", **{"token-secret": "SHORT"})
    put_bound(api, "cccccc", "worker-10")
    api.objects.put(f"{SECRETS}/bootstrap-token-dddddd-x", metadata={"annotations": {"node-bootstrap/node": "worker-1"}}, type="bootstrap.kubernetes.io/token")
    put_token(api, "dddddd")
    made = api.run("token", "revoke", "--node=worker-1")
    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines() == [f'bootstrap token "{name}" deleted' for name in ("aaaaaa", "bbbbbb")]
    assert all(api.objects.look(f"{SECRETS}/bootstrap-token-{name}") for name in ("abcdef", "cccccc", "dddddd"))
    made = api.run("token", "revoke", "--node=worker-1")
    assert made.returncode == 66 and "no bound token for the node 'worker-1'" in made.stderr


@pytest.mark.parametrize("words", [[], ["--node=worker-1", "abcdef"], ["--node=Worker"], [f"--node={TOKEN}"]], ids=" ".join)
def test_revoke_without_a_clear_object(api, words):
    made = api.run("token", "revoke", *words)
    assert made.returncode == 64 and SECRET not in made.stderr and api.requests == []
