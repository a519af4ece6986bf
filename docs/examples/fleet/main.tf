# Makes VMs at the hosts where `sluice fleet place` has claimed their guarantees, and releases these when they are destroyed.
# The environment says where Placement is, as for sluice. An UUID and a MAC address of each VM are kept here, because they name its claim.
variable "vms" {
  type = map(object({ uuid = string, mac = string, guarantee = string, network = string }))
}

variable "uri" {
  description = "libvirt at a host"
  default     = "qemu+ssh://HOST/system"
}

locals {
  where = "mkdir -p claims && sluice fleet where $UUID --mac $MAC -o json > claims/$UUID.json"
  place = "mkdir -p claims && sluice fleet place $UUID --mac $MAC --guarantee \"$GUARANTEE\" --network $NETWORK -o json > claims/$UUID.json"
}

resource "terraform_data" "claim" {
  for_each         = var.vms
  input            = { UUID = each.value.uuid, MAC = each.value.mac, GUARANTEE = each.value.guarantee, NETWORK = each.value.network }
  triggers_replace = each.value

  provisioner "local-exec" {
    command     = local.place
    environment = self.input
  }
  provisioner "local-exec" {
    when        = destroy
    command     = "sluice fleet where $UUID --mac $MAC -o json | grep -q '\"host\": \"\"' || sluice fleet release $UUID --mac $MAC"
    environment = self.input
  }
}

resource "terraform_data" "vm" {
  for_each = var.vms
  input = {
    env   = terraform_data.claim[each.key].output
    name  = each.key
    uri   = var.uri
    where = local.where
  }
  triggers_replace = terraform_data.claim[each.key].id

  provisioner "local-exec" {
    command = "virsh -c $URI define vm-$NAME.xml && virsh -c $URI start $NAME"
    environment = {
      NAME = self.input.name
      URI  = replace(self.input.uri, "HOST", jsondecode(file("claims/${self.input.env.UUID}.json")).host)
    }
  }
  # It may have been migrated since.
  provisioner "local-exec" {
    when        = destroy
    command     = self.input.where
    environment = self.input.env
  }
  provisioner "local-exec" {
    when    = destroy
    command = "[ -z \"$HOST\" ] || { virsh -c $URI destroy $NAME; virsh -c $URI undefine $NAME; }"
    environment = {
      NAME = self.input.name
      HOST = jsondecode(file("claims/${self.input.env.UUID}.json")).host
      URI  = replace(self.input.uri, "HOST", jsondecode(file("claims/${self.input.env.UUID}.json")).host)
    }
  }
}
