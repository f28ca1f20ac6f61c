# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap setup on real machines: from a pasted `kubeadm join` to a node, and from one set of values to another."""

import json
import re
import signal
import stat

import pytest

from common.failures import FAILURES
from common.wait import PATIENCE, until
from .harness import controlplane
from .harness.leaks import Sampler, forms, found_in
from .harness.machine import descendants
from .harness.node import CURRENT, GATE, KUBECONFIG, STATE, TOKEN, UNIT, settings

DOCUMENT = "/etc/node-bootstrap/config.yaml.d/50-setup.yaml"
WRONG_PIN = "sha256:" + 64 * "0"


@pytest.fixture
def fresh(new_node):
    """A booted machine with the package and an enabled kubelet, and nothing else."""
    node = new_node()
    node.boot("--unit=basic.target")
    return node


def set_up(node, words, check=True, stdin=None):
    """As typed into a shell."""
    done = node.run("sh", "-c", f"node-bootstrap setup {words}", check=False, stdin=stdin)
    assert done.returncode == 0 or not check, done.stdout
    return done


def failed(done, code):
    row = FAILURES[code]
    assert done.returncode == int(row["exit"]), done.stdout
    assert f"node-bootstrap: {code}: " in done.stdout
    return done.stdout


def to(cluster, token=None, pin=None):
    return f"{cluster.front.endpoint} --token {token or cluster.token()} --discovery-token-ca-cert-hash {pin or cluster.ca.pin}"


def mode(node, path):
    found = node.path(path).lstat()
    return stat.filemode(found.st_mode), found.st_uid, found.st_gid


def test_pasted_command_makes_a_node(fresh, cluster):
    command = cluster.join_command()
    token = command.split("--token ")[1].split()[0]
    said = set_up(fresh, command).stdout
    fresh.await_kubelet()
    cluster.await_node(fresh.name)
    assert fresh.is_active(UNIT) and fresh.show(UNIT, "UnitFileState") == "enabled"
    assert token not in said and token[:6] not in fresh.read(DOCUMENT).decode()
    assert "--token-file" in said, "the warning says what to use instead"
    assert f"wrote    {DOCUMENT}" in said and f"wrote    {TOKEN}" in said
    assert "\n* Joined the cluster at " in said, "the status of the service is shown"
    assert mode(fresh, TOKEN) == ("-rw-------", 0, 0) and mode(fresh, "/etc/credstore") == ("drwx------", 0, 0)
    assert mode(fresh, DOCUMENT) == ("-rw-r--r--", 0, 0)
    assert fresh.read(TOKEN).decode() == token


def test_configuration_of_kubelet(fresh, cluster):
    """It is missing, which setup says before the join; then it is copied from the cluster."""
    cluster.upload_kubelet_config(fresh)
    fresh.path("/var/lib/kubelet/config.yaml").unlink()
    line = to(cluster)
    said = set_up(fresh, line, check=False).stdout
    assert said.index("'/var/lib/kubelet/config.yaml' is missing") < said.index("--kubelet-config-from=cluster") < said.index(f"enabled  {UNIT}")
    commands = re.findall("`([^`]*)`", said[:said.index(f"enabled  {UNIT}")])
    assert commands[-2:] == ["node-bootstrap setup - --kubelet-config-from=cluster --force --no-start", f"systemctl restart {UNIT}"]
    assert f"wrote    {DOCUMENT}" in fresh.run("sh", "-c", commands[-2], stdin=line).stdout
    fresh.run("sh", "-c", commands[-1])
    fresh.await_kubelet()
    assert fresh.exists("/var/lib/kubelet/config.yaml")
    cluster.await_node(fresh.name)


