package kernel

import (
	"sluice/internal/host/bridge"
	"sluice/internal/host/counters"
	"sluice/internal/host/htb"
	"sluice/internal/host/mirror"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/host/tap"
	"sluice/internal/host/vf"
)

// The types of the sub-packages that callers of Host use.
type (
	Bond          = netdev.Bond
	BondMode      = netdev.BondMode
	Counters      = netdev.Counters
	Link          = netdev.Link
	FDBEntry      = bridge.FDBEntry
	Hardware      = vf.Hardware
	PFInfo        = vf.PFInfo
	VFCounters    = vf.VFCounters
	VFRates       = vf.VFRates
	VFSettings    = vf.VFSettings
	VFUse         = vf.VFUse
	CounterReader = counters.CounterReader
	LinkCounters  = counters.LinkCounters
	Mirror        = mirror.Mirror
	Window        = mirror.Window
	PathRates     = tap.PathRates
	TapDrops      = tap.TapDrops
	TapPolicy     = tap.TapPolicy
	Shaper        = htb.Shaper
	ShaperClass   = htb.ShaperClass
)

// Their constants.
const (
	ActiveBackup = netdev.ActiveBackup
	MostShaped   = htb.MostShaped
)

// ErrNoShapers means that this kernel does not support Shapers.
var ErrNoShapers = htb.ErrNoShapers

// NetworkNamespace returns the inode number of the network namespace of this process.
func NetworkNamespace() (uint64, error) { return sysif.NetworkNamespace() }
