// Package channel is the protocol between the daemon and sluice-guest (over a virtio-serial port), and
// between sluice-guest and sluice-cni (over a unix socket in the guest): one JSON object on each line,
// of at most MaxLine bytes. Anything else is skipped up to the next newline, and each message begins with
// a newline too, so either side may start or stop in the middle.
//
// Requests are idempotent, so that one may be sent again when its answer was lost, and a replayed one does no harm:
// the server remembers no IDs. A client starts with a random ID, so that it does not take an answer to an
// earlier process for its own. The server reads no faster than its Limits, and one request at a time; what is sent faster
// waits in the sender's queue. A sender that keeps flooding is cut off (ErrFlood), and its queue is discarded.
//
// Compatibility: an unknown field is refused in requests for something (attach, detach, list), since it would not be
// carried out, and ignored in information (hello, counters, all answers). Version changes only when that is not enough.
package channel

import "encoding/json"

// Version is that of the protocol: a side refuses requests of another.
const Version = 1

// Port is the virtio-serial port's name; Socket is where sluice-guest listens in the guest.
const (
	Port   = "org.sluice.0"
	Socket = "/run/sluice-guest.sock"
)

// Bounds of messages.
const (
	MaxLine       = 16 << 10 // bytes of a message, its line's end included
	MaxOwner      = 128      // bytes of an owner, printable ASCII
	MaxInterfaces = 48       // of which counters are sent
	listPage      = 32       // VFs in a List
	maxList       = 8192     // VFs that a client takes in all
	maxBody       = MaxLine - 256
)

// Message is one line. A request has a Method and an ID above 0; its answer has the same ID and no
// Method; what needs no answer has ID 0.
type Message struct {
	V      int             `json:"v"`
	ID     uint64          `json:"id,omitempty"`
	Method Method          `json:"method,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
	Error  *Error          `json:"error,omitempty"`
}

// answers says whether m is an answer.
func (m *Message) answers() bool { return m.Method == "" && m.ID > 0 }

// Error is why a request was refused.
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

// The codes.
const (
	CodeVersion  = "version"  // another version of the protocol
	CodeInvalid  = "invalid"  // the request makes no sense
	CodeUnknown  = "unknown"  // no such VF, or owner
	CodeDenied   = "denied"   // host policy forbids it
	CodeBusy     = "busy"     // somebody else has the VF, or too much was asked at once
	CodeFailed   = "failed"   // it could not be carried out; it may be tried again
	CodeNoDaemon = "nodaemon" // sluice-guest reaches no daemon
)

// Method names a request.
type Method string

// The methods. All but counters are asked by the guest.
const (
	MethodHello    Method = "hello"    // Hello -> Welcome: after each opening
	MethodAttach   Method = "attach"   // Attach -> Attached
	MethodDetach   Method = "detach"   // Detach -> nothing; not an error if it is not attached
	MethodList     Method = "list"     // ListFrom -> List
	MethodCounters Method = "counters" // Counters: no answer
)

// Hello is how sluice-guest begins.
type Hello struct {
	Program string `json:"program"` // its version
	Boot    string `json:"boot"`    // the guest kernel's boot_id
}

// Welcome answers it.
type Welcome struct {
	Program  string `json:"program"`
	Counters int    `json:"counters_seconds,omitempty"` // how often to send counters; 0: never
}

// VF names a virtual VF as the guest sees it: by the MAC of its PF, and its number there (virtfn<n>).
type VF struct {
	PF    string `json:"pf"`
	Index int    `json:"index"`
}

// Attach asks for a virtual VF, with a policy within what the host allows. Fields left out stay as the host has set them.
type Attach struct {
	VF        VF       `json:"vf"`
	Owner     string   `json:"owner"` // container ID and interface, "/" between
	MAC       string   `json:"mac,omitempty"`
	VLAN      int      `json:"vlan,omitempty"`
	Trunk     string   `json:"trunk,omitempty"` // "10-20,30"
	SpoofChk  *bool    `json:"spoofchk,omitempty"`
	CheckARP  *bool    `json:"check_arp,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	Isolated  *bool    `json:"isolated,omitempty"`
	Link      string   `json:"link,omitempty"`      // "auto", "up", "down"
	Guarantee string   `json:"guarantee,omitempty"` // "1Gbit 10kpps"
	Limit     string   `json:"limit,omitempty"`     // of what it sends
	Receive   string   `json:"receive,omitempty"`   // the limit of what it receives
	Weight    float64  `json:"weight,omitempty"`
}

// Attached describes the VF once its policy is in force and its link is up.
type Attached struct {
	MAC  string `json:"mac"` // to give the interface
	VLAN int    `json:"vlan,omitempty"`
}

// Detach gives it back.
type Detach struct {
	VF    VF     `json:"vf"`
	Owner string `json:"owner"`
}

// ListFrom asks for a page of the list. Client.List asks for all.
type ListFrom struct {
	From int `json:"from,omitempty"` // how many are left out
}

// List has what the VM has attached.
type List struct {
	VFs  []Held `json:"vfs"`
	Next int    `json:"next,omitempty"` // where the next page begins; 0: this is the last
}

// Held is a virtual VF, and who has it.
type Held struct {
	VF    VF     `json:"vf"`
	MAC   string `json:"mac"`
	Owner string `json:"owner,omitempty"` // "": nobody
}

// Counters are those of the guest's interfaces, since each was made.
type Counters struct {
	Interfaces []Interface `json:"interfaces"`
}

// Interface is one of the guest's, as it counts.
type Interface struct {
	Name      string `json:"name"`
	MAC       string `json:"mac"`
	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxBytes   uint64 `json:"tx_bytes"`
	Backlog   uint64 `json:"backlog_bytes,omitempty"` // that wait in its qdisc to be sent
}