def test_kubelet_that_ended_again_and_again(fresh, cluster):
    """As after the installation of kubelet's package: without a kubeconfig it ends, which is no failure of the join."""
    fresh.run("systemctl", "start", "--no-block", "kubelet.service")
    until(lambda: int(fresh.show("kubelet.service", "NRestarts")) > 0, "kubelet was restarted")
    until(lambda: fresh.show("kubelet.service", "SubState") == "auto-restart", "kubelet has ended")
    assert "kubelet is running" in set_up(fresh, to(cluster)).stdout
    cluster.await_node(fresh.name)


def test_wait_for_the_node(fresh, cluster):
    line = to(cluster)
    said = set_up(fresh, f"{line} --wait=node").stdout
    assert "\nkubelet is running\n" in said and said.endswith(f"\nNode '{fresh.name}' is registered\n") and cluster.find(f"/api/v1/nodes/{fresh.name}")
    cluster.delete_node(fresh.name)
    failed(set_up(fresh, f"{line} --wait=node --wait-timeout=5s", check=False), "node-deleted")
    done = set_up(fresh, f"--json {line} --wait=node --wait-timeout=1s 2>/dev/null", check=False)
    result = json.loads(done.stdout)
    assert result["failure"]["code"] == "node-deleted" and result["exitStatus"] == done.returncode and not result["changed"]
    fresh.run("systemctl", "restart", "kubelet.service")
    set_up(fresh, f"{line} --wait=node")


def test_kubelet_that_is_active_and_does_nothing(fresh, cluster):
    line = to(cluster)
    set_up(fresh, line)
    kubelet = str(fresh.kubelet_pid())
    fresh.run("kill", "-STOP", kubelet)
    said = failed(set_up(fresh, f"{line} --wait-timeout=5s", check=False), "kubelet-down")
    assert "/healthz" in said and "kubelet is running" not in said
    assert "cannot read kubelet's health" in fresh.run("node-bootstrap", "check", check=False).stdout
    watching = fresh.start("node-bootstrap", "setup", *line.split())
    until(lambda: set(fresh.run("ps", "-C", "node-bootstrap", "-o", "user=", check=False).stdout.split()) - {"root"}, "setup asks kubelet in a child")
    fresh.run("pkill", "-INT", "--oldest", "-f", "node-bootstrap setup")
    assert watching.wait(PATIENCE) == 143
    fresh.run("systemctl", "restart", "kubelet.service")
    assert set_up(fresh, line).stdout.endswith("kubelet is running\n")


# kubelet ends because of the first one; with the second one, it runs and asks the API server again and again.
REFUSED = {"by kubelet": "kubernetes.io/role=x", "by the API server": f"example.com/x={64 * 'a'}"}


@pytest.mark.parametrize("who", REFUSED)
def test_labels_that_are_refused(fresh, cluster, who):
    """Correct settings repair the node. Later labels do not reach a Node that exists: setup says so."""
    flags, once = "/var/lib/kubelet/kubeadm-flags.env", "labels and provider ID count only when kubelet creates the Node; "

    def set_labels(words, options=""):
        fresh.write("/root/join.yaml", settings(cluster, kubelet={"extraArgs": [f"node-labels={words}"]}), 0o600)
        return set_up(fresh, f"--config=/root/join.yaml {options}", check=False)

    fresh.give(cluster.token())
    assert set_labels(REFUSED[who], "--wait=certificate").returncode == 0
    if who == "by kubelet":
        until(lambda: int(fresh.show("kubelet.service", "NRestarts")) > 0, "kubelet has ended")
    else:
        fresh.await_kubelet()
        kubelet = fresh.kubelet_pid()
    assert not cluster.node(fresh.name)
    failed(set_labels("example.com/x=y"), "setup-conflict")
    done = set_labels("example.com/x=y", "--force")
    assert done.returncode == 0 and f"writes '{flags}' again" in done.stdout and once in done.stdout, done.stdout
    assert b"--node-labels=example.com/x=y" in fresh.read(flags)
    if who != "by kubelet":
        assert fresh.kubelet_pid() == kubelet, "kubelet is not restarted"
        fresh.run("systemctl", "restart", "kubelet.service")
    assert cluster.await_node(fresh.name)["metadata"]["labels"]["example.com/x"] == "y"
    fresh.write(flags, fresh.read(flags).decode().replace('ARGS="', 'ARGS="--v=1 '))
    said = set_labels("example.com/x=z", "--force").stdout
    assert "add --node-labels=example.com/x=z, and remove --node-labels=example.com/x=y in KUBELET_KUBEADM_ARGS" in said and once in said
    assert b"--v=1" in fresh.read(flags) and b"x=z" not in fresh.read(flags)


