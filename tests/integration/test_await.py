# SPDX-License-Identifier: Apache-2.0
"""The stage await: outcomes of a request, certificates, and broken connections."""

import contextlib
import threading

import pytest

from common import apiserver, csrs, faults, pki
from common.machine import NODE, TOKEN_ID, Case
from common.wait import until

LEEWAY = 0.3        # the machine usually watches by then, and it is no matter if it does not


def fate(controller):
    """What the control plane does with the request."""
    def prepare(world):
        world.cluster.controller = controller
    return prepare


def issue(certificate):
    return fate(csrs.approve(certificate))


def dropped(world, run):
    """The key is not used again."""
    assert not (world.machine.state / "pending.key").exists()


def kept(world, run):
    assert (world.machine.state / "pending.key").exists() and len(world.csrs()) == 1


def pem_in_handoff(world, run):
    return pki.load_certs(world.machine.handoff()["certificate"].encode())


def chain_of_two(world, run):
    assert len(pem_in_handoff(world, run)) == 2


def vanish(then):
    def controller(cluster, name):
        csrs.delete(after=LEEWAY)(cluster, name)
        cluster.controller = then
    return controller


def approved_by_hand(world):
    """By who reads what the join says."""
    def controller(cluster, name):
        world.machine.current().wait_for_line("waiting for approval")
        csrs.approve(reason="KubectlApprove")(cluster, name)
    world.cluster.controller = controller


def replaced_by_ours(cluster, name):
    """The CSR is deleted and created again: same contents, another UID, approved."""
    cluster.stopping.wait(LEEWAY)
    cluster.csrs.replace(name)
    csrs.approve(after=0.1)(cluster, name)


FATES = [
    Case("approved by hand a moment later", approved_by_hand, None, 0, "is waiting for approval", csrs=1),
    Case("issued before the watch begins", fate(csrs.approve(after=0, issue_after=0)), None, 0, csrs=1),
    Case("never approved", fate(csrs.never), "csr-pending", 75, "the CSR 'node-csr-", check=kept),
    Case("approved, never issued", fate(csrs.approved_only), "csr-not-issued", 75, check=kept),
    Case("denied", fate(csrs.deny("Policy", "not one of our machines")), "csr-denied", 77, "Policy", "not one of our machines", check=dropped),
    Case("denied, in another language", fate(csrs.deny("Policy", "Gerät unbekannt")), "csr-denied", 77, "Policy", "Gerät unbekannt", check=dropped),
    Case("denied without a reason", fate(csrs.deny("", "")), "csr-denied", 77, check=dropped),
    Case("denied with an escape sequence", fate(csrs.deny("Policy", "\x1b[2J\x1b]0;owned\x07 gone\nsecond line")), "csr-denied", 77, "gone",
         check=lambda world, run: dropped(world, run) or no_control(run)),
    Case("failed", fate(csrs.fail("SignerValidationFailure", "DNS subjectAltNames are not allowed")), "csr-failed", 77,
         "SignerValidationFailure", "DNS subjectAltNames", check=dropped),
    Case("deleted while it waits", fate(vanish(csrs.approve())), None, 0, "submitting it again", csrs=1),
    Case("replaced by another of the same name", fate(replaced_by_ours), None, 0),
]


def no_control(run):
    assert all(character.isprintable() for line in (*run.lines, *run.statuses) for character in line)


def stalls_when_asked_again(world):
    """The watch is refused, and the poll gets no answer."""
    world.cluster.controller = csrs.never
    world.server.on("watch", faults.forbidden)
    world.server.on("get", faults.stall)


def stalls_when_submitted_again(world):
    world.cluster.controller = csrs.delete(after=LEEWAY)
    world.server.on("create", faults.stall, skip=1)


CUT_SHORT = [
    Case("a poll", stalls_when_asked_again, "csr-pending", 75, "the CSR 'node-csr-", check=kept),
    Case("another request", stalls_when_submitted_again, "csr-pending", 75, "was deleted or replaced each time"),
]


@pytest.mark.parametrize("case", CUT_SHORT)
def test_deadline_in_the_middle_of(played, case):
    """The failure names what the join was waiting for, not the interrupted last request."""
    played(case)


