# SPDX-License-Identifier: Apache-2.0
"""Virtual machines that boot and join with data of a hypervisor or cloud alone; no file in them was prepared."""

import base64
import hashlib
import json
import re

import pytest
import yaml
from cryptography import x509

from common import SOURCE, metadata
from common.wait import until
from .harness import controlplane, network
from .harness.node import CURRENT, KUBECONFIG, PKI, UNIT, settings
from .harness.vm import LATE, Template, Vm

pytestmark = pytest.mark.nightly

PLATFORM = "node-bootstrap-platform.service"
RUN = "/run/node-bootstrap-platform"
RECORD = f"{PKI}/node-bootstrap.json"


@pytest.fixture(scope="module")
def template(world):
    return Template(world.work, world.kernel, world.layer, world.base)


@pytest.fixture
def new_vm(world, template):
    made = []
    yield lambda name: made.append(Vm(world.work, template, name)) or made[-1]
    for vm in made:
        vm.close()


def joined_by(vm, cluster, token, name):
    """kubelet was started after the machine received the certificate of this node with this token."""
    vm.await_kubelet()
    until(lambda: vm.run(f"systemctl is-active {UNIT} node-joined.target", check=False).split() == ["active", "active"], "both are active")
    certificate = x509.load_pem_x509_certificate(vm.run(f"cat {CURRENT}").encode())
    assert certificate.subject.rfc4514_string() == f"CN=system:node:{name},O=system:nodes"
    [entry] = yaml.safe_load(vm.run(f"cat {KUBECONFIG}"))["clusters"]
    assert entry["cluster"]["server"] == f"https://{cluster.front.endpoint}"
    assert [csr["spec"]["username"] for csr in cluster.csrs(name)] == [f"system:bootstrap:{token.id}"]
    assert token.secret not in vm.run("journalctl --all --output=export")


def document(cluster, provider_id=True, **sections):
    """The settings for a cluster as in metadata, with the node name from the cloud."""
    return yaml.safe_load(settings(cluster, metadata={"nodeName": True, "providerID": provider_id}, **sections))


def entries(vm, unit):
    return [json.loads(line)["MESSAGE"] for line in vm.run(f"journalctl --output=json --unit={unit}").splitlines()]


def logs_on_the_console(vm):
    """By the example's drop-in, inside the sandbox, on a real /dev/console: that of a container is a pseudo-terminal."""
    folder = f"/etc/systemd/system/{UNIT}.d"
    text = (SOURCE / "packaging/examples/console.conf").read_text()
    vm.run(f"systemctl stop kubelet.service\nmkdir -p {folder}\ncat >{folder}/console.conf <<'END'\n{text}END\n"
           f"systemctl daemon-reload\nsystemctl restart {UNIT}")
    until(lambda: "node-bootstrap-install: node 'hypervisor' has already joined" in vm.console(), "the message is on the console")


def test_credentials_of_the_hypervisor(new_vm, cluster):
    """Three credentials by three means, all needed for the join. Secrets are not in QEMU's command line.

    Credentials take precedence over a volume with other values: it is read, but not used."""
    signing, asking = cluster.token(controlplane.POWERLESS_GROUP), cluster.token(signing=False)
    vm = new_vm("hypervisor")
    text = vm.file("text", f"io.systemd.credential:node-bootstrap.tls-bootstrap-token={asking}")
    config = base64.b64encode(settings(cluster).encode()).decode()
    other = yaml.safe_dump(document(cluster, bootstrap={"token": str(cluster.fresh_token())}))
    vm.boot(
        "-fw_cfg", f"name=opt/io.systemd.credentials/node-bootstrap.token,file={vm.file('token', str(signing))}",
        "-smbios", f"type=11,path={text}", "-smbios", f"type=11,value=io.systemd.credential.binary:node-bootstrap.config={config}",
        *vm.fat_volume("CIDATA", {"user-data": other, "meta-data": "local-hostname: other\n"}),
    )
    joined_by(vm, cluster, asking, vm.name)
    assert f"volume 'cidata': {len(other)} bytes of user data, 22 bytes of metadata" in entries(vm, PLATFORM)
    assert not any("metadata" in line for line in entries(vm, UNIT))
    logs_on_the_console(vm)


