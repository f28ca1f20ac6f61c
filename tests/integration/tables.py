# SPDX-License-Identifier: Apache-2.0
"""The tables of the programs, as tables.c prints them."""

import functools
import json
import subprocess

from common.machine import find_program


@functools.cache
def tables():
    return json.loads(subprocess.run([find_program("tables")], check=True, stdout=subprocess.PIPE).stdout)
