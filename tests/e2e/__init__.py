# SPDX-License-Identifier: Apache-2.0
"""End to end: real machines, a real control plane, a real kubelet."""