UNUSABLE = ("certificate-unusable", 76)
CERTIFICATES = [
    Case("for another key", issue(csrs.other_key), *UNUSABLE, "key", check=dropped),
    Case("for a key of another type", issue(csrs.other_type_of_key), *UNUSABLE, "key", check=dropped),
    Case("for another node", issue(csrs.with_changes(cn=pki.node_user("node-2"))), *UNUSABLE, "system:node:node-2", check=dropped),
    Case("for no node", issue(csrs.with_changes(cn="node-1")), *UNUSABLE, check=dropped),
    Case("for a node of a name that begins alike", issue(csrs.with_changes(cn=pki.node_user(NODE) + "1")), *UNUSABLE, check=dropped),
    Case("for a name with a NUL", issue(csrs.with_changes(cn=pki.node_user(NODE) + "\0.example.org")), *UNUSABLE, check=dropped),
    Case("without a common name", issue(csrs.with_changes(cn=None)), *UNUSABLE, check=dropped),
    Case("for administrators", issue(csrs.with_changes(orgs=("system:masters",))), *UNUSABLE, "system:masters", check=dropped),
    Case("for nodes and administrators", issue(csrs.with_changes(orgs=("system:nodes", "system:masters"))), *UNUSABLE, check=dropped),
    Case("without organization", issue(csrs.with_changes(orgs=())), *UNUSABLE, check=dropped),
    Case("expired", issue(csrs.with_changes(start=-2 * pki.DAY, end=-pki.DAY)), *UNUSABLE, "expired", check=dropped),
    Case("that is a CA", issue(csrs.with_changes(ca=True)), *UNUSABLE, "CA", check=dropped),
    Case("without client auth", issue(csrs.with_changes(eku=(pki.SERVER_AUTH,))), *UNUSABLE, "client", check=dropped),
    Case("without any extended key usage", issue(csrs.with_changes(eku=())), *UNUSABLE, "client", check=dropped),
    Case("not PEM", issue(csrs.literal(b"garbage")), *UNUSABLE, check=dropped),
    Case("PEM that holds garbage", issue(csrs.literal(b"-----BEGIN CERTIFICATE-----\nZ2FyYmFnZQ==\n-----END CERTIFICATE-----\n")), *UNUSABLE, check=dropped),
    Case("cut short", issue(lambda cluster, csr: csrs.issued(cluster, csr)[:-80]), *UNUSABLE, check=dropped),
    Case("a private key after it", issue(csrs.then(csrs.FOREIGN_KEY)), *UNUSABLE, check=dropped),
    Case("a private key before it", issue(csrs.first(csrs.FOREIGN_KEY)), *UNUSABLE, check=dropped),
    Case("the CA first, then the certificate", issue(csrs.leaf_last), *UNUSABLE, check=dropped),
    Case("followed by a certificate of another chain", issue(csrs.then(pki.CA("stranger").pem)), *UNUSABLE, check=dropped),
    Case("a hundred certificates", issue(lambda cluster, csr: csrs.issued(cluster, csr) * 100), *UNUSABLE, check=dropped),
    Case("with an intermediate CA", issue(csrs.with_intermediates), None, 0, check=chain_of_two),
    Case("followed by its CA", issue(lambda cluster, csr: csrs.issued(cluster, csr) + cluster.signer.pem), None, 0, check=chain_of_two),
    Case("signed by another CA than the servers", lambda world: setattr(world.cluster, "signer", pki.CA("client-ca")), None, 0),
    Case("valid from tomorrow, for the clock may be wrong", issue(csrs.with_changes(start=pki.DAY)), None, 0, "and this machine's clock is at"),
    Case("with client and server auth", issue(csrs.with_changes(eku=(pki.SERVER_AUTH, pki.CLIENT_AUTH))), None, 0),
]


# How the watch can break.

def watching(action, *, after=LEEWAY, **rule):
    """The watch gets this answer, and the request is approved a moment later."""
    def prepare(world):
        world.cluster.controller = csrs.approve(after=after)
        world.server.on("watch", action, **rule)
    return prepare


def garbage(data):
    return faults.watch_events(data)


WATCHES = [
    Case("refused with 403", watching(faults.forbidden), None, 0),
    Case("refused with 405", watching(faults.error(405, "MethodNotAllowed", "watch is not supported")), None, 0),
    Case("refused with 404", watching(faults.error(404, "NotFound", "the server could not find the requested resource")), None, 0),
    Case("refused with 410", watching(faults.error(410, "Expired", "too old resource version")), None, 0),
    Case("refused with 429", watching(faults.TOO_MANY, times=2), None, 0),
    Case("refused with 500", watching(faults.INTERNAL, times=2), None, 0),
    Case("ends at once, every time", watching(faults.WATCH_ENDS), None, 0),
    Case("ends at once, twice", watching(faults.WATCH_ENDS, times=2), None, 0),
    Case("410 as an event", watching(faults.WATCH_EXPIRED), None, 0),
    Case("500 as an event", watching(faults.watch_error(500, "InternalError", "etcdserver: leader changed"), times=2), None, 0),
    Case("cut in the middle of a line", watching(faults.watch_cut_in_line, times=2), None, 0),
    Case("cut before the headers", watching(faults.hang_up_instead, times=2), None, 0),
    Case("bookmarks only, then the end", watching(faults.watch_bookmarks_only), None, 0),
    Case("events in pieces", watching(faults.watch_in_pieces), None, 0, requests=["cluster-info", "create", "watch"]),
    Case("events in one piece, with empty lines", watching(faults.watch_together, after=0.05), None, 0),
    Case("events of others first", watching(faults.watch_of_others), None, 0),
    Case("not JSON", watching(garbage(b"pong\n")), None, 0),
    Case("event of an unknown type", watching(garbage(b'{"type":"RENAMED","object":{}}\n')), None, 0),
    Case("event without object", watching(garbage(b'{"type":"MODIFIED"}\n')), None, 0),
    Case("event with another kind", watching(garbage(b'{"type":"MODIFIED","object":{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"}}}\n')), None, 0),
    Case("line without end", watching(faults.watch_long_line, times=1), None, 0),
    Case("web page", watching(faults.PORTAL, times=1), None, 0),
    Case("redirect", watching(faults.redirect("https://127.0.0.1:1/"), times=1), None, 0),
]

