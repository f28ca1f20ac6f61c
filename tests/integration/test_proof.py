# SPDX-License-Identifier: Apache-2.0
"""The proof by the enrolled key: the prover has the key, signs for one node and one token only, and no process with network has either."""

import base64
import contextlib
import hashlib
import pathlib
import socket

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import AttributeOID, NameOID

from common import csrs, endpoint, pki, prover
from common import tpm as tpms
from common.machine import HEADER, NODE, TOKEN_ID, find_program, to_yaml
from common.prover import CONNECTIONS_MAX, MESSAGES_MAX, PROOFS_MAX, Connection, Prover
from common.tpm import ENDORSEMENT, Tpm

USER = pki.node_user(NODE)
DOMAIN = "node-bootstrap attestation v2\n"


@pytest.fixture
def key():
    return ec.generate_private_key(ec.SECP256R1())


def wanted(machine, text="credential"):
    machine.write_settings(HEADER + to_yaml({"proof": {"key": text}}), "config.yaml.d/20-proof.yaml")


@pytest.fixture
def new_prover(machine):
    made = []

    def new_prover(key=None, text="credential", program=None):
        wanted(machine, text)
        made.append(Prover(machine.root, machine.path / "prover", key if key is None or isinstance(key, (str, bytes)) else pki.key_pem(key), program))
        return made[0]
    yield new_prover
    for service in made:
        service.close()


def pem_blocks(text):
    """Label and content of each PEM block."""
    parts = text.decode().split("-----")
    return [(parts[i].removeprefix("BEGIN "), base64.b64decode(parts[i + 1])) for i in range(1, len(parts) - 1, 4)]


def submitted(server):
    return [base64.b64decode(request.json()["spec"]["request"]) for request in server.seen("create")]


def verify(key, request, token_id=TOKEN_ID):
    (label, der), (proof_label, proof), named = pem_blocks(request)
    assert (label, proof_label) == ("CERTIFICATE REQUEST", "NODE-BOOTSTRAP KEY SIGNATURE")
    assert named == ("NODE-BOOTSTRAP PUBLIC KEY", pki.spki(key.public_key()))
    key.public_key().verify(proof, f"{DOMAIN}{token_id}\n".encode() + hashlib.sha256(der).digest(), ec.ECDSA(hashes.SHA256()))


def fingerprint(key):
    return "sha256:" + hashlib.sha256(pki.spki(key.public_key())).hexdigest()


# A join.


def test_join(world, key, new_prover):
    """One connection; the request covers the token; a second attempt sends the same request, and finds it again after 409."""
    service = new_prover(key)

    def make_and_hang_up(request):
        request.connection.server.healthy(request)
        raise endpoint.Hangup
    world.server.on("create", make_and_hang_up, times=1)
    world.machine.unit().joined()
    first, second = submitted(world.server)
    assert first == second
    verify(key, first)
    [connection] = service.connections
    assert connection.wait() == 0 and connection.lines == [f"node-bootstrap: the fingerprint of the proof key of node '{NODE}' is {fingerprint(key)}"]


def test_join_that_waits_for_its_enrolment(world, key, new_prover):
    new_prover(key)
    world.cluster.controller = csrs.never
    world.cluster.tokens[TOKEN_ID].groups = ("system:bootstrappers", "system:bootstrappers:node-bootstrap-enrolled")
    run = world.machine.start_unit()
    run.wait_for_status(f"the fingerprint of this machine's proof key is {fingerprint(key)}")
    run.kill()


@pytest.mark.parametrize("text", ["", "S3cret", "-----BEGIN PRIVATE KEY-----\nS3cret\n-----END PRIVATE KEY-----\n"], ids=["empty", "not a key", "damaged"])
def test_unusable_key(world, new_prover, text):
    new_prover(text)
    run = world.machine.unit().failed("attestation-key-unusable", 65, "node-bootstrap.attestation-key")
    assert "S3cret" not in run.stderr and not world.server.seen("create")


def test_missing_key(world, new_prover):
    new_prover()
    world.machine.unit().failed("attestation-key-missing", 66, "node-bootstrap-prover@.service")
    # No request was made with this key: copies of this machine must not have the same one.
    assert not world.server.seen("create") and not (world.machine.state / "pending.key").exists()


