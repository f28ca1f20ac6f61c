# SPDX-License-Identifier: Apache-2.0
"""Certificates, requests and signatures, of scripted and real clusters.

Everything is real (EC P-256, signed by cryptography); what a healthy cluster would never issue is
a matter of arguments, not of separate code. Times are given in seconds from now.
"""

import base64
import datetime
import hashlib
import hmac
import ipaddress
import json

from cryptography import x509
from cryptography.exceptions import InvalidSignature  # noqa: F401 (for apiserver.py)
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400
CLIENT_AUTH, SERVER_AUTH = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
NODES = "system:nodes"


def node_user(node):
    return f"system:node:{node}"


def new_key(kind="ec"):
    return {"ec": lambda: ec.generate_private_key(ec.SECP256R1()), "rsa": lambda: rsa.generate_private_key(65537, 2048),
            "ed25519": ed25519.Ed25519PrivateKey.generate, "ed448": ed448.Ed448PrivateKey.generate}[kind]()


def is_eddsa(key):
    return isinstance(key, (ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey))


def key_pem(key):
    """The key as kubelet and GnuTLS write it: EC PRIVATE KEY or RSA PRIVATE KEY; PRIVATE KEY for EdDSA."""
    form = serialization.PrivateFormat.PKCS8 if is_eddsa(key) else serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def public_pem(key):
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def load_key(pem):
    return serialization.load_pem_private_key(pem, None)


def cert_pem(cert):
    return cert.public_bytes(serialization.Encoding.PEM)


def der(cert):
    return cert.public_bytes(serialization.Encoding.DER)


def now():
    """In UTC without a time zone, as the times of a certificate."""
    return datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)


def begin(cert):
    """From when on it is valid, as now()."""
    return cert.not_valid_before_utc.replace(tzinfo=None) if hasattr(cert, "not_valid_before_utc") else cert.not_valid_before


def spki(public_key):
    return public_key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def fingerprint(public_key):
    return "sha256:" + hashlib.sha256(spki(public_key)).hexdigest()


def pin(cert):
    """The pin of a CA, in the form of caCertHashes."""
    return fingerprint(cert.public_key())


def name(cn, orgs=(), more=()):
    """O before CN, as in Kubernetes. A value may have more than the 64 characters that X.520 and newer versions of cryptography allow.
    `more`: (OID, value) of each further attribute."""
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, org) for org in orgs]
    parts += [x509.NameAttribute(NameOID.COMMON_NAME, cn, _validate=False)] if cn is not None else []
    return x509.Name(parts + [x509.NameAttribute(*part) for part in more])


