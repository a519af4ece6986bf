// Package realtest runs observe and actuate together on a real kernel, in network
// namespaces of its own, and on a real libvirtd. VFs there are none on most machines: a
// tap stands for the PF and its wire, and the test says what VFs do.
package realtest