def test_token_from_a_file_and_from_standard_input(new_node, cluster):
    for words, by_stdin in (("--token-file=/root/token", False), ("--token-file=-", True)):
        node, token = new_node(), cluster.token()
        node.boot("--unit=basic.target")
        node.write("/root/token", f"{token}\n", 0o600)
        said = set_up(node, f"{words} --endpoint={cluster.front.endpoint} --ca-cert-hash={cluster.ca.pin} --node-name={node.name}-x --wait-timeout=5m",
                     stdin=f"{token}\n" if by_stdin else "").stdout
        assert "command line" not in said
        cluster.await_node(f"{node.name}-x")


def test_token_is_nowhere(fresh, cluster):
    """Not in files that others can read, not in the journal, and in no command line except briefly that of setup."""
    token = cluster.token(controlplane.MANUAL_GROUP)
    fresh.forms = forms(token)
    fresh.write("/root/join", f"exec node-bootstrap setup kubeadm join {to(cluster, token)}\n", 0o600)
    watching = fresh.start("sh", "/root/join")
    inside = fresh.pids
    fresh.pids = lambda: [*inside(), *descendants(watching.pid)]
    sampler = Sampler(fresh)
    try:
        fresh.await_status("waiting for approval")
        fresh.path("/root/join").unlink()
        sampler.start()
        until(lambda: b"node-bootstrap" in sampler.programs, "setup is seen")
        cluster.kubectl("certificate", "approve", cluster.await_csr(fresh.name)["metadata"]["name"])
        assert watching.wait(PATIENCE) == 0
        fresh.await_kubelet()
    finally:
        found = sampler.finish() if sampler.ident else []
        watching.kill()
    assert not found, "nor is it in that of setup, which goes on all that time"
    shown = fresh.run("sh", "-c", f"systemctl show {UNIT}; journalctl --all --output=export").stdout + watching.stdout.read()
    assert not any(form.decode() in shown for form in fresh.forms)
    assert not found_in(fresh)


def test_second_setup(fresh, cluster):
    first, second = cluster.token(), cluster.token()
    set_up(fresh, to(cluster, first))
    fresh.await_kubelet()
    before = {path: fresh.read(path) for path in (DOCUMENT, TOKEN)}
    done = set_up(fresh, to(cluster, first))
    assert "already joined (" in done.stdout and "this machine has joined" in done.stdout
    changed = to(cluster, second, WRONG_PIN) + " --cri-socket=unix:///run/c.sock"
    said = failed(set_up(fresh, changed, check=False), "setup-other-cluster")
    assert f'discovery.caCertHashes: ["{cluster.ca.pin}"] -> ["{WRONG_PIN}"]' in said
    assert 'kubelet.criSocket: (not set) -> "unix:///run/c.sock"' in said and "joined another cluster" in said
    assert f"node-bootstrap.token: token {first.id} -> token {second.id}" in said
    assert first.secret not in said and second.secret not in said
    assert {path: fresh.read(path) for path in before} == before
    kubelet = fresh.kubelet_pid()
    said = set_up(fresh, changed + " --force").stdout
    assert "this machine has joined" in said and "starts next" in said
    assert fresh.kubelet_pid() == kubelet, "a node that is up stays up"
    assert WRONG_PIN in fresh.read(DOCUMENT).decode() and fresh.read(TOKEN).decode() == str(second)