def alternative(text):
    """A subject alternative name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.RFC822Name(text) if "@" in text else x509.DNSName(text)


def load_certs(pem):
    """Every certificate of a PEM text, in order."""
    end = b"-----END CERTIFICATE-----"
    return [x509.load_pem_x509_certificate(part[part.index(b"-----BEGIN CERTIFICATE-----"):] + end + b"\n")
            for part in pem.split(end)[:-1]]


def subject(cert_or_csr):
    """(organizations, common names)"""
    def values(oid):
        return [a.value for a in cert_or_csr.subject.get_attributes_for_oid(oid)]
    return values(NameOID.ORGANIZATION_NAME), values(NameOID.COMMON_NAME)


def common_name(cert_or_csr):
    return subject(cert_or_csr)[1][0]


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jws(content, token_id, secret, header=None):
    """The detached signature that the bootstrapsigner writes: the HMAC key is the secret half alone."""
    header = header if header is not None else f'{{"alg":"HS256","kid":"{token_id}"}}'
    protected = b64url(header.encode())
    mac = hmac.new(secret.encode(), f"{protected}.{b64url(content.encode())}".encode(), hashlib.sha256)
    return f"{protected}..{b64url(mac.digest())}"


def _usage(**on):
    every = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
             "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(**{key: on.get(key, False) for key in every})


def verify(cert, issuer):
    """InvalidSignature if the key of `issuer` has not made the signature."""
    more = {rsa.RSAPublicKey: (padding.PKCS1v15(), cert.signature_hash_algorithm),
            ec.EllipticCurvePublicKey: (cert.signature_hash_algorithm and ec.ECDSA(cert.signature_hash_algorithm),)}
    key = issuer.public_key()
    key.verify(cert.signature, cert.tbs_certificate_bytes, *next((rest for kind, rest in more.items() if isinstance(key, kind)), ()))


class Identity:
    """A certificate chain and its key."""

    def __init__(self, key, *certs):
        self.key, self.certs = key, certs

    @property
    def chain(self):
        return b"".join(cert_pem(cert) for cert in self.certs)

    @property
    def pair(self):
        """Chain and key as PEM."""
        return self.chain, key_pem(self.key)

    @property
    def combined(self):
        """The layout of kubelet-client-current.pem."""
        return b"".join(self.pair)

    def write(self, path):
        path.write_bytes(self.combined)
        return path


class CA:
    """A certificate authority; `parent` makes it an intermediate one. Without identifiers of keys, as kubeadm before 1.19 makes them."""

    def __init__(self, cn="kubernetes", *, start=-HOUR, end=10 * YEAR, parent=None, key=None, has_identifier=True):
        self.key = key or new_key()
        self.has_identifier = has_identifier
        self.parent = parent
        issuer = parent or self
        subject_name = name(cn)
        self.cert = issuer._sign(self.key.public_key(), subject_name,
                                 parent.cert.subject if parent else subject_name, start, end, ca=True,
                                 usage=_usage(digital_signature=True, key_encipherment=True, key_cert_sign=True))

    @property
    def pem(self):
        return cert_pem(self.cert)

    @property
    def pin(self):
        return pin(self.cert)

    def _sign(self, public_key, subject_name, issuer_name, start, end, *, ca=False, usage=None, eku=(), sans=()):
        begun = now().replace(microsecond=0)
        builder = (x509.CertificateBuilder().subject_name(subject_name).issuer_name(issuer_name)
                   .public_key(public_key).serial_number(x509.random_serial_number())
                   .not_valid_before(begun + datetime.timedelta(seconds=start))
                   .not_valid_after(begun + datetime.timedelta(seconds=end))
                   .add_extension(x509.BasicConstraints(ca, None), True))
        if self.has_identifier:
            builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), False)
        if usage is not None:
            builder = builder.add_extension(usage, True)
        if ca and self.has_identifier:
            builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), False)
        if eku:
            builder = builder.add_extension(x509.ExtendedKeyUsage(eku), False)
        if sans:
            builder = builder.add_extension(x509.SubjectAlternativeName(sans), False)
        return builder.sign(self.key, None if is_eddsa(self.key) else hashes.SHA256())

    def _issue(self, public_key, subject_name, start, end, **options):
        return self._sign(public_key, subject_name, self.cert.subject, start, end, **options)

    def chain(self):
        """This CA and the ones above it, without the root."""
        return (self.cert, *self.parent.chain()) if self.parent else ()

    def serving(self, names=("127.0.0.1", "localhost", "kubernetes"), *, cn="kube-apiserver", start=-5 * MINUTE, end=YEAR, key="ec"):
        key = new_key(key)
        cert = self._issue(key.public_key(), name(cn), start, end, eku=[SERVER_AUTH], sans=list(map(alternative, names)),
                           usage=_usage(digital_signature=True, key_encipherment=True))
        return Identity(key, cert, *self.chain())

    def client(self, public_key, cn, orgs=(NODES,), *, start=-5 * MINUTE, end=YEAR, ca=False, eku=(CLIENT_AUTH,),
               sans=()):
        """A client certificate as kube-controller-manager issues it; returns the certificate."""
        usage = _usage(digital_signature=True, key_encipherment=True, key_cert_sign=ca)
        return self._issue(public_key, name(cn, orgs), start, end, ca=ca, eku=list(eku), usage=usage, sans=list(sans))

    def user(self, cn, orgs=(), *, key="ec", **options):
        """A client certificate and its key."""
        key = new_key(key)
        return Identity(key, self.client(key.public_key(), cn, orgs, **options), *self.chain())

    def node(self, node="node-1", *, orgs=(NODES,), **options):
        """A whole node identity, as a machine that joined before has it."""
        return self.user(node_user(node), orgs, **options)


def sign_csr(key, cn, orgs=(NODES,), *, more=(), sans=()):
    """A PEM CSR, for tests that submit one in place of the machine. `sans` are strings."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(name(cn, orgs, more))
    if sans:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(map(alternative, sans))), False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def block(label, content):
    text = base64.b64encode(content)
    lines = b"\n".join(text[i:i + 64] for i in range(0, len(text), 64))
    return b"-----BEGIN NODE-BOOTSTRAP %s-----\n%s\n-----END NODE-BOOTSTRAP %s-----\n" % (label, lines, label)


def name_key(key):
    return block(b"PUBLIC KEY", spki(key.public_key()))


def prove(key, pem, token_id, named=None):
    """What a machine with an enrolled key appends to its CSR. `named` is the key that it says it is; False: it does not say."""
    message = f"node-bootstrap attestation v2\n{token_id}\n".encode() + hashlib.sha256(der(x509.load_pem_x509_csr(pem))).digest()
    signature = block(b"KEY SIGNATURE", key.sign(message, ec.ECDSA(hashes.SHA256())))
    return signature if named is False else signature + name_key(named or key)


USAGES = ("digital signature", "key encipherment", "client auth")


def csr_name(public_key, cn, orgs=(NODES,), usages=USAGES):
    """The stable name of a request: a digest over key, subject and usages."""
    items = [spki(public_key), cn.encode(), *(org.encode() for org in orgs), *(usage.encode() for usage in usages)]
    stream = "".join(b64url(item) + "|" for item in items)
    return "node-csr-" + b64url(hashlib.sha256(stream.encode()).digest())


def compact(value):
    """JSON as the API server writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
