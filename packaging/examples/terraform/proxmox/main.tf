# SPDX-License-Identifier: Apache-2.0
# Workers on Proxmox VE, which gives each machine its user data on a NoCloud volume. The token can be read in the state and, on the host, in
# the snippet and on this volume. On the machine only root can read the volume; there is no metadata service. Use a bound token.
terraform {
  required_providers {
    proxmox = { source = "bpg/proxmox" }
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
  type = object({ host = string, template_id = string, snippets = string, bridge = string })
}

resource "proxmox_virtual_environment_file" "user_data" {
  for_each     = nonsensitive(toset(keys(var.tokens)))
  content_type = "snippets"
  datastore_id = var.machine.snippets
  node_name    = var.machine.host

  source_raw {
    file_name = "${each.key}.user-data.yaml"
    data      = module.user_data.of[each.key]
  }

  # A new token is for new machines: it must not replace the user data of this one.
  lifecycle {
    ignore_changes = [source_raw]
  }
}

resource "proxmox_virtual_environment_vm" "worker" {
  for_each  = nonsensitive(toset(keys(var.tokens)))
  name      = each.key
  node_name = var.machine.host

  clone {
    vm_id = tonumber(var.machine.template_id)
  }

  initialization {
    type              = "nocloud"
    user_data_file_id = proxmox_virtual_environment_file.user_data[each.key].id

    ip_config {
      ipv4 {
        address = "dhcp"
      }
    }
  }

  network_device {
    bridge = var.machine.bridge
  }
}
