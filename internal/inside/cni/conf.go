package cni

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"sluice/internal/channel"
)

// Conf is the network configuration. Keys unknown to Conf are meant for other plugins and are passed on.
type Conf struct {
	types.PluginConf

	// The VF by its PCI address: either the one that the allocator passes, or the first free one of a list.
	DeviceID string   `json:"deviceID"`
	PCIBusID string   `json:"pciBusID"`
	Devices  []string `json:"devices"`

	// Settings requested from the host. Omitted ones stay as the host has set them.
	MAC            string   `json:"mac"`
	VLAN           int      `json:"vlan"`
	Trunk          string   `json:"trunk"` // "10-20,30"
	SpoofChk       *onOff   `json:"spoofchk"`
	CheckARP       *onOff   `json:"check_arp"`
	Addresses      []string `json:"addresses"`       // that the VF may send from
	CheckAddresses bool     `json:"check_addresses"` // also allow the addresses that IPAM assigns
	Isolated       *onOff   `json:"isolated"`
	Link           string   `json:"link"` // "auto", "up", "down"
	SLA

	// Values that runtimes pass for capabilities.
	RuntimeConfig struct {
		DeviceID    string            `json:"deviceID"`
		MAC         string            `json:"mac"`
		Annotations map[string]string `json:"io.kubernetes.cri.pod-annotations"`
		Bandwidth   struct {          // bit/s
			EgressRate  uint64 `json:"egressRate"`
			IngressRate uint64 `json:"ingressRate"`
		} `json:"bandwidth"`
	} `json:"runtimeConfig"`
	// Values of a pod's network annotation (cni-args of Multus).
	Args struct {
		CNI struct {
			MAC string `json:"mac"`
			SLA
		} `json:"cni"`
	} `json:"args"`

	raw map[string]json.RawMessage
}

// SLA is what a pod may request itself where the network configuration leaves it out.
type SLA struct {
	Guarantee string  `json:"guarantee"` // "1Gbit 10kpps"
	Limit     string  `json:"limit"`     // of what the pod sends
	Receive   string  `json:"receive"`   // limit of what the pod receives
	Weight    float64 `json:"weight"`
}

// onOff is a boolean that also accepts "on" and "off", as in configurations of sriov-cni.
type onOff bool

func (o *onOff) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "true", `"true"`, `"on"`:
		*o = true
	case "false", `"false"`, `"off"`:
		*o = false
	default:
		return fmt.Errorf("%s is neither on nor off", b)
	}
	return nil
}

// annotations is the prefix of the annotations meant for this plugin.
const annotations = "sluice/"

func invalid(format string, args ...any) error {
	return types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf(format, args...), "")
}

func parse(stdin []byte) (*Conf, error) {
	var c Conf
	err := json.Unmarshal(stdin, &c)
	if err == nil {
		err = json.Unmarshal(stdin, &c.raw)
	}
	if err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, fmt.Sprintf("read the network configuration: %v", err), "")
	}
	return &c, nil
}

// candidates returns the PCI addresses of the VFs to choose from.
func (c *Conf) candidates() ([]string, error) {
	for _, id := range []string{c.RuntimeConfig.DeviceID, c.DeviceID, c.PCIBusID} {
		if id != "" {
			return []string{strings.ToLower(id)}, nil
		}
	}
	if len(c.Devices) == 0 {
		return nil, invalid("network %s names no device: "+
			"Multus passes deviceID where the pod asks for the network's k8s.v1.cni.cncf.io/resourceName, "+
			"runtimes pass runtimeConfig.deviceID; without either, list the VFs' PCI addresses in \"devices\"", c.Name)
	}
	out := make([]string, len(c.Devices))
	for i, id := range c.Devices {
		out[i] = strings.ToLower(id)
	}
	return out, nil
}

