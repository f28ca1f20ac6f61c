# SPDX-License-Identifier: Apache-2.0
# Workers on Microsoft Azure. The token can be read in the state. With cloud-init it is in the custom data, which only root on the machine
# can read. Without cloud-init it is in the user data, which every process on the machine and every pod can read from the metadata service
# (a NetworkPolicy for 169.254.169.254 excludes pods), and everybody who may read the machine with $expand=userData: use a bound token.
terraform {
  required_providers {
    azurerm = { source = "hashicorp/azurerm" }
  }
}

provider "azurerm" {
  features {}
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
  type = object({ group = string, location = string, size = string, image_id = string, subnet_id = string, public_key = string })
}

resource "azurerm_network_interface" "worker" {
  for_each            = nonsensitive(toset(keys(var.tokens)))
  name                = each.key
  resource_group_name = var.machine.group
  location            = var.machine.location

  ip_configuration {
    name                          = "internal"
    subnet_id                     = var.machine.subnet_id
    private_ip_address_allocation = "Dynamic"
  }
}

resource "azurerm_linux_virtual_machine" "worker" {
  for_each              = nonsensitive(toset(keys(var.tokens)))
  name                  = each.key
  resource_group_name   = var.machine.group
  location              = var.machine.location
  size                  = var.machine.size
  source_image_id       = var.machine.image_id
  network_interface_ids = [azurerm_network_interface.worker[each.key].id]
  admin_username        = "azureuser"
  custom_data           = var.cluster.form == "cloud-init" ? base64encode(module.user_data.of[each.key]) : null
  user_data             = var.cluster.form == "cloud-init" ? null : base64encode(module.user_data.of[each.key])

  admin_ssh_key {
    username   = "azureuser"
    public_key = var.machine.public_key
  }

  os_disk {
    caching              = "ReadWrite"
    storage_account_type = "Standard_LRS"
  }

  # A new token is for new machines: it must not replace this one.
  lifecycle {
    ignore_changes = [custom_data, user_data]
  }
}
