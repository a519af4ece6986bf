// Package realtest runs observe and actuate together on a real kernel, in its own network namespaces, and with a real libvirtd. Most
// machines have no VFs, so a tap replaces the PF and its wire, and the test supplies the VFs' behaviour.
package realtest
