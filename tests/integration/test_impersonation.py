# SPDX-License-Identifier: Apache-2.0
"""An attacker with a valid token or a certificate of the cluster who impersonates the API server; and the status while waiting."""

import fcntl
import glob
import os
import time
from ipaddress import ip_address

import pytest
from cryptography import x509

from common import apiserver, csrs, faults, pki
from common.machine import SECRET, TOKEN_ID, Case
from .attackers import Play, plays

pytestmark = pytest.mark.each_release


def beside_the_pinned_ca(server_elsewhere):
    """The pinned CA is public: a holder of the token signs a bundle of it and a CA of its own."""
    def prepare(world):
        own = pki.CA("own")
        liar = apiserver.Cluster(ca=own, tokens={TOKEN_ID: apiserver.Token(SECRET)})
        liar.hostile = True
        liar.bundle = [world.cluster.ca.pem, own.pem]
        endpoint = world.endpoint(liar)
        if server_elsewhere:
            liar.server = f"https://localhost:{endpoint.port}"
        return {"servers": [endpoint], "pins": [world.cluster.ca.pin]}
    return prepare


def serving(**extensions):
    """The endpoint shows a certificate of the cluster's CA that has its address, as any client may have one."""
    def prepare(world):
        key = pki.new_key()
        certificate = world.cluster.ca.client(key.public_key(), "system:node:other", sans=[x509.IPAddress(ip_address("127.0.0.1"))], **extensions)
        world.server.identity = pki.Identity(key, certificate)
    return prepare


TRUST = [
    Case("own CA beside the pinned one", beside_the_pinned_ca(False), "tls-untrusted", 76, discovery={"trustWholeBundle": True}),
    Case("own CA beside the pinned one, server elsewhere", beside_the_pinned_ca(True), "tls-untrusted", 76, discovery={"trustWholeBundle": True}),
    Case("a client's certificate at the endpoint", serving(), "tls-untrusted", 76, "extended key usage", csrs=0),
    Case("a certificate for clients and servers", serving(eku=(pki.CLIENT_AUTH, pki.SERVER_AUTH)), None, 0),
    Case("a certificate without extended key usage", serving(eku=()), None, 0),
]


@pytest.mark.parametrize("case", TRUST)
def test_trust(played, case):
    played(case)


@pytest.mark.parametrize("case", plays(Play, TRUST))
def test_waits_for_the_real_server(played, case):
    played(case)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees the descriptors of a process that must not be dumped")
def test_what_a_connection_trusts_cannot_be_changed(world):
    """The memory files that libcurl reads again with each connection."""
    seals = []

    def look(request):
        for path in glob.glob(f"/proc/{world.machine.current().pid}/fd/*"):
            if os.readlink(path).startswith("/memfd:"):
                with open(path, "rb") as file:
                    seals.append(fcntl.fcntl(file, fcntl.F_GET_SEALS))

    world.server.on("watch", look)
    world.machine.join().joined()
    expected = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    assert seals and all(found & expected == expected for found in seals)      # Linux 6.3 adds F_SEAL_EXEC


def warnings(run, code):
    return sum(f": {code}: " in line for line in run.lines)


def test_approved_but_not_issued_is_told_while_it_waits(world):
    world.cluster.controller = csrs.never
    run = world.machine.start_join()
    name = world.cluster.csrs.wait_for()[0]
    run.wait_for_status("waiting for approval")
    csrs.approved_only(world.cluster, name)
    run.wait_for_status("no certificate was issued yet")
    run.wait_for_line("csr-not-issued")
    assert warnings(run, "csr-pending") == warnings(run, "csr-not-issued") == 1


def test_retry_after_is_obeyed_by_requests(world):
    world.server.on("create", faults.error(429, "TooManyRequests", "later", Retry_After="20"))
    world.machine.configure(world.server, timeout="5s")
    world.machine.join().failed("server-error", 69)
    assert len(world.server.seen("create")) == 1


def test_reasons_that_take_turns_do_not_fill_the_journal(world):
    world.server.on("cluster-info", faults.in_turn(*[faults.UNAVAILABLE, faults.error(404, "NotFound", "no cluster-info")] * 50))
    world.machine.configure(world.server, timeout="12s")
    run = world.machine.join()
    assert len(world.server.seen("cluster-info")) > 4
    assert warnings(run, "server-error") <= 2 and warnings(run, "cluster-info-missing") <= 2


def test_the_last_word_says_that_it_was_tried_again(world):
    world.server.on("create", faults.unauthorized)
    world.machine.configure(world.server, timeout=None)
    run = world.machine.join(faketime="+0 x10").failed("token-rejected", 77)
    assert [line for line in run.lines if line.endswith("; gave up after 30 s")]


def test_the_address_that_does_not_answer_is_the_one_that_is_named(world):
    dead = faults.dead_endpoint()
    world.cluster.server = f"https://{dead}"
    world.machine.configure(world.server, timeout="5s")
    run = world.machine.join().failed("endpoint-refused", 69, dead)
    assert world.server.endpoint not in run.stderr.split("endpoint-refused")[1]


def test_a_new_cluster_that_is_down_does_not_keep_a_node_down(world):
    """Other pins, no server, no timeout: the present certificate is valid, so the wait ends (with a faster clock)."""
    for run in (world.machine.inspect(), world.machine.join(), world.machine.install()):
        assert run.exit == 0
    world.machine.configure(world.server, endpoints=[faults.dead_endpoint()], pins=[pki.CA("other").pin])
    assert world.machine.inspect().note["verdict"] == "other-cluster"
    before = world.machine.target_names()
    begun = time.monotonic()
    run = world.machine.join(faketime="+0 x20")
    assert run.exit == 0 and "joining again failed" in run.stderr and time.monotonic() - begun < 60
    assert world.machine.install().exit == 0 and world.machine.target_names() == before


def test_netrc_is_ignored(world):
    """The endpoint inspects what is sent with cluster-info: see World.check()."""
    (world.machine.path / ".netrc").write_text("machine 127.0.0.1 login somebody password hunter2hunter2\n")
    world.machine.join(environment={"HOME": str(world.machine.path)}).joined()
    assert all(b"Basic" not in connection.received for connection in world.server.connections)
