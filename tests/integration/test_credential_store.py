# SPDX-License-Identifier: Apache-2.0
"""A credential that systemd delivers with mode 0400 must also have a safe mode in the credential store."""

import subprocess

import pytest

from common.machine import TOKEN, find_program
from common.wait import PATIENCE
from .check import OTHER, Place

pytestmark = pytest.mark.each_release


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.parametrize(("name", "stored", "is_exposed"), [("token", TOKEN, True), ("token", OTHER, False), ("cluster-info", TOKEN, False)])
def test_a_credential_that_others_can_read_where_it_comes_from(place, tmp_path, name, stored, is_exposed):
    """As the service has it, with mode 0400: a join refuses what `check` refuses."""
    place.settings()
    place.put(f"run/delivered/node-bootstrap.{name}", TOKEN, 0o400)
    place.token(stored, name=name, mode=0o644)
    done = place.check(CREDENTIALS_DIRECTORY="/run/delivered")
    *within, program, _, _ = place.argv()
    (tmp_path / "run/root").mkdir()
    argv = [*within, find_program("install"), "--root=/run/root", f"--program={program}"]
    joined = subprocess.run(argv, env=place.environment(CREDENTIALS_DIRECTORY="/run/delivered", STATE_DIRECTORY="/run/delivered"),
                            check=False, text=True, capture_output=True, timeout=PATIENCE) if is_exposed else None
    assert ("token-exposed" in done.stdout) == is_exposed
    assert not joined or (joined.returncode == 78 and "expected no access for others" in joined.stderr), joined
