// Package inside is the floor of what runs inside virtual machines: the service sluice-guest and the CNI plugin sluice-cni.
// They stay small: they may import channel and base, and nothing of the host.
package inside
