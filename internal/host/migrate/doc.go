// Package migrate reads and edits the domain XML that libvirt's hook gets when a VM migrates
// in: its VFs of Sluice's bear the PCI addresses that they had on the host it comes from. It is pure: XML in, XML out.
package migrate
