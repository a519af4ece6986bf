package model

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
)

// VMID is the libvirt UUID of a domain.
type VMID string

// PCIAddress is a PCI function in sysfs form, for example "0000:01:10.3".
type PCIAddress string

// VFID identifies a virtual function by its PF's interface name and its index there, the pair that `ip link set PF vf N` takes.
type VFID struct {
	PF    string `json:"pf"`
	Index int    `json:"index"`
}

// NoVF is the zero VFID: no virtual function.
var NoVF = VFID{}

// String prints the VF as "pf0/3", or "-" for none.
func (v VFID) String() string {
	if v.PF == "" {
		return "-"
	}
	return fmt.Sprintf("%s/%d", v.PF, v.Index)
}

// Compare orders VFs by PF name, then index.
func (v VFID) Compare(w VFID) int {
	return cmp.Or(strings.Compare(v.PF, w.PF), cmp.Compare(v.Index, w.Index))
}

// NICID identifies a virtio NIC by its VM and its alias there.
type NICID struct {
	VM  VMID   `json:"vm"`
	NIC string `json:"nic"`
}

// Compare orders NICs by VM, then alias.
func (n NICID) Compare(o NICID) int {
	if n.VM != o.VM {
		return strings.Compare(string(n.VM), string(o.VM))
	}
	return strings.Compare(n.NIC, o.NIC)
}

// String prints the NIC as "VM/alias".
func (n NICID) String() string { return string(n.VM) + "/" + n.NIC }

// MarshalText implements encoding.TextMarshaler, so that maps keyed by NIC can be encoded.
func (n NICID) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. VM IDs contain no slash.
func (n *NICID) UnmarshalText(b []byte) error {
	vm, nic, _ := strings.Cut(string(b), "/")
	n.VM, n.NIC = VMID(vm), nic
	return nil
}

// MAC is an Ethernet address. The zero MAC means none: a released VF's filter is set to it.
type MAC [6]byte

// ParseMAC parses a MAC in any form that net.ParseMAC takes, but only of 48 bits.
func ParseMAC(s string) (MAC, error) {
	var m MAC
	hw, err := net.ParseMAC(s)
	if err != nil {
		return m, fmt.Errorf("MAC address %q: want six hex bytes such as 52:54:00:00:01:0a", s)
	}
	if len(hw) != len(m) {
		return m, fmt.Errorf("MAC address %q: want 6 bytes, have %d", s, len(hw))
	}
	copy(m[:], hw)
	return m, nil
}

// IsZero reports whether no address is set.
func (m MAC) IsZero() bool { return m == MAC{} }

// String prints the address in colon form.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// Hex prints the address without separators, for use in names.
func (m MAC) Hex() string { return hex.EncodeToString(m[:]) }

// MarshalText implements encoding.TextMarshaler.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *MAC) UnmarshalText(b []byte) error {
	v, err := ParseMAC(string(b))
	if err == nil {
		*m = v
	}
	return err
}

// Tri is a fact that may be unknown: "no" and "could not be determined" differ.
type Tri int8

// Values of Tri.
const (
	Unknown Tri = iota
	No
	Yes
)

var triNames = [...]string{"unknown", "no", "yes"}

// TriOf returns a known fact as a Tri.
func TriOf(b bool) Tri {
	if b {
		return Yes
	}
	return No
}

// String prints "yes", "no" or "unknown".
func (t Tri) String() string { return triNames[t] }

// MarshalText implements encoding.TextMarshaler.
func (t Tri) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Tri) UnmarshalText(b []byte) error {
	for i, n := range triNames {
		if n == string(b) {
			*t = Tri(i)
			return nil
		}
	}
	return fmt.Errorf("%q: want one of %s", b, strings.Join(triNames[:], ", "))
}
