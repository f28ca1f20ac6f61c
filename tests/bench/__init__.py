# SPDX-License-Identifier: Apache-2.0
"""Measurements: each module is a program."""
