# SPDX-License-Identifier: Apache-2.0
"""The TPM of a machine: one in software, which common/tpm.py can clear, lock and fill, as /dev/tpmrm0."""

import contextlib
import os
import shutil

from common.tpm import Tpm

DEVICE = "/dev/tpmrm0"


@contextlib.contextmanager
def tpm_of(node, copy_of=None, owner=0, group=0, mode=0o600, device=DEVICE):
    """Boot the machine within it, with options_of() the TPM. `copy_of`: a TPM whose state is copied, as that of a virtual machine can be."""
    folder = node.directory / "tpm"
    if copy_of:
        shutil.copytree(copy_of.folder, folder)
    tpm = Tpm(folder)
    tpm.device = device
    try:
        os.chown(tpm.path, owner, group)
        os.chmod(tpm.path, mode)
        yield tpm
    finally:
        tpm.close()


def options_of(tpm):
    return [f"--bind={tpm.path}:{tpm.device}"]
