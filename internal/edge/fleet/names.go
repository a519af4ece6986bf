package fleet

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"sluice/internal/model"
)

// Names in Placement. Providers have UUIDs that every program can compute from what they stand for, so that a write that is repeated
// meets what the first one made.
const (
	ClassBits    = "NET_BW_EGR_KILOBIT_PER_SEC"         // of a PF's provider, in kbit/s on the wire
	ClassPackets = "NET_PACKET_RATE_KILOPACKET_PER_SEC" // of a host's provider, in kpps on virtio
	// classPacketsOut is what Neutron's agents have instead of ClassPackets where the host forwards packets of each direction by itself.
	classPacketsOut = "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC"
	ConsumerType    = "SLUICE_SLA"
	Project         = "sluice" // of all consumers

	TraitHost       = traitPrefix + "HOST"
	TraitPF         = traitPrefix + "PF"
	TraitDrained    = traitPrefix + "DRAINED"    // of a host: its VMs are to keep to virtio
	TraitUnenforced = traitPrefix + "UNENFORCED" // of a host: nothing keeps its guarantees
	TraitDown       = traitPrefix + "DOWN"       // of a PF: its link is down, or it is gone

	traitPrefix   = "CUSTOM_SLUICE_" // all traits that are ours begin with it
	traitNetwork  = traitPrefix + "NETWORK_"
	traitDriver   = traitPrefix + "DRIVER_"
	traitUplink   = traitPrefix + "UPLINK_"
	traitNUMA     = traitPrefix + "NUMA_"
	namePrefix    = "sluice:" // of providers: Nova calls its own provider by the bare name of the host
	mostTraitName = 100       // characters; Placement takes 255
)

// namespace makes UUIDs of hosts differ from those that others derive from the same machine.
var namespace = uuid.MustParse("6f2b7a52-5d1e-4c1c-9b5e-2f0c6d1b8a77")

// Host says which host it is.
type Host struct {
	ID   string // its provider's UUID
	Name string
}

// HostOf returns the Host with that machine ID, a UUID with or without dashes.
func HostOf(machine, name string) (Host, error) {
	id, err := uuid.Parse(strings.TrimSpace(machine))
	if err != nil {
		return Host{}, fmt.Errorf("the host's UUID %q: %w", machine, err)
	}
	return Host{ID: uuid.NewSHA1(namespace, id[:]).String(), Name: name}, nil
}

// HostBy returns the Host whose provider that is.
func HostBy(id, provider string) Host { return Host{ID: id, Name: hostOf(provider)} }

func (h Host) providerName() string { return namePrefix + h.Name }

func (h Host) pfName(address string) string { return namePrefix + h.Name + ":" + address }

// PF returns the UUID of the provider of the PF at a PCI address.
func (h Host) PF(address string) string {
	return uuid.NewSHA1(uuid.MustParse(h.ID), []byte(strings.ToLower(address))).String()
}

// owns reports whether a provider is that of a PF which the host has or had.
func (h Host) owns(p *Provider) bool {
	return p.Parent == h.ID && h.PF(addressOf(p.Name)) == p.ID
}

// hostOf and addressOf take a provider's name apart.
func hostOf(name string) string {
	name, _, _ = strings.Cut(strings.TrimPrefix(name, namePrefix), ":")
	return name
}

func addressOf(name string) string {
	_, address, _ := strings.Cut(strings.TrimPrefix(name, namePrefix), ":")
	return address
}

// Consumer returns the UUID of the consumer that claims a NIC's guarantee.
func Consumer(vm, mac string) (string, error) {
	id, err := uuid.Parse(vm)
	if err != nil {
		return "", fmt.Errorf("the VM's UUID %q: %w", vm, err)
	}
	return uuid.NewSHA1(id, []byte(strings.ToLower(mac))).String(), nil
}

// migrationConsumer is the consumer of the room that a migration holds for the claim of another.
func migrationConsumer(consumer string) string {
	return uuid.NewSHA1(uuid.MustParse(consumer), []byte("migration")).String()
}

// Holder says whose claim it is and who made it. Placement keeps it as the consumer's user.
type Holder struct {
	By  string // ByHost or ByPlace
	VM  string // UUID
	MAC string // of its NIC
}

// Values of Holder.By. The host's claims follow its SLAs; those of Place stay until they are released.
const (
	ByHost  = "host"
	ByPlace = "place"

	byMigration = "migration" // room at the new host, by a consumer of its own
	byKept      = "kept"      // the same, once that host's daemon keeps it: written by the host
)

// User is the text that Placement keeps.
func (h Holder) User() string { return h.By + " " + h.VM + " " + h.MAC }

// HolderOf returns the Holder of a claim; false if the claim is not Sluice's. The UUID of the consumer is the proof, with a MAC address in
// one form: the consumers of migrations are made in the same way, of other text.
func HolderOf(c *Claim) (Holder, bool) {
	f := strings.Split(c.User, " ")
	if c.Type != ConsumerType || len(f) != 3 || f[0] != ByHost && f[0] != ByPlace {
		return Holder{}, false
	}
	h := Holder{By: f[0], VM: f[1], MAC: f[2]}
	if mac, err := model.ParseMAC(h.MAC); err != nil || mac.String() != h.MAC {
		return Holder{}, false
	}
	id, err := Consumer(h.VM, h.MAC)
	return h, err == nil && id == c.Consumer
}

// NetworkTrait is the trait of PFs that reach a network.
func NetworkTrait(network string) string { return trait(traitNetwork, network) }

// trait makes a trait of any name. Two names get the same trait only if they differ in nothing but case.
func trait(prefix, name string) string {
	text := strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name))
	if text != strings.ToUpper(name) || len(text) > mostTraitName {
		digest := uuid.NewSHA1(namespace, []byte(strings.ToUpper(name)))
		text = fmt.Sprintf("%s_%X", text[:min(len(text), mostTraitName)], digest[:4])
	}
	return prefix + text
}

// isOurs reports whether a trait is one that Sluice writes.
func isOurs(trait string) bool { return strings.HasPrefix(trait, traitPrefix) }

// NUMATrait is the trait of PFs at a NUMA node.
func NUMATrait(node int) string { return fmt.Sprint(traitNUMA, node) }