// request returns the request to the host, without its VF.
func (c *Conf) request(args *skel.CmdArgs) (channel.Attach, error) {
	asked := c.Args.CNI
	if err := asked.annotated(c.RuntimeConfig.Annotations); err != nil {
		return channel.Attach{}, err
	}
	asked.Limit = cmp.Or(asked.Limit, rate(c.RuntimeConfig.Bandwidth.EgressRate))
	asked.Receive = cmp.Or(asked.Receive, rate(c.RuntimeConfig.Bandwidth.IngressRate))
	sla, err := c.with(asked.SLA)
	if err != nil {
		return channel.Attach{}, err
	}
	cniArgs := parseArgs(args.Args)
	return channel.Attach{
		Owner: owner(args.ContainerID, args.IfName),
		MAC:   cmp.Or(c.RuntimeConfig.MAC, cniArgs["MAC"], asked.MAC, c.RuntimeConfig.Annotations[annotations+"mac"], c.MAC),
		VLAN:  c.VLAN, Trunk: c.Trunk, SpoofChk: (*bool)(c.SpoofChk), CheckARP: (*bool)(c.CheckARP),
		Addresses: c.Addresses, Isolated: (*bool)(c.Isolated), Link: c.Link,
		Guarantee: sla.Guarantee, Limit: sla.Limit, Receive: sla.Receive, Weight: sla.Weight,
	}, nil
}

// annotated adds what the pod's own annotations request.
func (s *SLA) annotated(have map[string]string) error {
	s.Guarantee = cmp.Or(s.Guarantee, have[annotations+"guarantee"])
	s.Limit = cmp.Or(s.Limit, have[annotations+"limit"])
	s.Receive = cmp.Or(s.Receive, have[annotations+"receive"])
	if w := have[annotations+"weight"]; w != "" && s.Weight == 0 {
		var err error
		if s.Weight, err = strconv.ParseFloat(w, 64); err != nil {
			return invalid("annotation %sweight: %q is not a number", annotations, w)
		}
	}
	return nil
}

// with adds what a pod requests. A pod must not override what the network sets: a limit would have no effect.
func (s SLA) with(pod SLA) (SLA, error) {
	for what, clash := range map[string]bool{
		"guarantee": s.Guarantee != "" && pod.Guarantee != "", "limit": s.Limit != "" && pod.Limit != "",
		"limit of what it receives": s.Receive != "" && pod.Receive != "", "weight": s.Weight != 0 && pod.Weight != 0,
	} {
		if clash {
			return s, invalid("the pod asks for a %s, but its network sets one: take it out of either", what)
		}
	}
	return SLA{cmp.Or(s.Guarantee, pod.Guarantee), cmp.Or(s.Limit, pod.Limit), cmp.Or(s.Receive, pod.Receive), max(s.Weight, pod.Weight)}, nil
}

// rate formats a rate in bit/s for the host, "" for none.
func rate(bits uint64) string {
	if bits == 0 {
		return ""
	}
	return fmt.Sprintf("%dbit", bits)
}

// parseArgs parses CNI_ARGS, which may contain arguments for other plugins.
func parseArgs(s string) map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(s, ";") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			out[key] = value
		}
	}
	return out
}

func owner(container, ifname string) string { return container + "/" + ifname }

// forHostDevice returns the configuration for host-device. It names the interface, which every version of host-device accepts.
func (c *Conf) forHostDevice(netdev string) delegated {
	raw := map[string]json.RawMessage{}
	maps.Copy(raw, c.raw)
	for _, key := range []string{"deviceID", "pciBusID", "devices", "hwaddr", "kernelpath"} {
		delete(raw, key)
	}
	var runtimeConfig map[string]json.RawMessage
	if json.Unmarshal(raw["runtimeConfig"], &runtimeConfig) == nil {
		delete(runtimeConfig, "deviceID")
		raw["runtimeConfig"] = marshal(runtimeConfig)
	}
	raw["type"], raw["device"] = marshal(hostDevice), marshal(netdev)
	return delegated{hostDevice, raw}
}

// withoutIPAM returns a configuration with which host-device only moves the interface.
func (d delegated) withoutIPAM() delegated {
	raw := maps.Clone(d.raw)
	delete(raw, "ipam")
	return delegated{d.plugin, raw}
}

// forIPAM returns the configuration for the IPAM plugin; ok reports whether there is one.
func (c *Conf) forIPAM() (d delegated, ok bool) {
	return delegated{c.IPAM.Type, c.raw}, c.IPAM.Type != ""
}

func marshal(v any) json.RawMessage {
	b, _ := json.Marshal(v) // only strings and valid JSON, so it cannot fail
	return b
}
