# SPDX-License-Identifier: Apache-2.0
# Workers on Amazon EC2. The token can be read in the state (version 6 of the provider stores user data in clear text), by everybody whom
# IAM allows ec2:DescribeInstanceAttribute, and, from the metadata service, by every process on the machine and every pod with hostNetwork.
# IMDSv2 with a hop limit of 1 excludes the other pods. After the join, a bound token is worthless to them.
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
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
  type = object({ ami = string, instance_type = string, subnet_id = string })
}

resource "aws_instance" "worker" {
  for_each      = nonsensitive(toset(keys(var.tokens)))
  ami           = var.machine.ami
  instance_type = var.machine.instance_type
  subnet_id     = var.machine.subnet_id
  user_data     = module.user_data.of[each.key]
  tags          = { Name = each.key }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  # A new token is for new machines: it must not stop this one.
  lifecycle {
    ignore_changes = [user_data]
  }
}
