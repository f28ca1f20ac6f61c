# SPDX-License-Identifier: Apache-2.0
# Workers on Hetzner Cloud. The state has only a hash of the user data, and the API does not return it. The token can be read, from the
# metadata service, by every process on the machine and every pod (a NetworkPolicy for 169.254.169.254 excludes pods): use a bound token.
terraform {
  required_providers {
    hcloud = { source = "hetznercloud/hcloud" }
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
  type = object({ image = string, type = string, location = string })
}

resource "hcloud_server" "worker" {
  for_each    = nonsensitive(toset(keys(var.tokens)))
  name        = each.key
  image       = var.machine.image
  server_type = var.machine.type
  location    = var.machine.location
  user_data   = module.user_data.of[each.key]

  # A new token is for new machines: it must not replace this one.
  lifecycle {
    ignore_changes = [user_data]
  }
}
