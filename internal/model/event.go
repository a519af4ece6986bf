package model

import (
	"slices"
	"time"
)

// EventKind is the stable name of what happened.
type EventKind string

// Values of EventKind.
const (
	EventPlug     EventKind = "plug"   // a VM got a VF
	EventUnplug   EventKind = "unplug" // a VM lost its VF
	EventRepair   EventKind = "repair"
	EventFailed   EventKind = "failed" // a move failed and was undone
	EventLost     EventKind = "lost"   // a VM lost its VF by somebody else than Sluice
	EventLink     EventKind = "link"   // a PF can be used, or cannot
	EventAsked    EventKind = "request"
	EventAskedEnd EventKind = "request-over"
	EventStart    EventKind = "start"
	EventStop     EventKind = "stop"
	EventReload   EventKind = "reload"
	EventMode     EventKind = "mode"
	EventShort    EventKind = "short" // NICs lack part of what they are promised
	EventShortEnd EventKind = "short-over"
	EventProblem  EventKind = "problem" // doctor lists something that it did not list before
	EventSolved   EventKind = "problem-over"
	EventError    EventKind = "error" // the daemon cannot do its work
	EventErrorEnd EventKind = "error-over"
)

// Party is a VM that an Event concerns.
type Party struct {
	VM     VMID   `json:"vm"`
	VMName string `json:"vm_name"`
}

// Event is something that happened on the host, with its cause.
type Event struct {
	ID     uint64    `json:"id"` // counts the events, from 1
	At     time.Time `json:"at"`
	Kind   EventKind `json:"kind"`
	VM     VMID      `json:"vm,omitempty"`
	VMName string    `json:"vm_name,omitempty"`
	VF     VFID      `json:"vf,omitzero"`
	Move   uint64    `json:"move,omitempty"`  // ID of the Move
	About  []Party   `json:"about,omitempty"` // VMs that it concerns, if it is not one VM's: those that lack, and those that take
	Text   string    `json:"text,omitempty"`  // what happened, if it is not about a VM
	Alarm  bool      `json:"alarm,omitempty"`
	Cause  Cause     `json:"cause,omitzero"`
}

// Concerns reports whether it happened to a VM, given by name or UUID, or concerns it.
func (e *Event) Concerns(vm string) bool {
	return vm == e.VMName || vm == string(e.VM) || slices.ContainsFunc(e.About, func(p Party) bool {
		return vm == p.VMName || vm == string(p.VM)
	})
}
