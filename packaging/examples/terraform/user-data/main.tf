# SPDX-License-Identifier: Apache-2.0
# The user data of each machine, for the examples in the folders beside this one. docs/first-boot.md describes both forms.
#
# Create each token shortly before `terraform apply`, bound to its node. It is then for this node and one use, expires in an hour, and is
# revoked after the join: what anybody reads later in a state, a plan or the user data is worthless. With "umask 077", for two machines:
#
#   token() { node-bootstrap-admin token create --node="$1" --print=credential; }
#   printf '{"tokens": {"worker-1": "%s", "worker-2": "%s"}}\n' "$(token worker-1)" "$(token worker-2)" >tokens.auto.tfvars.json
#
# "node-bootstrap-admin cluster-info show" prints the endpoint and the pin. docs/images.md says what the image of the machines contains.
#
# "sensitive" only hides values in the output of Terraform: its plan files contain the tokens, and the state does unless an example says
# otherwise. Encrypt the state and restrict who reads it; delete plan files. An unbound token is worth much more to a thief: do not use one.
# An enrolled token needs a key that is on the machine before its first boot, which a new virtual machine does not have.
terraform {
  required_version = ">= 1.3"
}

variable "tokens" {
  type      = map(string)
  sensitive = true
}

variable "cluster" {
  type = object({ endpoint = string, pin = string, form = string })
}

output "of" {
  description = "By the name of the node"
  sensitive   = true
  value = {
    for node, token in var.tokens : node => templatefile("${path.module}/${var.cluster.form}.tftpl", {
      node     = node
      token    = token
      endpoint = var.cluster.endpoint
      pin      = var.cluster.pin
    })
  }
}
