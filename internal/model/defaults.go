package model

import "time"

// Defaults of the config and of the loop.
const (
	DefaultPolicy        = "adaptive"
	DefaultInterval      = 300 * time.Second // FlexVF's
	DefaultParallel      = 4                 // moves at a time
	DefaultRetries       = 3                 // of a Step, beyond the first try
	DefaultBackoff       = 30 * time.Second  // how long a NIC waits after a failed move; doubles
	DefaultBackoffMax    = 30 * time.Minute
	DefaultPlugTimeout   = 30 * time.Second // of an attach call, and of the wait for the guest's driver; the paper's plug takes 0.64 s
	DefaultUnplugTimeout = 30 * time.Second // of a detach call, and of the wait until the device is gone; a native PCIe unplug takes 6 s
)
