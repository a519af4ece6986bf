package api

// SetPorts are all ports of Neutron on a host whose QoS policies ask for something: PUT /v1/ports. They replace those before.
type SetPorts struct {
	Ports []HostPort `json:"ports"`
}

// MostPorts is how many ports a host takes.
const MostPorts = 2000

// HostPort is what the QoS policy of a port asks for. A missing rate asks for nothing.
type HostPort struct {
	ID        string `json:"id"`  // Neutron's UUID
	Tap       string `json:"tap"` // the NIC's tap on the host
	MAC       string `json:"mac"`
	Guarantee Rate   `json:"guarantee,omitzero"`
	Limit     Rate   `json:"limit,omitzero"`   // sending
	Receive   Rate   `json:"receive,omitzero"` // the most it may receive
}

// HostPorts are the ports that the host was told of, by tap: GET /v1/ports, and the answer to PUT.
type HostPorts struct {
	Ports []HostPortState `json:"ports"`
}

// HostPortState is what the host makes of a port.
type HostPortState struct {
	HostPort
	VM      string `json:"domain,omitempty"` // absent: no VM that runs here has such a NIC
	NIC     string `json:"nic,omitempty"`
	Refused string `json:"refused,omitempty"` // why the guarantee is not kept; limits are
	Remedy  string `json:"remedy,omitempty"`
}
