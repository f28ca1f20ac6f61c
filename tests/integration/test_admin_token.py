# SPDX-License-Identifier: Apache-2.0
"""`node-bootstrap-admin token` against a scripted API: answers that a real one gives rarely, and input that must be refused."""

import base64
import json
import re

import pytest

import admin
from apiserver import status

SECRETS = "/api/v1/namespaces/kube-system/secrets"
CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/node-bootstrap:kubelet-bootstrap"
NODE_GROUP = "system:bootstrappers:node-bootstrap"
SECRET = "0123456789abcdef"
TOKEN = f"abcdef.{SECRET}"
FORM = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")


def put_token(api, name="abcdef", **data):
    data = {"token-id": name, "token-secret": SECRET, "usage-bootstrap-signing": "true", **data}
    return api.objects.put(f"{SECRETS}/bootstrap-token-{name}", type="bootstrap.kubernetes.io/token",
                           data={key: base64.b64encode(value.encode()).decode() for key, value in data.items()})


def tokens(api):
    return [item for path, item in all_objects(api) if path.startswith(f"{SECRETS}/bootstrap-token-")]


def all_objects(api):
    made = api.run("token", "list", "-o", "json")
    assert made.returncode == 0, made.stderr
    decoder, text, items = json.JSONDecoder(), made.stdout.strip(), []
    while text:
        item, end = decoder.raw_decode(text)
        items.append((f"{SECRETS}/bootstrap-token-{item['token'][:6]}", item))
        text = text[end:].strip()
    return items


def changes(api):
    return [request.kind for request in api.requests if request.method != "GET"]


@pytest.mark.parametrize("words", [
    ["bad"], ["abcdef.0123456789ABCDEF"], ["--ttl=5"], ["--ttl=-5m"], ["--ttl=10ms"], [f"--ttl={TOKEN}"], ["--usages=foo"], [f"--usages={TOKEN}"],
    ["--groups=system:masters"], [f"--groups={TOKEN}"], ["--groups=system:bootstrappers:a", "--groups=system:bootstrappers:b"],
    ["--groups=system:bootstrappers:a", "--usages=signing"], ["--description=a\nb"], ["--description=a\x1b[31m"], [f"--description={TOKEN}"],
    ["--node=bad_name"], ["--node=Worker"], ["--node=a", "--groups=system:bootstrappers:a"], ["--node=a", "--nodes=b"],
    ["--nodes=b"], ["--output-dir=/tmp"], ["--print=foo"], ["--print=setup", "--print-join-command"], [TOKEN, "ghijkl.0123456789abcdef"],
    ["--config=/dev/null", "--ttl=1h"],
], ids=" ".join)
def test_malformed_input(api, words):
    """Refused before the cluster is contacted, and without the secret of a token in the wrong place."""
    made = api.run("token", "create", *words)
    assert made.returncode == 64 and "usage" in made.stderr
    assert SECRET not in made.stderr + made.stdout
    assert api.requests == []


def test_signing_alone_needs_no_group(api):
    """kubeadm cannot create such a token."""
    assert api.run("token", "create", TOKEN, "--usages=signing").returncode == 0
    [made] = tokens(api)
    assert made["usages"] == ["signing"] and made["groups"] == []


def test_collision(api):
    """An existing token is never overwritten."""
    before = put_token(api)
    made = api.run("token", "create", TOKEN)
    assert made.returncode == 73 and "'abcdef' already exists" in made.stderr and SECRET not in made.stderr
    assert api.objects.look(f"{SECRETS}/bootstrap-token-abcdef") == before
    assert changes(api) == ["create secrets"]


def test_generated_id_that_exists(api):
    api.on("create secrets", lambda _: status(409, "AlreadyExists", "it exists"), times=2)
    made = api.run("token", "create")
    assert made.returncode == 0 and FORM.fullmatch(made.stdout.strip())
    assert changes(api) == ["create secrets"] * 3
    names = {request.json()["metadata"]["name"] for request in api.requests}
    assert len(names) == 3      # another ID each time


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


def test_dry_run(api, tmp_path):
    (tmp_path / "nodes").write_text("a\nb\n")
    put_cluster_info(api)
    for words in ([], [TOKEN], ["--node=a"], [f"--nodes={tmp_path}/nodes", f"--output-dir={tmp_path}"]):
        assert api.run("token", "create", "--dry-run", *words).returncode == 0
    put_token(api)
    assert api.run("token", "revoke", "--dry-run", "abcdef").returncode == 0
    assert changes(api) == []
    assert sorted(path.name for path in tmp_path.glob("*.sh")) == []


# Tokens for one node.

def put_cluster_info(api, signed=True):
    """Signed with every token, as far as `token create` looks."""
    document = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": api.user_cluster()}]}
    api.objects.put(CLUSTER_INFO, data={"kubeconfig": json.dumps(document)})
    if signed:
        api.on("create secrets", sign_with(api))


