# SPDX-License-Identifier: Apache-2.0
"""A key in a TPM: signatures by a real TPM 2.0 in software, and what is said when it does not sign."""

import subprocess

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding

from common import tpm as tpms
from common.machine import find_program
from common.tpm import CREATE_PRIMARY, ENDORSEMENT, FLUSH_CONTEXT, HASH, SIGN, Tpm, answer, number
from common.wait import until

pytestmark = pytest.mark.each_release
MESSAGE = "node-bootstrap attestation v2\n"
DEFAULT = "0"
PERSISTENT = "0x81000003"
NV = "0x01c10001"
MISSING = "/dev/node-bootstrap-missing"


@pytest.fixture
def tpm(tmp_path):
    started = Tpm(tmp_path / "tpm")
    yield started
    started.close()


def ask(path, key=DEFAULT, message=MESSAGE, version_file=MISSING, timeout_ms=60000):
    return subprocess.run([find_program("tpm_sign"), path, version_file, key, str(timeout_ms), *([message] if message else [])],
                          check=False, text=True, stdout=subprocess.PIPE)



def assert_signs(tpm, key=DEFAULT):
    done = ask(tpm.path, key)
    assert done.returncode == 0, done.stdout
    spki, signature = (bytes.fromhex(line) for line in done.stdout.split())
    public = serialization.load_der_public_key(spki)
    scheme = [ec.ECDSA(hashes.SHA256())] if isinstance(public, ec.EllipticCurvePublicKey) else [padding.PKCS1v15(), hashes.SHA256()]
    public.verify(signature, MESSAGE.encode(), *scheme)
    with pytest.raises(InvalidSignature):
        public.verify(signature, b"another", *scheme)
    assert tpm.transient_keys() == []
    return spki


def assert_fails(tpm, text, key=DEFAULT, **options):
    done = ask(tpm.path, key, **options)
    assert (done.returncode, done.stdout.strip()) == (1, text)


def test_the_default_key_is_the_same_after_a_clear_and_in_lockout(tpm):
    key = assert_signs(tpm)
    tpm.lock_out()
    assert assert_signs(tpm) == key
    tpm.clear()
    assert assert_signs(tpm) == key
    tpm.set_password(tpms.OWNER)
    assert assert_signs(tpm) == key


def test_another_tpm_has_another_default_key(tpm, tmp_path):
    other = Tpm(tmp_path / "other")
    try:
        assert assert_signs(tpm) != assert_signs(other)
    finally:
        other.close()


def test_the_key_is_flushed_after_four_commands(tpm):
    assert_signs(tpm)
    # Not each version of libtpms asks to repeat a command.
    assert list(dict.fromkeys(tpm.codes)) == [CREATE_PRIMARY, HASH, SIGN, FLUSH_CONTEXT]


@pytest.mark.parametrize("template", [tpms.rsa(), tpms.ecc(), tpms.rsa(tpms.UNRESTRICTED, b"\0\x10"), tpms.ecc(tpms.UNRESTRICTED, b"\0\x10")],
                         ids=["RSA", "ECC", "RSA without a scheme", "ECC without a scheme"])
def test_a_persistent_key_and_one_from_a_template_sign(tpm, template):
    tpm.persist(int(PERSISTENT, 16), template)
    tpm.define(int(NV, 16), template)
    assert assert_signs(tpm, PERSISTENT) != assert_signs(tpm, NV)
    assert assert_signs(tpm, NV) == assert_signs(tpm, NV)


@pytest.mark.parametrize("prepare, key, text", [
    (lambda tpm: tpm.set_password(ENDORSEMENT), DEFAULT, "the TPM answered CreatePrimary with 0x9a2"),
    (lambda tpm: tpm.set_password(tpms.OWNER), NV, "the TPM answered NV_Read with 0x9a2"),
    (Tpm.lock_out, PERSISTENT, "the TPM answered Sign with 0x921"),
    (Tpm.lock_out, NV, "the TPM answered Sign with 0x921"),
    (Tpm.clear, PERSISTENT, "the TPM answered ReadPublic with 0x18b"),
    (lambda tpm: None, "0x81000004", "the TPM answered ReadPublic with 0x18b"),
    (lambda tpm: None, "0x01c10004", "the TPM answered NV_ReadPublic with 0x18b"),
    (lambda tpm: tpm.define(0x01C10004, bytes(100)), "0x01c10004", "the TPM answered CreatePrimary with 0x2ca"),
], ids=["endorsement password", "owner password", "lockout", "lockout and template", "cleared", "no key", "no index", "no template"])
def test_what_the_tpm_refuses_is_final_and_has_its_code(tpm, prepare, key, text):
    tpm.persist(int(PERSISTENT, 16), tpms.rsa())
    tpm.define(int(NV, 16), tpms.ecc())
    prepare(tpm)
    assert_fails(tpm, f"tpm-error fatal: {text}", key)


