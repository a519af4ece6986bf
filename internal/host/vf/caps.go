package vf

import (
	"strings"

	"sluice/internal/model"
)

// driverCaps lists what drivers support for VFs, by the driver name that sysfs gives for the PF: whether they implement
// ndo_set_vf_rate, its min_tx_rate, ndo_get_vf_stats and ndo_set_vf_trust in Linux 6.12, drivers/net/ethernet. The columns are
// maximum rate, minimum rate, counters, trust. The kernel reports zeros for what a driver lacks, so this cannot be detected at
// run time. Drivers not listed are Unknown.
var driverCaps = map[string]model.Caps{
	"igb":        caps("ynny"), // igb_ndo_set_vf_bw refuses min_tx_rate; maximum: see capsOf
	"ixgbe":      caps("ynyy"), // ixgbe_ndo_set_vf_bw refuses min_tx_rate
	"i40e":       caps("ynyy"), // i40e_ndo_set_vf_bw refuses min_tx_rate
	"ice":        caps("yyyy"), // ice_set_vf_bw: min_tx_rate not with DCB
	"mlx5_core":  caps("yyyy"), // mlx5e_set_vf_rate, mlx5e_get_vf_stats; legacy mode
	"mlx4_core":  caps("ynyn"), // mlx4_en_set_vf_rate: if the firmware supports it
	"bnxt_en":    caps("yyny"), // bnxt_set_vf_bw
	"qede":       caps("yyny"), // qede_set_vf_rate
	"nfp":        caps("yyny"), // nfp_app_set_vf_rate
	"sfc":        caps("nnnn"), // efx_sriov_*: MAC, VLAN, spoof check, link state only
	"virtio_net": caps("nnnn"), // no VF operations at all
	"virtio-pci": caps("nnnn"), // the driver name of a virtio_net PF's PCI device
}

var triOf = map[byte]model.Tri{'y': model.Yes, 'n': model.No}

func caps(s string) model.Caps {
	return model.Caps{
		MaxTxRate:  triOf[s[0]],
		MinTxRate:  triOf[s[1]],
		VFCounters: triOf[s[2]],
		Trust:      triOf[s[3]],
	}
}

// OwnCounters reports whether a driver's representors show the counters of the VF itself, so that tx is what the VF sends: ice does
// (ice_repr_get_stats64). Those of mlx5_core, nfp and bnxt_en show what the switch's port moves, and rx is what the VF sends.
func OwnCounters(driver string) bool { return driver == "ice" }

// igbRARs is the number of receive address registers of the chips that igb supports, by PCI device ID (igb's e1000_hw.h, and
// rar_entry_count in e1000_82575.c).
var igbRARs = map[string]int{
	"0x10c9": 24, "0x10e6": 24, "0x10e7": 24, "0x10e8": 24, // 82576
	"0x1526": 24, "0x150a": 24, "0x1518": 24, "0x150d": 24,
	"0x1521": 32, "0x1522": 32, "0x1523": 32, "0x1524": 32, // I350
}

// capsOf returns the capabilities of a PF's driver, and how many filters the PF has for unicast addresses other than its own, 0
// if unknown. device is the PCI device ID as sysfs prints it.
func capsOf(driver, device string, numVFs int) (model.Caps, int) {
	c := driverCaps[driver]
	rars := igbRARs[strings.ToLower(device)]
	if driver != "igb" {
		return c, 0
	}
	switch rars {
	case 0:
		c.MaxTxRate = model.Unknown
		return c, 0
	case 32:
		c.MaxTxRate = model.No // igb_ndo_set_vf_bw: 82576 only
	}
	// igb_available_rars: one register holds the PF's own address, one is reserved for each VF.
	return c, max(rars-1-numVFs, 0)
}
