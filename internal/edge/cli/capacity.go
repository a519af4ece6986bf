package cli

import (
	"cmp"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/client"
	"sluice/internal/model"
)

func (a *app) capacityCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "capacity", Short: "show what the host can still guarantee to VMs that are to come",
		Long: `Lists the PFs that networks of VMs are behind, with what their links carry, what of that is
guaranteed to VMs that are here, and what is free: a guarantee that fits there is admitted.
Below is the same of the packets per second that the host carries on virtio. VMs that have
a VF now count there too, because they may return to virtio at any time. Below that are the
claims of the fleet, and why one is refused.`,
		Example: "sluice capacity\nsluice capacity -o json | jq '.pfs[] | select(.bits_per_second.free >= 2e9).pf'",
		Args:    noArgs,
	}
	return answering(a, c, (*client.Client).Capacity, printHostCapacity)
}

func printHostCapacity(w io.Writer, c api.HostCapacity) {
	var rows [][]string
	for _, pf := range c.PFs {
		link, numa := "down", "?"
		if pf.LinkUp {
			link = "up"
		}
		if pf.NUMANode >= 0 {
			numa = strconv.Itoa(pf.NUMANode)
		}
		rate := func(x float64) string { return model.Rate{Bits: uint64(x)}.String() }
		rows = append(rows, capacityRow([]string{pf.PF, pf.Network, link, numa}, pf.Bits, rate))
	}
	table(w, "PF NETWORK LINK NUMA CARRIES GUARANTEED FREE", rows)
	fmt.Fprintln(w)
	if c.Packets.Total == 0 {
		fmt.Fprintln(w, "How many packets/s the host carries on virtio is not known: bandwidth.packets of sluice.yaml says it.")
	} else {
		packets := capacityRow(nil, c.Packets, func(x float64) string { return model.Rate{Packets: uint64(x)}.String() })
		fmt.Fprintf(w, "packets/s on virtio: %s carried, %s guaranteed, %s free\n", packets[0], packets[1], packets[2])
	}
	printClaims(w, c.Claims)
	if len(c.PFs) > 0 && !c.PFs[0].Bits.Enforced {
		fmt.Fprintln(w, "Nothing keeps these guarantees: that takes mode: enforce, and an allocator that knows them, as waterfill.")
	}
	if c.Drained {
		fmt.Fprintln(w, "The host is drained: none of its VMs has a VF.")
	}
}

// printClaims lists what the fleet has claimed here.
func printClaims(w io.Writer, list []api.HostClaimState) {
	if len(list) == 0 {
		return
	}
	var rows [][]string
	for i := range list {
		c := &list[i]
		state := "room is kept"
		switch {
		case c.Refused != "":
			state = "refused: " + c.Refused + "; " + c.Remedy
		case c.NIC != "":
			state = "kept for " + c.NIC
		}
		rate := model.Rate{Bits: uint64(c.Rate.Bits), Packets: uint64(c.Rate.Packets)}
		rows = append(rows, []string{cmp.Or(c.VM, c.ID), cmp.Or(c.MAC, "-"), cmp.Or(c.PF, "-"), rate.String(), state})
	}
	fmt.Fprintln(w)
	table(w, "VM MAC PF CLAIMED STATE", rows)
}

// capacityRow adds the three figures of a rate to a row; ? is one that is not known.
func capacityRow(row []string, c api.RateCapacity, text func(float64) string) []string {
	for i, x := range []float64{c.Total, c.Guaranteed, c.Free} {
		switch {
		case i != 1 && c.Total == 0:
			row = append(row, "?")
		case x == 0:
			row = append(row, "0")
		default:
			row = append(row, text(x))
		}
	}
	return row
}
