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

// The nouns that callers of Host speak of, by the packages that have them.
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

// Constants of theirs.
const (
	ActiveBackup = netdev.ActiveBackup
	MostShaped   = htb.MostShaped
)

// ErrNoShapers says that this kernel cannot have Shapers at all.
var ErrNoShapers = htb.ErrNoShapers

// NetworkNamespace is the number of the network namespace that this process is in.
func NetworkNamespace() (uint64, error) { return sysif.NetworkNamespace() }
