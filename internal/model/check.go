package model

// Check is one line of the checklist of a host.
type Check struct {
	Subject string // what was checked: "kernel", "libvirt", a PF, a VM
	Result  CheckResult
	Text    string
	Remedy  string // what a user can do; "" for CheckPass
}

// CheckResult is the result of a Check.
type CheckResult string

// Values of CheckResult.
const (
	CheckPass CheckResult = "pass"
	CheckWarn CheckResult = "warn" // possibly intended, or inherent in the hardware
	CheckFail CheckResult = "fail" // Sluice cannot do its job
)