@pytest.mark.parametrize("attributes, code, counted", [(tpms.ATTESTATION, "0x98e", 1), (tpms.UNRESTRICTED, "0x9a2", 0)],
                         ids=["counted", "noDA"])
def test_a_password_of_a_key_is_final_and_may_be_counted(tpm, attributes, code, counted):
    tpm.persist(int(PERSISTENT, 16), tpms.ecc(attributes), b"secret")
    assert_fails(tpm, f"tpm-error fatal: the TPM answered Sign with {code}", PERSISTENT)
    assert tpm.wrong_passwords() == counted


def test_a_storage_key_is_refused(tpm):
    tpm.persist(int(PERSISTENT, 16), tpms.rsa(tpms.STORAGE, b"\0\x10", bytes.fromhex("000600800043")))
    assert "the key in the TPM is unusable" in ask(tpm.path, PERSISTENT).stdout


def only(code, reply):
    """The TPM with a fault in one command."""
    return lambda tpm: lambda command: reply(tpm, command) if int.from_bytes(command[6:10], "big") == code else tpm.call(command)


@pytest.mark.parametrize("reply", [lambda command: None, lambda command: answer(0, bytes(20))[:20]], ids=["silent", "short"])
def test_a_tpm_that_does_not_answer_may_answer_later(tpm, reply):
    tpm.reply = reply
    assert ask(tpm.path, timeout_ms=500).stdout == "tpm-error wait: the TPM did not carry out CreatePrimary: Connection timed out\n"
    until(lambda: tpm.codes, "the command arrives")
    tpm.reopen()
    tpm.reply = tpm.call
    assert_signs(tpm)


@pytest.mark.parametrize("fault, text", [
    (only(SIGN, lambda tpm, command: answer(0x922)), "wait: the TPM answered Sign with 0x922"),
    (only(SIGN, lambda tpm, command: answer(0x90A)), "wait: the TPM answered Sign with 0x90a"),
    (only(HASH, lambda tpm, command: number(0x8001, 2) + number(12, 4) + b"garbag"), "fatal: the TPM answered Hash with 0x67617262"),
    (only(HASH, lambda tpm, command: b"garbage from a TPM"), "fatal: the TPM's answer to Hash is malformed"),
    (only(SIGN, lambda tpm, command: answer(0)), "fatal: the TPM's answer to Sign is malformed"),
], ids=["always busy", "always testing", "garbage as a code", "garbage", "empty"])
def test_a_bad_answer_is_refused_and_a_good_one_signs_later(tpm, fault, text):
    tpm.reply = fault(tpm)
    assert_fails(tpm, f"tpm-error {text}")
    tpm.reply = tpm.call
    assert_signs(tpm)


def test_a_command_is_repeated_when_the_tpm_asks_for_it(tpm):
    asked = []

    def reply(command):
        asked.append(command)
        return answer([0x922, 0x90A][len(asked) % 2]) if asked.count(command) <= 3 else tpm.call(command)

    tpm.reply = reply
    assert_signs(tpm)


def test_what_opens_no_tpm(tmp_path):
    first = tmp_path / "tpm_version_major"
    first.write_text("1\n")
    second = tmp_path / "two"
    second.write_text("2\n")
    missing = f"tpm-missing confirm: '{MISSING}' cannot be opened: No such file or directory\n"
    assert ask(MISSING).stdout == missing
    assert ask(MISSING, version_file=second).stdout == missing
    assert ask(MISSING, version_file=first).stdout == "tpm-error fatal: the TPM of this machine is a TPM 1.2; expected a TPM 2.0\n"
    assert ask(tmp_path).stdout == f"tpm-error fatal: '{tmp_path}' cannot be opened: Is a directory\n"
