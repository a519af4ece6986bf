// Package host is the floor that touches the host: the kernel, libvirt and guests are observed and changed here and nowhere
// else. Its packages may import control, model, channel and base, and what decides is never here.
package host