def test_fresh_token_on_a_joined_machine(fresh, cluster):
    """As a tool for configuration management runs it each time, with a new token."""
    set_up(fresh, to(cluster))
    fresh.await_kubelet()
    fresh.path(TOKEN).unlink()
    before, kubelet = fresh.read(DOCUMENT), fresh.kubelet_pid()
    for options in ("", " --dry-run"):
        said = set_up(fresh, to(cluster) + options).stdout
        assert "already joined (" in said and "the token was not written" in said and "; nothing to write" in said
        assert not fresh.exists(TOKEN) and fresh.read(DOCUMENT) == before and fresh.kubelet_pid() == kubelet
    said = failed(set_up(fresh, to(cluster).replace(cluster.front.endpoint, "192.0.2.1:6443"), check=False), "setup-conflict")
    assert f'discovery.endpoints: ["{cluster.front.endpoint}"] -> ["192.0.2.1:6443"]' in said and fresh.read(DOCUMENT) == before
    fresh.run("systemctl", "disable", "--quiet", UNIT)
    said = set_up(fresh, to(cluster)).stdout
    assert "already joined (" in said and f"enabled  {UNIT}\n" in said
    assert fresh.show(UNIT, "UnitFileState") == "enabled" and not fresh.exists(TOKEN)


def test_line_of_kubeadm_from_standard_input(fresh, cluster):
    command = cluster.join_command()
    said = set_up(fresh, "-", stdin=command.replace(" --discovery", " \\\n\t--discovery") + " \n").stdout
    cluster.await_node(fresh.name)
    token = command.split("--token ")[1].split()[0]
    assert "command line" not in said and token not in said and fresh.read(TOKEN).decode() == token


def test_watch_ends_and_the_service_goes_on(fresh, cluster):
    """With the reason, its remedy and its exit status: automation must not hang on a token that has expired."""
    token = cluster.fresh_token()
    said = failed(set_up(fresh, to(cluster, token) + " --wait-timeout=15s", check=False), "token-unknown")
    assert f"{UNIT} keeps running" in said and said.count(f"the ID {token.id} with") == 2, "while it waits, and at the end"
    assert fresh.show(UNIT, "ActiveState") == "activating"
    said = fresh.run("node-bootstrap", "status", check=False).stdout
    assert f"the ID {token.id} with" in said and "(token-unknown)" in said
    said = failed(set_up(fresh, to(cluster, token) + " --wait-timeout=3s", check=False), "token-unknown")
    assert said.count(f"the ID {token.id} with") >= 2, "the second one says it as well, at its beginning and at its end"
    cluster.token(token=token)
    assert "nothing to write" in set_up(fresh, to(cluster, token) + " --wait-timeout=infinity").stdout
    cluster.await_node(fresh.name)


def test_failure_is_shown_and_mended(fresh, cluster):
    token = cluster.token()
    said = failed(set_up(fresh, to(cluster, token, WRONG_PIN), check=False), "ca-pin-mismatch")
    assert cluster.ca.pin in said and "openssl x509 -pubkey" in said, "sentence and remedy"
    assert fresh.show(UNIT, "ActiveState") == "failed" and not fresh.kubelet_was_started()
    assert f'discovery.caCertHashes: ["{WRONG_PIN}"] -> ["{cluster.ca.pin}"]' in set_up(fresh, to(cluster, token)).stdout
    cluster.await_node(fresh.name)


def test_service_that_is_masked_or_stopped(fresh, cluster):
    words = to(cluster, cluster.token(controlplane.MANUAL_GROUP))
    fresh.run("systemctl", "mask", UNIT)
    assert "is masked" in failed(set_up(fresh, words, check=False), "unit-masked")
    fresh.run("systemctl", "unmask", UNIT)
    watching = fresh.start("node-bootstrap", "setup", *words.split())
    fresh.await_status("waiting for approval")
    fresh.run("systemctl", "stop", UNIT)
    said, _ = watching.communicate(timeout=PATIENCE)
    code = "setup-unfinished"
    assert watching.returncode == int(FAILURES[code]["exit"]) and f"node-bootstrap: {code}: " in said, said
    assert not fresh.kubelet_was_started()


