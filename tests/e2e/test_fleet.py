# SPDX-License-Identifier: Apache-2.0
"""packaging/fleet: user data for a fleet, and a table that says why each machine has not joined. --fleet=N sets the number of machines."""

import contextlib
import os
import re
import signal
import subprocess
import time

import pytest

from common import pki
from common.documentation import commands
from common.prover import Prover
from common.wait import PATIENCE, until
from .harness import admin
from .harness.controlplane import CSRS, SECRETS, free_ports
from .harness.fleet import PROGRAM, FolderMachine

pytestmark = pytest.mark.nightly

INSTALLED = "/usr/share/doc/kube-node-bootstrap-admin/examples/fleet"
SPECIAL = ("taken", "unstarted", "expired", "renamed", "denied", "without-kubelet")


@pytest.fixture(scope="module")
def tree(world):
    """The files of the package."""
    made = world.work / "fleet-tree"
    subprocess.run(["dpkg-deb", "--extract", world.deb, made], check=True)
    return made


@pytest.fixture
def fleet(unattended_cluster, administer, admin_tree, tree, tmp_path):
    made = Fleet(unattended_cluster, administer(unattended_cluster), admin_tree, tree, tmp_path)
    yield made
    for machine in made.machines.values():
        machine.kill()


class Fleet:
    """An administrator's desk, and the machines."""

    def __init__(self, cluster, administrator, admin_tree, tree, folder):
        self.cluster, self.admin, self.tree, self.base = cluster, administrator, tree, folder
        self.script = admin_tree / INSTALLED[1:]
        self.folder, self.machines = folder / "fleet", {}
        # kubectl caches below $HOME.
        self.environment = {"PATH": f"{(admin_tree / admin.PROGRAM).parent}:{os.environ['PATH']}", "KUBECONFIG": str(cluster.work / "admin.conf"),
                            "HOME": str(folder)}

    def command(self, *words, before=(), stderr=subprocess.PIPE):
        return subprocess.Popen([*before, self.script, *words], env=self.environment, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=stderr, start_new_session=True)

    def run(self, *words, before=()):
        """(exit status, rows of the table, everything that it printed)."""
        process = self.command(*words, before=before)
        table, said = process.communicate(timeout=PATIENCE)
        return process.returncode, rows_of(table), table + said

    @contextlib.contextmanager
    def program_that_hangs(self, name):
        """It creates the token of this node, and does not print it."""
        folder, program = self.base / "stub", self.environment["PATH"].split(":")[0]
        folder.mkdir()
        stub = folder / "node-bootstrap-admin"
        stub.write_text(f"""#!/bin/sh
case "$*" in
*--node={name}*) {program}/node-bootstrap-admin "$@" >/dev/null; sleep 600 ;;
*) exec {program}/node-bootstrap-admin "$@" ;;
esac
""")
        stub.chmod(0o755)
        before = self.environment["PATH"]
        self.environment["PATH"] = f"{folder}:{before}"
        yield
        self.environment["PATH"] = before

    def start(self, name, registers=True, **changes):
        user_data = self.folder / f"{name}.user-data"
        machine = self.machines[name] = FolderMachine(self.base, self.tree, self.cluster, name)
        machine.take((user_data if user_data.exists() else self.folder / "user-data").read_text(), **changes)
        machine.start(registers)
        return machine

    def tokens(self):
        """Of each node: the IDs of its bound tokens."""
        found = {}
        for item in self.cluster.request("GET", SECRETS)["items"]:
            node = item["metadata"].get("annotations", {}).get("node-bootstrap/node")
            if node:
                found.setdefault(node, []).append(item["metadata"]["name"].removeprefix("bootstrap-token-"))
        return found

    def secrets(self):
        """Of all tokens in the user data."""
        return [re.search(r"\b[a-z0-9]{6}\.([a-z0-9]{16})\b", path.read_text())[1] for path in self.folder.glob("*user-data")]


def rows_of(table):
    lines = [re.split(r" {2,}", line, 3) for line in table.splitlines()]
    return {line[0]: tuple(line[1:]) for line in lines if len(line) == 4 and line[0] != "NODE"}


def interrupt(process):
    os.killpg(process.pid, signal.SIGINT)
    return process.communicate(timeout=PATIENCE)


