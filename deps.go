//go:build deps

package deps

import (
	_ "github.com/cilium/ebpf"
	_ "github.com/coreos/go-systemd/v22/daemon"
	_ "github.com/goccy/go-yaml"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/mdlayher/ethtool"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/prometheus/client_golang/prometheus/testutil"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "github.com/vishvananda/netlink"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sync/errgroup"
	_ "gonum.org/v1/plot"
	_ "libvirt.org/go/libvirt"
	_ "libvirt.org/go/libvirtxml"
	_ "pgregory.net/rapid"
)
