// Package guest holds what guests install so that a bond or a team fails over between a virtio NIC and a VF. The
// package sluice-guest brings these files, and the lab's guests run them.
package guest

import "embed"

// Files are those files, by name.
//
//go:embed bond 85-sluice-vf.rules sluice-bond@.service 05-sluice-vf.network
var Files embed.FS