def put_binding(api, role="system:node-bootstrapper", group=NODE_GROUP):
    api.objects.put(BINDING, roleRef={"kind": "ClusterRole", "name": role}, subjects=[{"kind": "Group", "name": group}])


def sign_with(api):
    def sign(request):
        name = request.json()["metadata"]["name"].removeprefix("bootstrap-token-")
        api.objects.put(CLUSTER_INFO, api.objects.look(CLUSTER_INFO), data={f"jws-kubeconfig-{name}": "x"})
        return None     # the healthy answer follows
    return sign


def test_token_for_one_node(api):
    put_cluster_info(api)
    made = api.run("token", "create", TOKEN, "--node=worker-1")
    assert made.returncode == 0, made.stderr
    assert changes(api) == ["create clusterrolebindings", "create secrets"]
    secret = api.objects.look(f"{SECRETS}/bootstrap-token-abcdef")
    assert secret["metadata"]["annotations"] == {"node-bootstrap/node": "worker-1"}
    assert base64.b64decode(secret["data"]["auth-extra-groups"]) == b"system:bootstrappers:node-bootstrap"
    assert api.objects.look(BINDING)["roleRef"]["name"] == "system:node-bootstrapper"
    command, rest = made.stdout.split("\n", 1)
    assert "--node-name=worker-1" in command and SECRET not in command and TOKEN in rest
    assert "not signed" not in made.stderr


def test_binding_that_may_not_be_created(api):
    """Without it no token is created, since it would be useless."""
    put_cluster_info(api)
    api.denied.add("create clusterrolebindings")
    made = api.run("token", "create", "--node=worker-1")
    assert made.returncode == 77 and "clusterrolebindings" in made.stderr
    assert "create secrets" not in changes(api)
    put_binding(api)
    assert api.run("token", "create", "--node=worker-1").returncode == 0


@pytest.mark.parametrize(("role", "group"), [("system:certificates.k8s.io:certificatesigningrequests:nodeclient", NODE_GROUP),
                                             ("system:node-bootstrapper", "system:bootstrappers:other")])
def test_binding_that_differs(api, role, group):
    """With another role, kube-controller-manager could approve any request."""
    put_cluster_info(api)
    put_binding(api, role, group)
    made = api.run("token", "create", "--node=worker-1")
    assert made.returncode == 73 and "node-bootstrap:kubelet-bootstrap does not bind" in made.stderr
    assert changes(api) == []


def test_cluster_info_that_is_missing(api):
    """The kubeconfig names the server then; the warning says why nobody can join yet."""
    made = api.run("token", "create", "--node=worker-1")
    assert made.returncode == 0 and made.stderr.count("cluster-info is not published") == 1
    assert FORM.search(made.stdout)
    made = api.run("token", "create", "--print=config")
    assert made.returncode == 0 and made.stderr.count("cluster-info is not published") == 1


def test_server_that_other_machines_cannot_reach(api):
    made = api.run("token", "create", "--print-join-command")
    assert made.returncode == 0 and "'127.0.0.1' is an address of this machine only" in made.stderr


def test_signature_that_comes_late(api):
    """The command says what it waits for; the signature comes after several polls."""
    put_cluster_info(api, signed=False)
    reads = iter(range(8))

    def sign_last(_):
        if next(reads, None) is None and api.objects.all(SECRETS):
            put_cluster_info(api, signed=False)
            api.objects.put(CLUSTER_INFO, api.objects.look(CLUSTER_INFO), data={"jws-kubeconfig-abcdef": "x"})
    api.on("get configmaps", sign_last)
    made = api.run("token", "create", TOKEN, "--node=worker-1")
    assert made.returncode == 0 and "waiting up to 15 s for a signature of cluster-info with the token abcdef" in made.stderr
    assert "not signed" not in made.stderr


def test_signature_that_never_comes(api):
    put_cluster_info(api, signed=False)
    made = api.run("token", "create", TOKEN, "--node=worker-1")
    assert made.returncode == 0 and "cluster-info is not signed with the token abcdef after 15 s" in made.stderr
    assert FORM.search(made.stdout)


@pytest.mark.parametrize("words", [["approve", TOKEN], ["token", "create", "--dry-run", f"--node={TOKEN}"], ["enroll", "--public-key=-", TOKEN]], ids=lambda words: words[0])
def test_token_where_a_name_belongs(api, words):
    """A token has the form of a DNS name. No message may have it."""
    made = api.run(*words)
    assert made.returncode == 64 and "found a token" in made.stderr
    assert SECRET not in made.stdout + made.stderr and changes(api) == []