def test_same_values_start_a_unit_that_failed(fresh, cluster):
    token = cluster.fresh_token()
    words = to(cluster, token)
    fresh.write("/etc/node-bootstrap/config.yaml", "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\ntimeout: 20s\n")
    said = failed(set_up(fresh, words, check=False), "token-unknown")
    assert token.id in said and token.secret not in said
    cluster.token(token=token)
    assert "nothing to write" in set_up(fresh, words).stdout
    cluster.await_node(fresh.name)


def test_interrupt_ends_the_watch_and_not_the_join(fresh, cluster):
    token = cluster.token(controlplane.MANUAL_GROUP)
    fresh.write("/root/token", str(token), 0o600)
    watching = fresh.start("node-bootstrap", "setup", cluster.front.endpoint, "--token-file=/root/token", f"--ca-cert-hash={cluster.ca.pin}")
    shown = ""
    while "is waiting for approval" not in shown:
        line = watching.stdout.readline()
        assert line, shown
        shown += line
    inside = until(lambda: fresh.run("pgrep", "-f", "node-bootstrap setup", check=False).stdout.split(), "setup is there")
    fresh.run("kill", f"-{signal.SIGINT.name.removeprefix('SIG')}", *inside)
    assert watching.wait(PATIENCE) == 143
    said = watching.stdout.read()
    assert "the join continues" in said
    assert fresh.show(UNIT, "ActiveState") == "activating"
    other = cluster.token(controlplane.MANUAL_GROUP)
    shown, watching = "", fresh.start("script", "--quiet", "--return", "--command", f"node-bootstrap setup {to(cluster, other)} --force", "/dev/null")
    while not re.search(r"the CSR 'node-csr-\S+' is waiting for approval", shown):
        line = watching.stdout.readline()
        assert line, shown
        shown += line
    assert fresh.said("stopped"), "the service is started again"
    until(lambda: len(cluster.csrs(fresh.name)) == 2, "the request with the new token")
    cluster.kubectl("certificate", "approve", *[csr["metadata"]["name"] for csr in cluster.csrs(fresh.name)])
    assert watching.wait(PATIENCE) == 0
    said = shown + watching.stdout.read()
    assert f"token {token.id} -> token {other.id}" in said and other.secret not in said and "stopped before" not in said
    assert [entry["NODE_BOOTSTRAP_TOKEN_ID"] for entry in fresh.entries("installed")] == [other.id]


def test_before_the_first_boot(new_node, cluster):
    """In a root without a running systemd, and in an image."""
    node = new_node()
    words = to(cluster).split()
    done = node.run_offline("node-bootstrap", "setup", "--no-start", *words)
    assert not done or "was not started" in str(done)
    assert node.exists("/etc/systemd/system/kubelet.service.requires/" + GATE)
    node.boot()
    node.await_kubelet()
    cluster.await_node(node.name)


def test_settings_that_take_precedence_are_named(fresh, cluster):
    fresh.write("/etc/node-bootstrap/config.yaml.d/60-site.yaml", f"apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\ndiscovery: {{caCertHashes: ['{WRONG_PIN}']}}\n")
    said = failed(set_up(fresh, to(cluster), check=False), "usage")
    assert "60-site.yaml" in said and "discovery.caCertHashes" in said
    assert not fresh.exists(TOKEN) and not fresh.exists(DOCUMENT)


def ours(node):
    return [path for path in node.joined_files() if not path.startswith(STATE) and not path.endswith(".d/10-node-bootstrap.conf")]


