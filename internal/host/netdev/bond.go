package netdev

import (
	"fmt"
)

// Bond is the state of a bond.
type Bond struct {
	Mode   BondMode
	Active int // ifindex of the active port of an active-backup bond, 0: none
}

// BondMode is a bonding mode of linux/if_bonding.h.
type BondMode uint8

// ActiveBackup is the mode in which one port at a time sends and receives.
const ActiveBackup BondMode = 1

var bondModes = []string{"balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"}

// String prints the mode as ip(8) does.
func (m BondMode) String() string {
	if int(m) < len(bondModes) {
		return bondModes[m]
	}
	return fmt.Sprintf("mode %d", m)
}
