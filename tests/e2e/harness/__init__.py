# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests stand on: isolation, the root image, the network, the control plane, the machine."""
