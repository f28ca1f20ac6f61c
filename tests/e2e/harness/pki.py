# SPDX-License-Identifier: Apache-2.0
"""The certificates of a control plane, and small readers for those that nodes get."""

import datetime
import hashlib
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


def name(common, *organizations):
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def key_pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def new_key(kind="ec"):
    return ec.generate_private_key(ec.SECP256R1()) if kind == "ec" else rsa.generate_private_key(65537, 2048)


def public_pem(key):
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


class Authority:
    """A CA; it and what it signs are valid since `age`, and for ten years and one."""

    def __init__(self, common="kubernetes", age=DAY):
        self.key, self.age = new_key(), age
        self.subject = name(common)
        self.certificate = self._sign(self.subject, self.key.public_key(), 3650, [
            (x509.BasicConstraints(ca=True, path_length=None), True),
            (x509.KeyUsage(True, False, True, False, False, True, True, False, False), True),
        ])

    @property
    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def pin(self):
        return pin(self.certificate)

    def _sign(self, subject, public, days, extensions):
        start = datetime.datetime.utcnow() - self.age
        builder = (
            x509.CertificateBuilder().subject_name(subject).issuer_name(self.subject).public_key(public)
            .serial_number(x509.random_serial_number()).not_valid_before(start)
            .not_valid_after(start + days * DAY)
        )
        # Python 3.13 verifies as RFC 5280, 4.2.1, wants a CA's certificates to be: each has both identifiers.
        identifiers = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), x509.SubjectKeyIdentifier.from_public_key(public)
        for extension, critical in [*extensions, *((identifier, False) for identifier in identifiers)]:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self.key, hashes.SHA256())

    def server(self, common, *names):
        alternatives = []
        for one in names:
            try:
                alternatives.append(x509.IPAddress(ipaddress.ip_address(one)))
            except ValueError:
                alternatives.append(x509.DNSName(one))
        return self._issue(name(common), ExtendedKeyUsageOID.SERVER_AUTH, [(x509.SubjectAlternativeName(alternatives), False)])

    def client(self, common, *organizations):
        return self._issue(name(common, *organizations), ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def _issue(self, subject, usage, extensions):
        """A certificate and its key, both as PEM."""
        key = new_key()
        certificate = self._sign(subject, key.public_key(), 365, [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (x509.KeyUsage(True, False, True, False, False, False, False, False, False), True),
            (x509.ExtendedKeyUsage([usage]), False),
            *extensions,
        ])
        return certificate.public_bytes(serialization.Encoding.PEM), key_pem(key)


def pin(certificate):
    """The hash of a certificate's public key, as kubeadm writes it."""
    public = certificate.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return "sha256:" + hashlib.sha256(public).hexdigest()


def common_name(certificate_or_request):
    return certificate_or_request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
