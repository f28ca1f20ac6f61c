# SPDX-License-Identifier: Apache-2.0
"""TLS 1.2 servers that cause work on the client without having a key: actions for `ApiServer.on_connect`.

They write the handshake by hand, up to ServerHelloDone, and then keep silent.
"""

import datetime
import functools
import os

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from common import pki
from common.endpoint import Hangup

HANDSHAKE = 22
SERVER_HELLO, CERTIFICATE, SERVER_KEY_EXCHANGE, SERVER_HELLO_DONE = 2, 11, 12, 14
ECDHE_RSA, DHE_RSA = b"\xc0\x2f", b"\x00\x9e"           # WITH_AES_128_GCM_SHA256
RSA_PKCS1_SHA256 = b"\x04\x01"
SECP256R1 = b"\x03\x00\x17"
RECORD_MAX = 16000


def vector(data, size=2):
    return len(data).to_bytes(size, "big") + data


def message(kind, body):
    return bytes([kind]) + vector(body, 3)


def records(data):
    return b"".join(bytes([HANDSHAKE, 3, 3]) + vector(data[at:at + RECORD_MAX]) for at in range(0, len(data), RECORD_MAX))


def number(bits):
    """Odd, and of exactly so many bits."""
    return int.from_bytes(os.urandom(bits // 8), "big") | 1 << bits - 1 | 1


def to_bytes(value):
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


# Certificates.

def der(tag, *parts):
    content = b"".join(parts)
    length = len(content)
    head = bytes([length]) if length < 0x80 else bytes([0x80 + len(to_bytes(length))]) + to_bytes(length)
    return bytes([tag]) + head + content


def integer(value):
    return der(2, b"\0" * (value.bit_length() % 8 == 0) + to_bytes(value))


@functools.cache
def template():
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime(2026, 1, 1)
    name = pki.name("kube-apiserver")
    return (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
            .not_valid_before(now).not_valid_after(now + datetime.timedelta(days=9999)).sign(key, hashes.SHA256()))


@functools.cache
def costly_certificate(bits):
    """With a modulus and an exponent of random bits: there is no private key."""
    rsa_key = der(0x30, integer(number(bits)), integer(number(bits)))
    algorithm = bytes.fromhex("300d06092a864886f70d0101010500")
    spki = der(0x30, algorithm, der(3, b"\0", rsa_key))
    tbs, old = template().tbs_certificate_bytes, pki.spki(template().public_key())
    head = 4 if tbs[1] == 0x82 else 3
    return der(0x30, der(0x30, tbs[head:].replace(old, spki)), der(0x30, bytes.fromhex("06082a8648ce3d040302")), der(3, b"\0", template().signature))


@functools.cache
def own_identity():
    key = rsa.generate_private_key(65537, 2048)
    now = datetime.datetime(2026, 1, 1)
    cert = (x509.CertificateBuilder().subject_name(pki.name("kube-apiserver")).issuer_name(pki.name("kubernetes")).public_key(key.public_key())
            .serial_number(2).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=9999)).sign(key, hashes.SHA256()))
    return key, pki.der(cert)


# Flights.

def read_client_random(connection):
    data = b""
    while len(data) < 43:
        more = connection.sock.recv(65536)
        if not more:
            raise Hangup
        data += more
    return data[11:43]


def flight(suite, certificates, key_exchange):
    server_random = os.urandom(32)
    hello = message(SERVER_HELLO, b"\x03\x03" + server_random + b"\0" + suite + b"\0" + vector(b"\xff\x01\x00\x01\x00"))
    chain = message(CERTIFICATE, vector(b"".join(vector(certificate, 3) for certificate in certificates), 3))
    return hello + chain + message(SERVER_KEY_EXCHANGE, key_exchange(server_random)) + message(SERVER_HELLO_DONE, b"")


def keep_silent(connection):
    """Until the machine disconnects: `connection.left` is set then."""
    try:
        while connection.sock.recv(65536):
            pass
    except OSError:
        pass
    raise Hangup


def serve(make):
    def on_connect(connection):
        data = make(read_client_random(connection))
        try:
            connection.sock.sendall(data)
        except OSError:
            pass
        connection.is_bombed = True
        keep_silent(connection)
    return on_connect


def curve_point():
    point = ec.generate_private_key(ec.SECP256R1()).public_key().public_numbers()
    return SECP256R1 + vector(b"\x04" + point.x.to_bytes(32, "big") + point.y.to_bytes(32, "big"), 1)


def huge_rsa(bits=65536):
    """An invalid signature, by a key so large that verifying it would take half an hour of CPU time."""
    def make(_):
        return records(flight(ECDHE_RSA, [costly_certificate(bits)],
                              lambda _: curve_point() + RSA_PKCS1_SHA256 + vector(b"\x5a" * (bits // 8))))
    return serve(make)


def huge_dhe(bits=65536):
    """A group with a huge modulus, with a valid signature of its own."""
    def make(client_random):
        key, certificate = own_identity()
        p = number(bits)
        parameters = vector(to_bytes(p)) + vector(to_bytes(3)) + vector(to_bytes(p - 2))

        def exchange(server_random):
            signature = key.sign(client_random + server_random + parameters, padding.PKCS1v15(), hashes.SHA256())
            return parameters + RSA_PKCS1_SHA256 + vector(signature)
        return records(flight(DHE_RSA, [certificate], exchange))
    return serve(make)


def huge_chain(size=15 << 20):
    """An endless certificate chain."""
    certificates = [costly_certificate(8192)] * (size // len(costly_certificate(8192)))

    def make(_):
        return records(flight(ECDHE_RSA, certificates, lambda _: curve_point() + RSA_PKCS1_SHA256 + vector(b"\x5a" * 1024)))
    return serve(make)


def silent_after_hello(connection):
    read_client_random(connection)
    connection.sock.sendall(records(flight(ECDHE_RSA, [own_identity()[1]], lambda _: b""))[:90])
    keep_silent(connection)


def drip(connection):
    """A handshake that arrives one byte at a time."""
    read_client_random(connection)
    for byte in records(flight(ECDHE_RSA, [own_identity()[1]], lambda _: b"")):
        if connection.server.stopping.wait(0.1):
            break
        try:
            connection.sock.sendall(bytes([byte]))
        except OSError:
            break
    raise Hangup


def from_connection(first, action):
    """That one and those after it."""
    def on_connect(connection):
        if connection.number >= first:
            action(connection)
    return on_connect