def test_no_socket(world):
    wanted(world.machine)
    world.machine.write_settings(HEADER + to_yaml({"timeout": "15s"}), "config.yaml.d/30.yaml")
    world.machine.unit().failed("prover-unavailable", 70, "node-bootstrap-prover.socket", "No such file")
    assert not world.server.seen("create") and not (world.machine.state / "pending.key").exists()


@pytest.mark.parametrize("n", [1, CONNECTIONS_MAX])
def test_prover_ends(world, key, new_prover, n):
    """Once: the same join goes on. Each time: a limited number of connections."""
    service = new_prover(key)
    service.program = world.machine.path / "ends"
    service.program.write_text("#!/bin/sh\nexec head --bytes=1 >/dev/null\n")     # reads the message of install
    service.program.chmod(0o755)

    def count(_):
        if len(service.connections) == n:
            service.program = None

    service.on_connection = count
    world.machine.write_settings(HEADER + to_yaml({"timeout": "30s"}), "config.yaml.d/30.yaml")
    run = world.machine.unit()
    if n == 1:
        run.joined()
        verify(key, submitted(world.server)[0])
    else:
        run.failed("prover-unavailable", 70, f"has ended {CONNECTIONS_MAX} times")
    assert len(service.connections) == min(n + 1, CONNECTIONS_MAX)


def test_copied_without_the_proof(world, key, new_prover):
    """A copy of a request without the proof would never be approved."""
    new_prover(key)
    own = pki.new_key()
    world.machine.put_state("pending.key", pki.key_pem(own))
    world.cluster.csrs.put(pki.csr_name(own.public_key(), USER), own, cn=USER)
    run = world.machine.unit().joined()
    assert "another proof" in run.stderr and len(world.csrs()) == 2


def test_without_the_setting(world, new_prover, key):
    """Nobody connects."""
    service = new_prover(key)
    (world.machine.etc / "config.yaml.d/20-proof.yaml").unlink()
    world.machine.unit().joined()
    assert service.connections == [] and len(pem_blocks(submitted(world.server)[0])) == 1


def test_joined_machine_never_connects(world, key, new_prover):
    service = new_prover(key)
    world.machine.unit().joined()
    world.machine.unit().joined()
    assert len(service.connections) == 1


# The key among the credentials of the service.


def test_misplaced_key(world):
    """No process that could read it starts: the server sees nothing."""
    wanted(world.machine)
    world.machine.set_credential("attestation-key", pki.key_pem(pki.new_key()))
    world.machine.unit().failed("attestation-key-misplaced", 78)
    assert world.server.requests == []


def test_misplaced_key_before_metadata(world, tmp_path):
    machine = world.machine
    (machine.credentials / "node-bootstrap.token").unlink()
    machine.set_credential("attestation-key", "x")
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n: >{ran}\n")
    program.chmod(0o755)
    machine.start("install", *machine.install_words(f"--program={program}")).wait().failed("attestation-key-misplaced", 78)
    assert not ran.exists()


def test_misplaced_key_on_a_machine_that_has_joined(world):
    """kubelet starts, and its configuration is not fetched."""
    machine = world.machine
    machine.unit().joined()
    seen = len(world.server.requests)
    machine.write_settings(HEADER + to_yaml({"kubelet": {"configFrom": "cluster"}}), "config.yaml.d/10.yaml")
    machine.set_credential("attestation-key", "x")
    run = machine.unit().joined()
    assert run.codes.count("attestation-key-misplaced") == 1 and len(world.server.requests) == seen


def test_misplaced_key_on_a_machine_that_needs_no_network(world):
    """It is said all the same."""
    machine = world.machine
    machine.unit().joined()
    machine.set_credential("attestation-key", "x")
    assert "attestation-key-misplaced" in machine.unit().joined().codes


# What a hostile `join` can send.


def csr(key, *, cn=USER, orgs=(pki.NODES,), more=(), sans=()):
    return pki.sign_csr(key, cn, orgs, more=more, sans=sans)


def rdns(*pairs):
    key = pki.new_key()
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([x509.NameAttribute(oid, value) for oid, value in pairs]))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def forged():
    """Its own signature is invalid: whoever sends it does not have the key."""
    der = bytearray(x509.load_pem_x509_csr(csr(pki.new_key())).public_bytes(serialization.Encoding.DER))
    der[-1] ^= 1
    return b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.encodebytes(bytes(der)) + b"-----END CERTIFICATE REQUEST-----\n"