def test_reset_and_join_again(fresh, cluster):
    words = to(cluster)
    set_up(fresh, words)
    cluster.await_node(fresh.name)
    before = ours(fresh)
    done = fresh.run("node-bootstrap", "reset", check=False)
    failed(done, "kubelet-active")
    assert ours(fresh) == before and fresh.is_active(UNIT)
    fresh.run("systemctl", "stop", "kubelet.service")
    said = fresh.run("node-bootstrap", "reset").stdout
    assert ours(fresh) == [] and fresh.state_files() == []
    assert fresh.show(UNIT, "ActiveState") == "inactive" and "stopped  " + UNIT in said
    assert f"kubectl delete node {fresh.name}" in said and "reset --all" in said
    assert fresh.exists(DOCUMENT) and fresh.exists(TOKEN)
    first = cluster.csrs(fresh.name)
    assert "nothing to write" in set_up(fresh, words).stdout
    fresh.await_kubelet()
    assert len(cluster.csrs(fresh.name)) == len(first) + 1, "a key of its own for each join"


def test_reset_with_everything(fresh, cluster):
    set_up(fresh, to(cluster))
    fresh.await_kubelet()
    fresh.write("/etc/node-bootstrap/config.yaml", "discovery: {endpoint: [misspelt]}\n")
    said = fresh.run("node-bootstrap", "reset", "--stop-kubelet", "--all").stdout
    fresh.path("/etc/node-bootstrap/config.yaml").unlink()
    assert "stopping kubelet.service\nstopped  kubelet.service\n" in said and not fresh.is_active("kubelet.service")
    assert ours(fresh) == [] and fresh.show(UNIT, "UnitFileState") == "disabled"
    assert not [path for path in (DOCUMENT, TOKEN) if fresh.exists(path)]
    said = fresh.run("node-bootstrap", "reset").stdout
    assert "has not joined this machine" in said
    assert "paste the whole line" in failed(set_up(fresh, "--wait-timeout=5m", check=False), "usage")


def test_other_join_methods(new_node, cluster):
    """A kubeadm configuration, a discovery file on standard input, and a kubeconfig instead of a token."""
    token = cluster.token()
    join_configuration = f"""
apiVersion: kubeadm.k8s.io/v1beta3
kind: JoinConfiguration
discovery: {{bootstrapToken: {{token: {token}, apiServerEndpoint: "{cluster.front.endpoint}", caCertHashes: ["{cluster.ca.pin}"]}}}}
nodeRegistration: {{taints: [{{key: dedicated, value: gpu, effect: NoSchedule}}]}}
"""
    kubeconfig = controlplane.kubeconfig(f"https://{cluster.front.endpoint}", cluster.ca.pem, token=cluster.token())
    for words, name, text, stdin in (
        ("--config=/root/join.yaml", "/root/join.yaml", join_configuration, ""),
        ("--discovery-file=- --token-file=/root/token", "/root/token", str(token), cluster.cluster_info()["kubeconfig"]),
        ("--bootstrap-kubeconfig=/root/kubeconfig", "/root/kubeconfig", kubeconfig, ""),
    ):
        node = new_node()
        node.boot("--unit=basic.target")
        node.write(name, text, 0o600)
        set_up(node, words, stdin=stdin)
        made = cluster.await_node(node.name)
        assert words.startswith("--config") == bool([taint for taint in made["spec"].get("taints", []) if taint["key"] == "dedicated"])


def test_kubelet_that_ran_before(fresh, cluster):
    """It is restarted, since what it has read was replaced."""
    fresh.drop_in("kubelet.service", "[Service]\nType=simple\nExecStart=\nExecStart=/bin/sleep infinity\n")
    fresh.run("systemctl", "start", "kubelet.service")
    before = fresh.kubelet_pid()
    words = to(cluster) + " --wait=certificate"
    assert "restarting kubelet.service, which was running before the join" in set_up(fresh, words).stdout
    until(lambda: fresh.kubelet_pid() not in (0, before), "another kubelet runs")
    after = fresh.kubelet_pid()
    assert "restarting" not in set_up(fresh, words).stdout and fresh.kubelet_pid() == after
