// Command sluice-cni is a CNI plugin that gives containers virtual VFs under a policy that the host enforces.
package main

import (
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	ours "sluice/internal/base/version"
	"sluice/internal/inside/cni"
)

// linked is set by the linker: -ldflags "-X main.linked=1.2.3".
var linked string

func main() {
	skel.PluginMainFuncs(cni.New().Funcs(), version.All, "CNI plugin sluice-cni "+ours.Or(linked))
}