def test_interrupted_runs_create_no_second_token(fleet):
    names = [f"early-{number}" for number in range(4)]
    with fleet.program_that_hangs("early-2"):
        process = fleet.command(fleet.folder, *names)
        [lost] = until(lambda: fleet.tokens().get("early-2"), "the token exists")
        table, said = interrupt(process)
    assert (process.returncode, table) == (1, "") and "run the same command again" in said, said
    assert sorted(path.name for path in fleet.folder.iterdir()) == ["early-0.user-data", "early-1.user-data", "early-2.user-data.new"]
    first = (fleet.folder / "early-0.user-data").read_text()
    trace = fleet.base / "trace"
    status, rows, said = fleet.run(fleet.folder, *names, "--timeout=0", before=["strace", "-f", "-qq", "-v", "-s", "65536", "-e", "trace=execve", "-o", trace])
    assert status == 1 and set(rows) == set(names), said
    tokens = fleet.tokens()
    assert {node: len(ids) for node, ids in tokens.items() if node in names} == dict.fromkeys(names, 1) and tokens["early-2"] != [lost]
    assert (fleet.folder / "early-0.user-data").read_text() == first
    assert sorted(path.name for path in fleet.folder.iterdir()) == [f"{name}.user-data" for name in names]
    assert {oct(path.stat().st_mode)[-3:] for path in fleet.folder.iterdir()} == {"600"} and oct(fleet.folder.stat().st_mode)[-3:] == "700"
    text = trace.read_text() + said
    assert "token" in text and "KUBECONFIG" in text and not [secret for secret in fleet.secrets() if secret in text], "no argument, variable or message"
    # The commands of the document.
    text = commands("fleet").strip().replace(INSTALLED, f"{fleet.script} --timeout=0")
    done = subprocess.run(["sh", "-euc", text], cwd=fleet.base, env=fleet.environment, check=False, capture_output=True, text=True, timeout=PATIENCE)
    documented = rows_of(done.stdout)
    assert done.returncode == 1 and set(documented) == {"worker-1", "worker-2", "worker-3"}, done.stderr
    assert len(list((fleet.base / "workers").glob("*.user-data"))) == 3
    forms = ("config", "ignition")
    for form in forms:
        status, rows, said = fleet.run(fleet.folder, form, f"--form={form}", "--timeout=0")
        assert status == 1 and rows[form][0] == "waiting", "the token in this form is found"
    for name in (*names, *documented, *forms):
        fleet.admin.run("token", "revoke", f"--node={name}")


