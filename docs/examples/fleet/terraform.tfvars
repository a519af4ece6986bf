vms = {
  db-1 = { uuid = "0b0c4fa4-6d2c-4b0e-9a35-5b9a2c2a1f01", mac = "52:54:00:00:00:01", guarantee = "2Gbit", network = "br0" }
}
