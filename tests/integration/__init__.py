# SPDX-License-Identifier: Apache-2.0
"""The real programs against scripted servers."""
