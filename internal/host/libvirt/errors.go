package libvirt

import (
	"errors"
	"fmt"
	"strings"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/model"
)

// plain converts the binding's error to libvirt's message, without the code and domain numbers, and adds the error class for errors.Is and
// a remedy for the user. Other errors pass unchanged.
func plain(err error) error {
	var e lv.Error
	if !errors.As(err, &e) {
		return err
	}
	for _, r := range rules {
		if r.matches(e) {
			return &callError{err: e, class: r.class, remedy: r.remedy}
		}
	}
	return &callError{err: e}
}

// callError is a libvirt error with its class and remedy.
type callError struct {
	err    lv.Error
	class  error // an error of package model, ErrDisconnected, errPending or nil
	remedy string
}

func (e *callError) Error() string {
	msg := strings.TrimSpace(e.err.Message)
	if msg == "" {
		msg = fmt.Sprintf("libvirt error %d", e.err.Code)
	}
	if e.remedy == "" {
		return msg
	}
	return msg + " (" + e.remedy + ")"
}

func (e *callError) Unwrap() []error {
	if e.class == nil {
		return []error{e.err}
	}
	return []error{e.err, e.class}
}

// rule classifies errors by code and, if libvirt uses one code for several causes, by a part of the message.
type rule struct {
	code   lv.ErrorNumber // ERR_OK: any
	text   string         // "": any
	class  error
	remedy string
}

func (r rule) matches(e lv.Error) bool {
	return (r.code == lv.ErrOk || uint32(r.code) == e.Code) && strings.Contains(e.Message, r.text)
}

// rules are searched in order; the first match applies.
var rules = []rule{
	{lv.ErrNoDomain, "", model.ErrGone, ""},
	{lv.ErrDeviceMissing, "", model.ErrGone, ""},
	{
		lv.ErrOk, "No more available PCI slots", model.ErrPermanent,
		"the domain has no free hot-plug slot: `sluice prepare` adds a root port; then stop and start it",
	},
	{lv.ErrOk, "doesn't support hotplug", model.ErrPermanent, "give the domain pcie-root-ports on which hot-plug is on"},
	{lv.ErrOk, "is not bound to vfio-pci", nil, "bind the VF to vfio-pci first"},
	{lv.ErrOk, "is in use by", nil, "another domain or driver has the device"},
	{
		lv.ErrOk, "cannot limit locked memory", model.ErrPermanent,
		"the domain's memory cannot be locked for VFIO: raise the memlock limit of libvirtd",
	},
	{
		lv.ErrOk, "doesn't support VFIO PCI passthrough", model.ErrPermanent,
		"switch the IOMMU on in firmware and kernel (intel_iommu=on) and load vfio-pci",
	},
	// QEMU remembers the name of a pair's first primary device for as long as the domain runs.
	{
		lv.ErrOk, "more than one primary device", model.ErrPermanent,
		"somebody attached another VF to this pair since the domain started: restart the domain",
	},
	{lv.ErrOk, "already in the process of unplug", errPending, ""},
	{lv.ErrOk, "power indicator blinking", errPending, ""},
	{lv.ErrAgentUnresponsive, "", model.ErrGuest, "start qemu-guest-agent in the guest"},
	{lv.ErrAgentUnsynced, "", model.ErrGuest, "the guest agent is out of sync: restart qemu-guest-agent in the guest"},
	{errAgentCommandTimeout, "", model.ErrGuest, "the guest agent did not answer in time"},
	{lv.ErrArgumentUnsupported, "agent is not configured", model.ErrPermanent, "add the org.qemu.guest_agent.0 channel to the domain"},
	{lv.ErrOperationTimeout, "", nil, "another job holds the domain: see `virsh domjobinfo` and `virsh domcontrol`"},
	{lv.ErrAuthFailed, "", model.ErrPermanent, authRemedy},
	{lv.ErrAuthUnavailable, "", model.ErrPermanent, authRemedy},
	{lv.ErrAuthCancelled, "", model.ErrPermanent, authRemedy},
	{lv.ErrAccessDenied, "", model.ErrPermanent, authRemedy},
	{lv.ErrOperationDenied, "", model.ErrPermanent, authRemedy},
	{lv.ErrNoConnect, "", model.ErrPermanent, "no libvirt driver takes this URI: qemu:///system is the usual one"},
	{lv.ErrInvalidArg, "", model.ErrPermanent, ""},
	{lv.ErrXMLError, "", model.ErrPermanent, ""},
	{lv.ErrXMLDetail, "", model.ErrPermanent, ""},
	{lv.ErrConfigUnsupported, "", model.ErrPermanent, ""},
	{lv.ErrNoSupport, "", model.ErrPermanent, "this libvirt driver cannot do that"},
	{lv.ErrOperationUnsupported, "", model.ErrPermanent, ""},
	{lv.ErrArgumentUnsupported, "", model.ErrPermanent, ""},
	{lv.ErrRPC, "", ErrDisconnected, ""},
	{lv.ErrInternalError, "client socket is closed", ErrDisconnected, ""},
	{lv.ErrSystemError, "Failed to connect socket", ErrDisconnected, "is libvirtd running? systemctl start libvirtd, or virtqemud"},
}

const authRemedy = "run as root, or as a member of the group libvirt"

// errAgentCommandTimeout is VIR_ERR_AGENT_COMMAND_TIMEOUT, for which go-libvirt has no constant.
const errAgentCommandTimeout lv.ErrorNumber = 112

// errPending means that the guest has already been asked to release the device.
var errPending = errors.New("an unplug is under way")

// fail adds operation and subject and converts the cause; nil stays nil.
func fail(op, subject string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", op, subject, plain(err))
}

// isCode reports whether libvirt failed with that code.
func isCode(err error, code lv.ErrorNumber) bool {
	var e lv.Error
	return errors.As(err, &e) && e.Code == uint32(code)
}
