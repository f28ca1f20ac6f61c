# SPDX-License-Identifier: Apache-2.0
"""Measurements. Each module is a program: run `python3 -B -m bench.NAME` in tests/."""
