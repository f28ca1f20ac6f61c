# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests, the integration tests and the benchmarks share."""

from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
