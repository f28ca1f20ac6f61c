# SPDX-License-Identifier: Apache-2.0
# Workers on OpenStack. The state has only a SHA-1 of the user data. The token can be read by the cloud's administrators, by root on the
# machine (config drive), and, where the cloud also has the metadata service, by every process on the machine and every pod (a NetworkPolicy
# for 169.254.169.254 excludes pods): use a bound token.
terraform {
  required_providers {
    openstack = { source = "terraform-provider-openstack/openstack" }
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
  type = object({ image_id = string, flavor_name = string, network = string })
}

resource "openstack_compute_instance_v2" "worker" {
  for_each     = nonsensitive(toset(keys(var.tokens)))
  name         = each.key
  image_id     = var.machine.image_id
  flavor_name  = var.machine.flavor_name
  config_drive = true
  user_data    = module.user_data.of[each.key]

  network {
    name = var.machine.network
  }

  # A new token is for new machines: it must not replace this one.
  lifecycle {
    ignore_changes = [user_data]
  }
}
