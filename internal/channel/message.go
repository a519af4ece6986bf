// Package channel implements the protocol between the daemon and sluice-guest (over a virtio-serial port) and between sluice-guest and
// sluice-cni (over a unix socket in the guest): one JSON object per line of at most MaxLine bytes. Readers skip anything else up to the
// next newline, and each message also begins with a newline, so either side may start or stop in the middle of a line.
//
// Requests are idempotent, so a client may repeat one whose answer was lost, and a replayed request does no harm: the server remembers
// no IDs. A client starts with a random ID, so that it does not mistake an answer to an earlier process for its own. The server reads
// no faster than its Limits, and handles one request at a time; what is sent faster waits in the sender's queue. The server disconnects
// a sender that keeps flooding (ErrFlood) and discards its queue.
//
// Compatibility: unknown fields are rejected in requests for something (attach, detach, list), since they would not be carried out, and
// ignored in information (hello, counters, all answers). Version changes only when that is not enough.
package channel

import "encoding/json"

// Version is the protocol version. A side refuses requests of any other version.
const Version = 1

// Port is the name of the virtio-serial port; Socket is where sluice-guest listens in the guest.
const (
	Port   = "org.sluice.0"
	Socket = "/run/sluice-guest.sock"
)

// Limits of messages.
const (
	MaxLine       = 16 << 10 // bytes of a message, with its newline
	MaxOwner      = 128      // bytes of an owner, which is printable ASCII
	MaxInterfaces = 48       // interfaces whose counters are sent
	listPage      = 32       // VFs in one List
	maxList       = 8192     // VFs that a client accepts in total
	maxBody       = MaxLine - 256
)

// Message is one line. A request has a Method and an ID above 0. Its answer has the same ID and no Method. A message that needs no
// answer has ID 0.
type Message struct {
	V      int             `json:"v"`
	ID     uint64          `json:"id,omitempty"`
	Method Method          `json:"method,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
	Error  *Error          `json:"error,omitempty"`
}

// answers reports whether m is an answer.
func (m *Message) answers() bool { return m.Method == "" && m.ID > 0 }

// Error says why a request was refused.
type Error struct {
	Code   string `json:"code"` // a stable name
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.Text
	}
	return e.Text + ": " + e.Remedy
}

// Values of Error.Code.
const (
	CodeVersion  = "version"  // another version of the protocol
	CodeInvalid  = "invalid"  // the request is malformed
	CodeUnknown  = "unknown"  // no such VF, or owner
	CodeDenied   = "denied"   // host policy forbids it
	CodeBusy     = "busy"     // the VF is in use by another owner, or the guest asks too much at once
	CodeFailed   = "failed"   // it could not be carried out and may be retried
	CodeNoDaemon = "nodaemon" // sluice-guest has no connection to the daemon
)

// Method names a request.
type Method string

// The methods. The guest sends all of them.
const (
	MethodHello    Method = "hello"    // Hello -> Welcome: after each opening of the port
	MethodAttach   Method = "attach"   // Attach -> Attached
	MethodDetach   Method = "detach"   // Detach -> no body; not an error if the VF is not attached
	MethodList     Method = "list"     // ListFrom -> List
	MethodCounters Method = "counters" // Counters: no answer
)

// Hello is the first message of sluice-guest.
type Hello struct {
	Program string `json:"program"` // its version
	Boot    string `json:"boot"`    // the guest kernel's boot_id
}

// Welcome answers Hello.
type Welcome struct {
	Program  string `json:"program"`
	Counters int    `json:"counters_seconds,omitempty"` // interval at which to send counters; 0: never
}

// VF identifies a virtual VF as the guest sees it: by the MAC of its PF and its index there (virtfn<n>).
type VF struct {
	PF    string `json:"pf"`
	Index int    `json:"index"`
}

// Attach asks for a virtual VF with a policy within what the host allows. Omitted fields stay as the host has set them.
type Attach struct {
	VF        VF       `json:"vf"`
	Owner     string   `json:"owner"` // container ID and interface, separated by "/"
	MAC       string   `json:"mac,omitempty"`
	VLAN      int      `json:"vlan,omitempty"`
	Trunk     string   `json:"trunk,omitempty"` // "10-20,30"
	SpoofChk  *bool    `json:"spoofchk,omitempty"`
	CheckARP  *bool    `json:"check_arp,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	Isolated  *bool    `json:"isolated,omitempty"`
	Link      string   `json:"link,omitempty"`      // "auto", "up", "down"
	Guarantee string   `json:"guarantee,omitempty"` // "1Gbit 10kpps"
	Limit     string   `json:"limit,omitempty"`     // of what the VF sends
	Receive   string   `json:"receive,omitempty"`   // limit of what the VF receives
	Weight    float64  `json:"weight,omitempty"`
}

// Attached describes the VF once its policy is in force and its link is up.
type Attached struct {
	MAC  string `json:"mac"` // for the interface
	VLAN int    `json:"vlan,omitempty"`
}

// Detach gives a VF back.
type Detach struct {
	VF    VF     `json:"vf"`
	Owner string `json:"owner"`
}

// ListFrom asks for one page of the list. Client.List fetches all pages.
type ListFrom struct {
	From int `json:"from,omitempty"` // number of VFs to skip
}

// List is one page of the VM's VFs and their owners.
type List struct {
	VFs  []Held `json:"vfs"`
	Next int    `json:"next,omitempty"` // start of the next page; 0: this is the last page
}

// Held is a virtual VF and its owner.
type Held struct {
	VF    VF     `json:"vf"`
	MAC   string `json:"mac"`
	Owner string `json:"owner,omitempty"` // "": nobody
}

// Counters has the counters of the guest's interfaces, each since the interface was created.
type Counters struct {
	Interfaces []Interface `json:"interfaces"`
}

// Interface has the counters of one interface of the guest.
type Interface struct {
	Name      string `json:"name"`
	MAC       string `json:"mac"`
	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxBytes   uint64 `json:"tx_bytes"`
	Backlog   uint64 `json:"backlog_bytes,omitempty"` // waiting in its qdisc to be sent
}
