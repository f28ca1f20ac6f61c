# SPDX-License-Identifier: Apache-2.0
"""First boot with Debian's cloud-init and the cloud-config of packaging/examples: a node, and no ordering cycle of units."""

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from common import SOURCE, documentation, terraform
from common.wait import until
from .harness.first_boot import SEED
from .harness.node import GATE, KUBECONFIG, TOKEN, UNIT, example

EXAMPLES = SOURCE / "packaging/examples"


def fresh(new_node, layers, cluster):
    """A machine that has only its seed: the example, and an SSH key."""
    node, token, key = new_node(layers=layers), str(cluster.token()), ed25519.Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    user_data = example("cloud-config.yaml", {
        r"abcdef\.0123456789abcdef": token, r"10\.0\.0\.10:6443": cluster.front.endpoint, r"sha256:[0-9a-f]{64}": cluster.ca.pin,
    })
    node.write(f"{SEED}/user-data", user_data + yaml.safe_dump({"ssh_authorized_keys": [public]}), 0o600)
    node.write(f"{SEED}/meta-data", example("nocloud/meta-data", {r"node-1": node.name}))
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    node.write("/root/key", private, 0o600)
    assert not node.exists(TOKEN) and not node.exists(f"/etc/systemd/system/kubelet.service.requires/{GATE}")
    node.secret = token.split(".")[1]
    return node