def test_table(fleet, request):
    """Each kind of row, while most machines join at once."""
    size = request.config.getoption("--fleet")
    good = [f"worker-{number}" for number in range(size - len(SPECIAL))]
    names, cluster = [*good, *SPECIAL], fleet.cluster
    cluster.make_ready("taken", status="Unknown")
    [port] = free_ports(1)
    with fleet.admin.controller(f"--listen=127.0.0.1:{port}", account=admin.service_account(cluster)):
        before = time.monotonic()
        status, rows, said = fleet.run(fleet.folder, *names, "--timeout=0")
        created = time.monotonic() - before
        assert status == 1 and rows["taken"][:2] == ("failed", "node-name-taken") and rows["worker-0"][0] == "waiting", said
        tokens = fleet.tokens()
        cluster.request("PATCH", f"{SECRETS}/bootstrap-token-{tokens['expired'][0]}", {"stringData": {"expiration": "2026-01-01T00:00:00Z"}})
        progress = fleet.base / "progress"
        with open(progress, "w", encoding="utf-8") as file:
            process = fleet.command(fleet.folder, *names, f"--metrics=127.0.0.1:{port}", stderr=file)
        before = time.monotonic()
        for name in good:
            fleet.start(name)
        fleet.start("without-kubelet", registers=False)
        fleet.start("renamed", node={"name": "worker-x"})
        denied = fleet.start("denied", node={"name": "worker-y"})
        until(lambda: all(map(cluster.node, good)), "all have joined")
        joined = time.monotonic() - before
        [csr] = until(lambda: cluster.csrs("worker-y"), "the request that is to be denied is there")
        fleet.admin.run("requests", "deny", csr["metadata"]["name"])
        assert denied.process.wait(PATIENCE) != 0 and "csr-denied" in denied.log()
        until(lambda: any("certificate" in csr.get("status", {}) for csr in cluster.csrs("without-kubelet")), "the certificate is issued")
        until(lambda: [e for e in cluster.request("GET", "/api/v1/namespaces/default/events")["items"] if e["reason"] == "TokenForAnotherNode"], "the Event")
        until(lambda: "expired" not in fleet.tokens(), "the cleaner deletes the expired token")
        until(lambda: re.search(r'reason="TokenForAnotherNode"} [1-9]', admin.served("/metrics", port)[1]), "the metrics are those of now")
        until(lambda: f"joined {len(good)}, waiting 2, failed 4 of {size}\n" in progress.read_text(), progress.read_text)
        table, _ = interrupt(process)
    print(f"{size} machines: tokens and user data in {created:.1f} s, all joined in {joined:.1f} s\n{progress.read_text()}{table}")
    rows = rows_of(table)
    assert process.returncode == 130 and set(rows) == set(names), table
    assert {rows[name][:2] for name in good} == {("joined", "-")}     # without kubelet, a Node does not stay Ready
    assert rows["taken"][:2] == ("failed", "node-name-taken")
    assert rows["unstarted"][:2] == ("waiting", "-") and rows["unstarted"][2].startswith("not seen yet; the token expires at 20")
    assert rows["expired"][:2] == ("failed", "token-unknown")
    assert rows["renamed"][:2] == ("failed", "csr-pending") and rows["renamed"][2].startswith("TokenForAnotherNode: ") and "worker-x" in rows["renamed"][2]
    assert rows["denied"][:2] == ("failed", "csr-denied")
    assert rows["without-kubelet"] == ("waiting", "-", "has its certificate; its kubelet has not registered the Node")
    assert f"controller at 127.0.0.1:{port}, leader: " in table and re.search(r"pending \d+ \(TokenForAnotherNode\)", table)
    assert not [secret for secret in fleet.secrets() if secret in table + progress.read_text()]
    status, rows, _ = fleet.run(fleet.folder, *good)
    assert status == 0 and {row[0] for row in rows.values()} == {"joined"}
    for name in (*good, "taken"):
        cluster.delete_node(name)


def test_enrolled(fleet):
    """One token for all; only the machine with the key joins."""
    keys = fleet.base / "keys"
    keys.mkdir()
    for name in ("with-key", "without-key"):
        key = pki.new_key()
        (keys / f"{name}.pem").write_bytes(pki.public_pem(key))
        if name == "with-key":
            private = pki.key_pem(key)
    with fleet.admin.controller("--parts=approve-client,signer", account=admin.service_account(fleet.cluster)):
        status, rows, said = fleet.run(fleet.folder, f"--keys={keys}", "--proof-key=credential", "--timeout=0")
        assert status == 1 and set(rows) == {"with-key", "without-key"} and [path.name for path in fleet.folder.iterdir()] == ["user-data"], said
        text = (fleet.folder / "user-data").read_text()
        for name in rows:
            machine = fleet.machines[name] = FolderMachine(fleet.base, fleet.tree, fleet.cluster, name)
            machine.take(text if name == "with-key" else text.replace('      proof:\n        key: "credential"\n', ""), node={"name": name})
            if name == "with-key":
                service = Prover(machine.folder / "root", machine.folder / "prover", private, machine.tree / PROGRAM)
            machine.start()
        status, rows, said = fleet.run(fleet.folder, f"--keys={keys}", "--timeout=60")
    service.close()
    assert rows["with-key"][:2] == ("joined", "-") and status == 1, said
    assert rows["without-key"][:2] == ("failed", "csr-pending") and rows["without-key"][2].startswith("AttestationMissing: "), said
    assert (fleet.folder / "user-data").read_text() == text
    for csr in fleet.cluster.request("GET", CSRS)["items"]:
        fleet.cluster.request("DELETE", f"{CSRS}/{csr['metadata']['name']}")
    for name in rows:
        fleet.admin.run("enroll", "remove", name)
    fleet.cluster.delete_node("with-key")