for case in WATCHES:
    case.csrs = 1


@pytest.mark.parametrize("case", FATES)
def test_fate(played, case):
    played(case)


@pytest.mark.parametrize("case", CERTIFICATES)
def test_certificate(played, case):
    played(case)


@pytest.mark.parametrize("case", WATCHES)
def test_watch(played, case):
    played(case)


def await_watch(world):
    """Waits until the server has a watch, which it serves from then on."""
    until(lambda: world.server.seen("watch"), "somebody watches", pause=0.01)


def later(world, action):
    """Runs an action once the machine watches."""
    def run():
        await_watch(world)
        action(world.csrs()[0])
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_silent_load_balancer(world):
    """A middlebox drops the watch silently: the machine notices it."""
    world.cluster.controller = csrs.approve(after=1)
    world.server.on("watch", faults.watch_silent)
    world.machine.configure(world.server, timeout="24h")
    world.machine.join(faketime="+0 x30").joined()
    assert "get" in world.server.kinds and len(world.csrs()) == 1


def test_watch_is_resumed(world):
    """A watch that the server ends in order is opened again where it ended, not from the beginning."""
    world.cluster.controller = csrs.never
    world.server.on("watch", lambda request: csrs.approve()(world.cluster, world.csrs()[0]))
    world.server.on("watch", lambda request: faults.watch_events(csrs.bookmark(world.cluster.csrs.version))(request), times=1)
    world.machine.join().joined()
    first, second, *_ = world.server.seen("watch")
    assert int(second.query["resourceVersion"]) >= int(first.query["resourceVersion"])


def test_token_expires_while_watching(world):
    """An open watch survives the deletion of the token and still delivers."""
    world.cluster.controller = csrs.never

    def expire(name):
        world.cluster.tokens[TOKEN_ID].valid = False
        csrs.approve(after=LEEWAY)(world.cluster, name)
    later(world, expire)
    world.machine.join().joined()


def test_token_expires_and_watch_ends(world):
    """Then the CSR cannot be read any more: this is reported, key and CSR are kept. A join with another token submits
    another CSR, since the approval depends on the requestor."""
    world.cluster.controller = csrs.never
    world.server.on("watch", faults.watch_silent, times=1)
    world.machine.configure(world.server, timeout=None)

    def expire(name):
        world.cluster.tokens[TOKEN_ID].valid = False
        world.cluster.tokens["zyxwvu"] = apiserver.Token("fedcba9876543210")
        for connection in world.server.connections[1:]:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(2)
    later(world, expire)
    world.machine.join(faketime="+0 x10").failed("token-rejected", 77, TOKEN_ID)
    kept(world, None)

    world.machine.set_credential("token", "zyxwvu.fedcba9876543210\n")
    world.cluster.controller = csrs.approve()
    run = world.machine.join().joined()
    assert "another requestor (submitted by 'system:bootstrap:" + TOKEN_ID in run.stderr
    assert len(world.csrs()) == 2 and world.machine.handoff()["tokenID"] == "zyxwvu"


def test_cleaned_up_after_a_day(world):
    """kube-controller-manager removes what was pending for 24 h: submitted again, under the same name."""
    world.cluster.controller = csrs.never
    later(world, world.cluster.csrs.delete)
    run = world.machine.start_join()
    run.wait_for_line("submitting it again")
    name, = world.cluster.csrs.wait_for()
    csrs.approve()(world.cluster, name)
    run.wait().joined()
    assert len(world.server.seen("create")) == 2


def test_server_restarts(world):
    """All connections are cut and the endpoint is away for a while."""
    world.cluster.controller = csrs.never
    run = world.machine.start_join()
    await_watch(world)
    world.server.on_connect = faults.reset
    for connection in world.server.connections:
        try:
            connection.sock.shutdown(2)
        except OSError:
            pass
    run.wait_for_line("endpoint-reset")
    csrs.approve()(world.cluster, world.csrs()[0])
    world.server.on_connect = None
    run.wait().joined()
    assert len(world.csrs()) == 1 and len(world.server.seen("create")) == 1


def test_status_while_waiting(world):
    """STATUS= names what the join waits for and the command to fix it."""
    world.cluster.controller = csrs.never
    run = world.machine.start_join()
    run.wait_for_status("waiting for approval")
    name, = world.csrs()
    assert any(f"the CSR '{name}' is waiting for approval" in status for status in run.statuses)
    csrs.approve()(world.cluster, name)
    run.wait().joined()
    assert sum("csr-pending" in line for line in run.lines) <= 1


def test_connection_ends_at_the_deadline(world):
    """`timeout:` ends the wait on an open watch."""
    world.cluster.controller = csrs.never
    world.machine.configure(world.server, timeout="8s")
    run = world.machine.join().failed("csr-pending", 75, "is waiting for approval")
    assert run.seconds >= 1.9
