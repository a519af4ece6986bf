// Package migrate reads and edits the domain XML that libvirt passes to its hook when a VM migrates in: the VFs assigned by Sluice still
// have the PCI addresses of the source host. It is pure: XML in, XML out.
package migrate