def log_in(node):
    """As an ordinary user; /run/nologin refuses logins during the boot."""
    options = ("-i", "/root/key", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR")
    return node.run("ssh", *options, "debian@127.0.0.1", "id", "-un", check=False).stdout.strip()


def cycles(node):
    """systemd's messages about the order of units, of this boot and of the next one."""
    said = [line for line in node.journal_text("--boot", "_PID=1").splitlines() if "cycle" in line]
    verified = node.run("systemd-analyze", "--man=no", "--generators=yes", "verify", "default.target", check=False).stdout
    return said + [line for line in verified.splitlines() if "cycle" in line]


def jobs(node):
    """Unit and state of each job that is queued."""
    lines = node.run("systemctl", "list-jobs", "--no-legend").stdout.splitlines()
    return {words[1]: words[3] for words in map(str.split, lines)}


def test_first_boot(new_node, cluster, with_cloud_init):
    node = fresh(new_node, with_cloud_init, cluster)
    node.boot()
    cluster.await_node(node.name)
    done = node.run("cloud-init", "status", "--wait", "--long", check=False)
    assert done.returncode == 0 and "status: done" in done.stdout and "DataSourceNoCloud" in done.stdout, done.stdout
    assert node.is_active(UNIT) and node.is_active("multi-user.target")
    joined, started = (int(node.show(*what)) for what in ((UNIT, "ActiveEnterTimestampMonotonic"), ("kubelet.service", "ExecMainStartTimestampMonotonic")))
    assert joined < started, "kubelet was started before the machine had joined"
    assert len(cluster.csrs(node.name)) == 1
    assert cycles(node) == []

    token_is_with_root_alone(node)
    node.reboot()
    node.await_kubelet()
    assert node.said("already-joined") and node.exists(KUBECONFIG)

    # The rule is looked at by something that sees when it is broken.
    node.drop_in(UNIT, "[Unit]\nAfter=cloud-init.target\n")
    assert cycles(node)


def token_is_with_root_alone(node):
    """The token is in its file and in cloud-init's copies of the user data, and nowhere that others can read."""
    search = ("grep", "-rlsF", node.secret, "/etc", "/var", "/run", "/tmp", "/home", "/root")
    found = node.run(*search, check=False).stdout.split()
    assert TOKEN in found and f"{SEED}/user-data" in found
    folders = ("/etc/credstore/", "/var/lib/cloud/", "/run/cloud-init/", "/run/credentials/")
    assert [path for path in found if not path.startswith(folders)] == []
    nobody = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
    assert node.run(*nobody, *search, check=False).stdout == ""
    assert oct(node.path("/etc/credstore").stat().st_mode)[-4:] == "0700"


VALUES = {"node": "worker-1", "token": "abcdef.0123456789abcdef", "endpoint": "10.0.0.10:6443", "pin": "sha256:" + "ab" * 32}
DOCUMENTED = {"terraform": terraform.render("cloud-init", VALUES), **{str(found): found.text for found in documentation.examples("cloud-config")}}


@pytest.mark.each_release
@pytest.mark.parametrize("name", ["cloud-config.yaml", *DOCUMENTED])
def test_examples_are_valid(new_node, with_cloud_init, name):
    """According to cloud-init itself, which finds invalid keys."""
    node, text = new_node(layers=with_cloud_init), DOCUMENTED.get(name) or (EXAMPLES / name).read_text()
    for found, content in (("good", text), ("bad", text + "write_files: {}\n")):
        node.write(f"/root/{found}.yaml", content)
    node.run_offline("cloud-init", "schema", "--config-file", "/root/good.yaml")
    with pytest.raises(RuntimeError, match="is not of type"):
        node.run_offline("cloud-init", "schema", "--config-file", "/root/bad.yaml")


@pytest.mark.each_release
def test_user_data_of_node_bootstrap(new_node, with_cloud_init, world):
    """docs/first-boot.md: the key is for images without cloud-init. Debian 12's ignores it, Debian 13's calls it invalid."""
    node = new_node(layers=with_cloud_init)
    check = ("cloud-init", "schema", "--config-file", "/root/config.yaml")
    for text in ((EXAMPLES / "nocloud/user-data").read_text(), terraform.render("node-bootstrap", VALUES)):
        node.write("/root/config.yaml", text)
        if world.is_other_release:
            with pytest.raises(RuntimeError, match="node_bootstrap: Additional properties are not allowed"):
                node.run_offline(*check)
        else:
            node.run_offline(*check)


def test_printed_config(new_node, cluster, with_cloud_init, printed):
    """What `node-bootstrap-admin token create --print=cloud-config` prints; its bootcmd is that of the example."""
    node = new_node(layers=with_cloud_init)
    text, token = printed("cloud-config", f"--node={node.name}")
    node.write("/root/config.yaml", text, 0o600)
    node.run_offline("cloud-init", "schema", "--config-file", "/root/config.yaml")
    node.run_offline("cloud-init", "--file", "/root/config.yaml", "single", "--name", "write_files", "--frequency", "always")
    node.assert_holds(token, node={"name": node.name})
    example_of_it = yaml.safe_load((EXAMPLES / "cloud-config.yaml").read_text())
    assert yaml.safe_load(text)["bootcmd"] == example_of_it["bootcmd"]


@pytest.mark.parametrize("drop_in", [None, "multi-user.conf"], ids=["as shipped", "with the drop-in"])
def test_api_server_is_away(new_node, cluster, with_cloud_init, drop_in):
    """Users can log in while the machine waits; units after multi-user.target wait as well, unless the drop-in is installed."""
    node = fresh(new_node, with_cloud_init, cluster)
    if drop_in:
        node.drop_in("kubelet.service", (EXAMPLES / drop_in).read_text(), drop_in)
    try:
        cluster.front.refuse()
        node.boot()
        until(lambda: node.said("endpoint-refused"), "the journal says that the server is away")
        until(lambda: log_in(node) == "debian", "a user logs in")
        for unit in ("cloud-init-local", "cloud-init", "cloud-config", "systemd-user-sessions", "ssh"):
            assert node.is_active(f"{unit}.service"), unit
        if drop_in:
            until(lambda: node.is_active("cloud-final.service") and node.is_active("cloud-init.target"), "cloud-init ends")
            assert node.is_active("multi-user.target") and "status: done" in node.run("cloud-init", "status").stdout
        waiting = jobs(node)
        assert waiting[UNIT] == "running" and waiting["kubelet.service"] == "waiting" and not node.kubelet_was_started()
        late = {unit: state for unit, state in waiting.items() if unit in ("multi-user.target", "cloud-final.service", "cloud-init.target")}
        assert late == ({} if drop_in else dict.fromkeys(("multi-user.target", "cloud-final.service", "cloud-init.target"), "waiting"))
    finally:
        cluster.front.listen()
    node.await_kubelet()
    until(lambda: node.is_active("cloud-final.service") and node.is_active("multi-user.target"), "the boot ends")
    assert cycles(node) == []
