# SPDX-License-Identifier: Apache-2.0
"""The base of the end-to-end tests: isolation, the root image, the network, the control plane, the machine."""
