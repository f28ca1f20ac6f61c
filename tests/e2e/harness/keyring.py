# SPDX-License-Identifier: Apache-2.0
"""Keys of one test only, in a keyring of gpg that is removed with the session's folder."""

import contextlib
import os
import subprocess


def gpg(*words):
    return subprocess.run(["gpg", "--batch", "--quiet", "--no-auto-check-trustdb", *words], check=True, text=True, stdout=subprocess.PIPE).stdout


def make_key(name, *options):
    """Returns its fingerprint."""
    gpg("--passphrase", "", *options, "--quick-generate-key", name, "default", "sign", "never")
    return next(line.split(":")[9] for line in gpg("--list-secret-keys", "--with-colons", name).splitlines() if line.startswith("fpr"))


@contextlib.contextmanager
def opened(home):
    home.mkdir(0o700)
    os.environ["GNUPGHOME"] = str(home)
    yield
    subprocess.run(["gpgconf", "--kill", "all"], check=True)
    del os.environ["GNUPGHOME"]