def test_help_that_a_message_names(api):
    assert "see `node-bootstrap-admin token create --help`" in api.run("token", "create", "--no-such").stderr
    assert "see `node-bootstrap-admin --help`" in api.run("--no-such").stderr


@pytest.mark.parametrize("words", [["--context=x", "token", "list"], ["token", "--context=x", "list"], ["cluster-info", "--context=x", "show"]])
def test_option_before_the_command(api, words):
    made = api.run(*words)
    assert made.returncode == 64 and "'--context' before the command; options follow the command" in made.stderr


def test_server_behind_a_path(api):
    """As behind Rancher. A machine would ask the wrong server: discovery.endpoints has hosts and ports alone."""
    cluster = api.user_cluster()
    cluster["server"] += "/k8s/clusters/c-1"
    api.objects.put(CLUSTER_INFO, data={"kubeconfig": json.dumps({"apiVersion": "v1", "kind": "Config",
                                                                  "clusters": [{"name": "", "cluster": cluster}]})})
    made = api.run("token", "create", "--print=setup")
    assert made.returncode == 78 and "/k8s/clusters/c-1" in made.stderr
    assert changes(api) == []


def test_fleet(api, tmp_path):
    put_cluster_info(api)
    (tmp_path / "nodes").write_text("# rack 4\nworker-1\n\nworker-2 # new\n")
    (tmp_path / "out").mkdir()
    words = ["token", "create", "--nodes", tmp_path / "nodes", "--output-dir", tmp_path / "out", "--print=credential"]
    made = api.run(*words)
    assert made.returncode == 0 and "may have expired" not in made.stderr, made.stderr
    files = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in files] == ["worker-1.token", "worker-2.token"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files)
    contents = [path.read_text() for path in files]
    assert all(text.split(".")[1].strip() not in made.stdout for text in contents)
    assert [item["node"] for _, item in sorted(all_objects(api), key=lambda pair: pair[1]["node"])] == ["worker-1", "worker-2"]
    files[0].unlink()
    made = api.run(*words)
    assert made.returncode == 0 and "may have expired or been used" in made.stderr, made.stderr
    assert files[0].read_text() != contents[0] and files[1].read_text() == contents[1]
    assert changes(api).count("create secrets") == 3


@pytest.mark.parametrize("names", ["worker-1\nbad_name\n", "worker-1\nworker-1\n", "", "worker-1\nWorker\n"])
def test_fleet_with_a_bad_name(api, tmp_path, names):
    """All names are checked before the first token is created."""
    put_cluster_info(api)
    (tmp_path / "nodes").write_text(names)
    made = api.run("token", "create", "--nodes", tmp_path / "nodes", "--output-dir", tmp_path)
    assert made.returncode == 65 and str(tmp_path / "nodes") in made.stderr
    assert "create secrets" not in changes(api)


def test_fleet_that_stops(api, tmp_path):
    """A second run continues."""
    put_cluster_info(api, signed=False)
    (tmp_path / "nodes").write_text("worker-1\nworker-2\n")
    names = iter(("create", "refuse"))
    sign = sign_with(api)
    api.on("create secrets", lambda request: sign(request) if next(names, "create") == "create" else status(500, "InternalError", "no"))
    words = ["token", "create", "--nodes", tmp_path / "nodes", "--output-dir", tmp_path, "--print=credential"]
    made = api.run(*words)
    assert made.returncode != 0 and "1 of 2" in made.stderr
    assert [path.name for path in tmp_path.glob("*.token")] == ["worker-1.token"]
    assert api.run(*words).returncode == 0
    assert len(list(tmp_path.glob("*.token"))) == 2


def test_configuration_with_one_id_twice(api, tmp_path):
    """Found before the first token is created."""
    entry = f'- {{token: "{TOKEN}"}}\n'
    (tmp_path / "config").write_text(f"apiVersion: kubeadm.k8s.io/v1beta3\nkind: InitConfiguration\nbootstrapTokens:\n{entry}{entry}")
    made = api.run("token", "create", "--config", tmp_path / "config")
    assert made.returncode == 65 and "'abcdef'" in made.stderr and SECRET not in made.stderr
    assert api.requests == []


# list and revoke

def test_list_masks_and_escapes(api):
    """A Secret that is not a token does not hide the others; text of the cluster cannot control the terminal."""
    put_token(api, description="a\x1b[31mb")
    put_token(api, "ghijkl", **{"token-secret": "SHORT"})
    for output in ("text", "json", "yaml"):
        made = api.run("token", "list", "-o", output)
        assert made.returncode == 0 and "abcdef.****************" in made.stdout and "ghijkl" in made.stderr
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
    made = api.run("token", "delete", "abcdef", f"ABCDEF.{SECRET}")
    assert made.returncode == 64 and SECRET not in made.stderr
    assert api.requests == []