def test_config_drive(new_vm, cluster):
    """OpenStack's: the token as metadata of the instance, the settings in a cloud-config that other tools read as well.

    On a slow machine the network is up before udev has named the volume. The join waits for udev."""
    token = cluster.token()
    vm = new_vm("drive")
    about = {"uuid": "8bb7a1c9-0d4f-4c47-a6f1-c5ad0c1d8a6a", "name": "Pool-1", "hostname": "pool-1.novalocal", "meta": {"node-bootstrap-token": str(token)}}
    user_data = "#cloud-config\n" + yaml.safe_dump({"package_update": False, "node_bootstrap": document(cluster)})
    files = {"openstack/latest/meta_data.json": json.dumps(about), "openstack/latest/user_data": user_data}
    vm.boot(*vm.firmware(metadata.OpenStack.dmi), *vm.volume("config-2", files), arguments=[LATE])
    joined_by(vm, cluster, token, "pool-1")
    assert {"--hostname-override=pool-1", f"--provider-id=openstack:///{about['uuid']}"} <= set(vm.kubelet_arguments())
    left = vm.run(f"find {RUN} -type f -printf '%M %u %f\\n'").splitlines()
    assert sorted(left) == [f"-rw------- root {name}" for name in ("meta-data", "platform.json", "user-data")]


FLOOD = """#!/usr/bin/perl
my $name = "x";
while ((my $fd = syscall(319, $name, 0)) >= 0) { open(my $file, ">&=", $fd); push @files, $file; syswrite($file, "x" x 4194304) }
sleep
"""


def spares_install(vm):
    """The kernel kills join, which fills the memory of the unit with files that belong to no process. Containers enforce no limit here."""
    program, drop_in = "/usr/bin/node-bootstrap", f"/run/systemd/system/{UNIT}.d"
    vm.run(f"node-bootstrap reset --stop-kubelet\nmkdir {drop_in}\nprintf '[Service]\\nMemoryMax=64M\\n' >{drop_in}/limit.conf\n"
           f"systemctl daemon-reload\ncat >{program} <<'END'\n{FLOOD}END\nsystemctl start {UNIT} || :")
    said = until(lambda: "Killed process" in (said := vm.run("journalctl --dmesg")) and said, "the limit is reached")
    assert set(re.findall(r"Killed process \d+ \((.+?)\)", said)) == {"node-bootstrap"}, said
    # The kernel lists the processes of the unit with their scores; the sweeper of install is another one.
    assert set(re.findall(r" (-?\d+) (install|node-bootstrap)$", said, re.M)) == {("-500", "install"), ("0", "node-bootstrap")}, said


HARDWARE = "5c2ef9a4-3f0a-4d6b-9f43-8a1f0e6b7c21"


def is_known_by_its_hardware(vm):
    """The UUID that the firmware tells is one of the facts that say which machine joined; containers have none of their own."""
    record = json.loads(vm.run(f"cat {RECORD}"))
    assert record["hardwareID"] == hashlib.sha256(HARDWARE.encode()).hexdigest()
    other = hashlib.sha256(b"other").hexdigest()
    for changed, status in ({"hardwareID"}, 0), ({"hardwareID", "machineID"}, 1), (set(), 0):
        text = json.dumps({**record, **dict.fromkeys(changed, other)})
        vm.run(f"cat >{RECORD} <<'END'\n{text}\nEND")
        assert vm.run("/usr/lib/node-bootstrap/install --gate 2>&1 >/dev/null; echo $?", check=False).split()[-1] == str(status), changed


def test_seed(new_vm, cluster):
    """NoCloud: one document with all settings."""
    token = cluster.token()
    vm = new_vm("seeded")
    user_data = yaml.safe_dump(document(cluster, provider_id=False, bootstrap={"token": str(token)}))
    vm.boot(*vm.volume("cidata", {"user-data": user_data, "meta-data": "instance-id: i-1\nlocal-hostname: seed-1\n"}), "-uuid", HARDWARE)
    joined_by(vm, cluster, token, "seed-1")
    assert "--hostname-override=seed-1" in vm.kubelet_arguments()
    is_known_by_its_hardware(vm)
    spares_install(vm)


@pytest.fixture
def aws():
    network.reach(metadata.Aws.address)
    service = metadata.Aws().start()
    yield service
    service.stop()
    network.lose(service.address)


def test_cloud(new_vm, cluster, aws):
    """Recognised by its firmware. node-bootstrap-platform.service has nothing to read."""
    token = cluster.token()
    vm = new_vm("instance")
    aws.user_data = yaml.safe_dump(document(cluster, bootstrap={"token": str(token)})).encode()
    vm.boot(*vm.firmware(aws.dmi))
    joined_by(vm, cluster, token, aws.node_name)
    assert {f"--hostname-override={aws.node_name}", f"--provider-id={aws.provider_id}"} <= set(vm.kubelet_arguments())
    assert aws.requests and aws.violations == []
    assert "ConditionResult=no" in vm.run(f"systemctl show --property=ConditionResult {PLATFORM}")
