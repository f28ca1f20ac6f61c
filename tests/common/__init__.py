# SPDX-License-Identifier: Apache-2.0
"""Modules that the integration tests, the end-to-end tests and the benchmarks share."""

from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
