# SPDX-License-Identifier: Apache-2.0
# Workers on Google Compute Engine. The token can be read in the state, by everybody who may view instances of the project, and, from the
# metadata server, by every process on the machine and every pod (a NetworkPolicy for 169.254.169.254 excludes pods): use a bound token.
terraform {
  required_providers {
    google = { source = "hashicorp/google" }
  }
}

variable "tokens" {
  description = "Bound tokens by node name; see ../user-data"
  type        = map(string)
  sensitive   = true
}

variable "cluster" {
  description = "form: cloud-init, or node-bootstrap for an image without cloud-init"
  type        = object({ endpoint = string, pin = string, form = optional(string, "cloud-init") })
}

module "user_data" {
  source  = "../user-data"
  tokens  = var.tokens
  cluster = var.cluster
}

variable "machine" {
  type = object({ zone = string, type = string, image = string, subnetwork = string })
}

resource "google_compute_instance" "worker" {
  for_each     = nonsensitive(toset(keys(var.tokens)))
  name         = each.key
  zone         = var.machine.zone
  machine_type = var.machine.type
  metadata     = { user-data = module.user_data.of[each.key] }

  boot_disk {
    initialize_params {
      image = var.machine.image
    }
  }

  network_interface {
    subnetwork = var.machine.subnetwork
  }

  # A new token is for new machines.
  lifecycle {
    ignore_changes = [metadata["user-data"]]
  }
}
