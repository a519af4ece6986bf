// Package inside is the directory of what runs inside virtual machines: the service sluice-guest and the CNI plugin sluice-cni. Both
// stay small: they may import channel and base, but nothing of the host.
package inside
