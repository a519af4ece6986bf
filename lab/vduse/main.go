// Command vduse is a user-space NIC on the vDPA bus, for kernels that have neither such hardware nor the simulator:
//
//	vduse NAME MAC TAP
//
// It creates a VDUSE device and a tap, and carries frames between the device's two queues and the tap. `vdpa dev add name NAME mgmtdev
// vduse` puts the device on the bus. SIGTERM removes it, if it was taken off the bus before. It needs Linux 6.10 or later, which
// accepts network devices, and the modules vduse and vhost_vdpa or virtio_vdpa.
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"sluice/lab/tuntap"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vduse:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: vduse NAME MAC TAP")
	}
	mac, err := net.ParseMAC(args[1])
	if err != nil {
		return err
	}
	tap, err := tuntap.OpenTap(args[2])
	if err != nil {
		return err
	}
	defer tap.Close()
	if err := createDevice(args[0], mac); err != nil {
		return fmt.Errorf("make %s: %w", args[0], err)
	}
	d, err := openDevice(args[0], tap)
	if err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	failed := make(chan error, 2)
	go func() { failed <- d.serve() }()
	go func() { failed <- d.receive() }()
	fmt.Println("ready")
	select {
	case err = <-failed:
	case <-end:
	}
	if cerr := d.file.Close(); err == nil {
		err = cerr
	}
	if derr := destroyDevice(args[0]); err == nil {
		err = derr
	}
	return err
}
