# SPDX-License-Identifier: Apache-2.0
"""Measurements. Each module is a program, which `python3 -B -m bench.NAME` runs in tests/."""