def plain():
    return csr(pki.new_key())


HOSTILE = {
    "another node": lambda: csr(pki.new_key(), cn=pki.node_user("node-2")),
    "a longer name": lambda: csr(pki.new_key(), cn=USER + "0"),
    "another organization": lambda: csr(pki.new_key(), orgs=("system:masters",)),
    "two organizations": lambda: csr(pki.new_key(), orgs=(pki.NODES, "system:masters")),
    "two common names": lambda: rdns((NameOID.ORGANIZATION_NAME, pki.NODES), (NameOID.COMMON_NAME, USER), (NameOID.COMMON_NAME, "kubernetes-admin")),
    "the other common name first": lambda: rdns((NameOID.COMMON_NAME, "kubernetes-admin"), (NameOID.ORGANIZATION_NAME, pki.NODES), (NameOID.COMMON_NAME, USER)),
    "another attribute": lambda: rdns((NameOID.ORGANIZATION_NAME, pki.NODES), (NameOID.COMMON_NAME, USER), (NameOID.SERIAL_NUMBER, "1")),
    "an alternative name": lambda: csr(pki.new_key(), sans=("node-1.example.org",)),
    "a password": lambda: x509.CertificateSigningRequestBuilder().subject_name(pki.name(USER, (pki.NODES,))).add_attribute(
        AttributeOID.CHALLENGE_PASSWORD, b"x").sign(pki.new_key(), hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
    "two requests": lambda: plain() + plain(),
    "text behind": lambda: plain() + b"x",
    "a line behind": lambda: plain() + b"\n",
    "text in front": lambda: b"x\n" + plain(),
    "a NUL behind": lambda: plain() + b"\0",
    "RSA": lambda: csr(rsa.generate_private_key(65537, 2048)),
    "P-384": lambda: csr(ec.generate_private_key(ec.SECP384R1())),
    "an invalid signature": forged,
    "no request": lambda: b"node-bootstrap attestation v2\n",
    "a byte": lambda: b"\0",
    "too long": lambda: plain() + b"x" * 8192,
}


@pytest.fixture
def connect(tmp_path, key):
    connections = []
    path = tmp_path / "node-bootstrap.attestation-key"
    path.write_bytes(pki.key_pem(key))
    path.chmod(0o400)

    def connect(**options):
        connections.append(Connection(tmp_path).begin(prover.build(), **options))
        return connections[-1]
    yield connect
    for connection in connections:
        connection.close()


def test_refuses(connect, key):
    """Whatever else it is sent, it signs this node's requests only, and goes on."""
    connection = connect()
    for name, make in HOSTILE.items():
        answer = connection.ask(make())
        assert not answer.proof and f"node '{NODE}'" in answer.detail, name
    request = plain()
    answer = connection.ask(request)
    assert answer.code == 0
    verify(key, request + answer.proof.encode())


@pytest.mark.parametrize("token_id", [TOKEN_ID, ""])
def test_signs_for_the_token(connect, key, token_id):
    request = plain()
    verify(key, request + connect(token_id=token_id).ask(request).proof.encode(), token_id)


def test_number_of_messages(connect):
    """The first one, from install, is one of them."""
    connection = connect()
    assert [bool(connection.ask(b"x")) for _ in range(MESSAGES_MAX)] == [True] * (MESSAGES_MAX - 1) + [False]
    assert connection.wait() == 0


def test_join_that_reads_no_answer(connect):
    """Its own end of the connection, which it sends over the connection, would keep a prover that waits for it."""
    connection = connect()
    with contextlib.suppress(BrokenPipeError):
        for _ in range(MESSAGES_MAX - 3):
            connection.end.send(b"x")
        socket.send_fds(connection.end, [b"x"], [connection.end.fileno()])
    connection.end.close()
    assert connection.wait() == 0


def test_number_of_signatures(connect):
    connection, request = connect(), plain()
    assert [bool(connection.ask(request)) for _ in range(PROOFS_MAX + 1)] == [True] * PROOFS_MAX + [False]


def test_another_build(connect, tmp_path):
    """It signs nothing, and tells its own build, so that `join` asks for a restart."""
    connection = Connection(tmp_path).begin(b"another")
    answer = connection.ask(plain())
    assert answer.build == prover.build() and not answer.proof
    connection.close()


@pytest.mark.parametrize("size", [1, prover.BEGIN.size - 1, prover.BEGIN.size + 1])
def test_first_message_of_another_size(connect, tmp_path, size):
    connection = Connection(tmp_path)
    connection.end.send((prover.build() + b"\0" * prover.BEGIN.size)[:size])
    assert not connection.ask(plain()).proof
    connection.close()


def test_trial_is_not_printed(connect):
    """Of `check`: no node has this name."""
    connection = connect(node="node-bootstrap-check")
    assert connection.ask(csr(pki.new_key(), cn=pki.node_user("node-bootstrap-check"))).proof
    connection.end.close()
    assert connection.wait() == 0 and connection.lines == []


# The command that shows the key.


def proof_key(machine, *arguments):
    return machine.start("node-bootstrap", "proof-key", f"--config-directory={machine.etc}", *arguments).wait()


@pytest.mark.parametrize("arguments", [[], ["--key=credential"]], ids=["settings", "option"])
def test_proof_key(machine, key, arguments):
    if not arguments:
        wanted(machine)
    machine.set_credential("attestation-key", pki.key_pem(key))
    run = proof_key(machine, *arguments)
    assert (run.exit, run.stdout.encode(), run.lines) == (0, pki.public_pem(key), ["proof.key: credential", fingerprint(key)])


def test_exposed_key(machine, key):
    machine.set_credential("attestation-key", pki.key_pem(key))
    (machine.credentials / "node-bootstrap.attestation-key").chmod(0o444)
    proof_key(machine, "--key=credential").failed("attestation-key-unusable", 65, "mode 0444")


def test_key_that_is_no_file(machine):
    (machine.credentials / "node-bootstrap.attestation-key").mkdir(parents=True)
    proof_key(machine, "--key=credential").failed("attestation-key-unusable", 65, "not a regular file")


def test_proof_key_without_settings_is_that_of_the_tpm(machine):
    """Here, there is none."""
    run = proof_key(machine).failed("tpm-missing", 78)
    assert run.stdout == ""


@pytest.mark.parametrize("text", ["x", "tpm:", "tpm:0x80000000"])
def test_proof_key_of_another_name(machine, text):
    proof_key(machine, f"--key={text}").failed("usage", 64, "expected credential, tpm")


# The TPM.

# A program that finds this device, and no other one. The device is in no folder of the machine that runs the tests.
WITH_DEVICE = """#!/bin/sh
exec unshare --mount --propagation=private sh -ec '
mkdir -p {folder}/dev
mount --rbind /dev {folder}/dev
mount -t tmpfs tmpfs /dev
for name in null urandom tpmrm0; do
        : >/dev/$name
done
mount --bind {folder}/dev/null /dev/null
mount --bind {folder}/dev/urandom /dev/urandom
mount --bind {device} /dev/tpmrm0
exec "$@"' sh {program} "$@"
"""


@pytest.fixture
def tpm(tmp_path):
    tpm = Tpm(tmp_path / "tpm")
    script = tmp_path / "with-device"
    script.write_text(WITH_DEVICE.format(folder=tmp_path, device=f"{tmp_path}/dev/pts/{tpm.path.rsplit('/', 1)[1]}", program=find_program("node-bootstrap")))
    script.chmod(0o755)
    tpm.program = str(script)
    yield tpm
    tpm.close()


def key_of(machine, tpm, text="tpm"):
    run = machine.start(tpm.program, "proof-key", f"--key={text}").wait()
    assert run.exit == 0, run.stderr
    return serialization.load_pem_public_key(run.stdout.encode())


class Public:
    """As a private key, which has a public one."""

    def __init__(self, public):
        self.public_key = lambda: public


@pytest.mark.parametrize("text", ["tpm", "tpm:0x81000003", "tpm:nv:0x01c10003"])
def test_join_with_a_tpm(world, tpm, new_prover, text):
    """The key is the same before the join, and after a clear; the last one is restricted, and counts failures."""
    if "0x81" in text:
        tpm.persist(0x81000003, tpms.ecc(tpms.UNRESTRICTED))
    if "nv" in text:
        tpm.define(0x01C10003, tpms.ecc())
    key = Public(key_of(world.machine, tpm, text))
    if text == "tpm":
        tpm.clear()
    service = new_prover(text=text, program=tpm.program)
    world.machine.unit().joined()
    verify(key, submitted(world.server)[0])
    assert service.connections[0].lines == [f"node-bootstrap: the fingerprint of the proof key of node '{NODE}' is {fingerprint(key)}"]
    assert tpm.transient_keys() == []


def test_second_key(world, tpm, key, new_prover):
    """The one that the setting names is used."""
    service = new_prover(key, text="tpm", program=tpm.program)
    world.machine.unit().joined()
    verify(Public(key_of(world.machine, tpm)), submitted(world.server)[0])
    assert any("attestation-key' in" in line and "is not used" in line for connection in service.connections for line in connection.lines)


def test_password_of_the_tpm(world, tpm, new_prover):
    tpm.set_password(ENDORSEMENT)
    new_prover(text="tpm", program=tpm.program)
    world.machine.unit().failed("tpm-error", 74, "0x9a2")
    assert not world.server.seen("create")


def test_no_tpm(world, new_prover):
    """It may come late, so the join tries again, each time with another instance, which may open what has been loaded since."""
    service = new_prover(text="tpm")
    world.machine.write_settings(HEADER + to_yaml({"timeout": "15s"}), "config.yaml.d/30.yaml")
    world.machine.unit().failed("tpm-missing", 78, "gave up after 15 s")
    assert not world.server.seen("create") and len(service.connections) > 2


# As systemd denies a device whose driver has loaded after the start of the instance.
NOT_PERMITTED = """#!/bin/sh
exec {strace} -f -qq -o /dev/null -P /dev/tpmrm0 -e inject=openat:error=EPERM {program} "$@"
"""


@pytest.mark.parametrize("is_there", [False, True], ids=["no device", "not permitted"])
def test_driver_that_loads_late(world, tpm, new_prover, strace, tmp_path, is_there):
    """The instance that cannot open the TPM ends, and the next one signs."""
    early = tmp_path / "early"
    early.write_text(NOT_PERMITTED.format(strace=strace, program=find_program("node-bootstrap")))
    early.chmod(0o755)
    service = new_prover(text="tpm", program=str(early) if is_there else None)
    service.on_connection = lambda connection: setattr(service, "program", tpm.program)
    run = world.machine.unit().joined()
    assert ("Operation not permitted" if is_there else "No such file") in run.stderr and "tpm-missing" in run.codes
    verify(Public(key_of(world.machine, tpm)), submitted(world.server)[0])
    assert len(service.connections) == 2 and service.connections[0].wait() == 0


def test_number_of_connections_with_a_tpm(world, new_prover):
    """At the limit, what the prover has said is reported."""
    service = new_prover(text="tpm")
    world.machine.unit().failed("tpm-missing", 78, "gave up after 30 s")
    assert len(service.connections) == CONNECTIONS_MAX


def test_busy_tpm_is_asked_without_limit(tpm, tmp_path):
    connection = Connection(tmp_path, program=tpm.program).begin(prover.build(), key="tpm")
    tpm.reply = lambda asked: tpms.answer(0x922)
    for _ in range(MESSAGES_MAX + 1):
        assert "0x922" in connection.ask(plain()).detail
    tpm.reply = tpm.call
    assert connection.ask(plain()).proof
    connection.close()


def test_tpm_that_answers_late(world, tpm, new_prover):
    """Its driver times out at first, as while the TPM tests itself: the join waits."""
    answers, failed = tpm.reply, []

    def reply(asked):
        if len(failed) < 2:
            failed.append(asked)
            return tpms.answer(0x922)
        return answers(asked)
    tpm.reply = reply
    new_prover(text="tpm", program=tpm.program)
    world.machine.unit().joined()
    assert len(failed) == 2


def test_unused_key(world, key):
    """Without the setting, it is reported, and the join goes on."""
    path = pathlib.Path("/etc/credstore/node-bootstrap.attestation-key")
    path.write_bytes(pki.key_pem(key))
    try:
        run = world.machine.unit().joined()
        assert "/etc/credstore is not used: proof.key is not 'credential'" in run.stderr
    finally:
        path.unlink()
