package libvirt

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice/internal/model"
)

// address is a parsed libvirt URI: where the daemon listens and which driver to open.
type address struct {
	sockets []string // the daemon's is the first one that exists
	name    string   // the URI without transport and parameters, as the daemon expects it
}

const uriRemedy = "supported are qemu:///system, qemu:///session and test:///default, " +
	"each also with +unix after the scheme and with ?socket=PATH"

// parseURI parses libvirt.uri. It rejects other drivers and transports because Sluice moves the VFs of this host between QEMU domains.
func parseURI(uri string) (address, error) {
	a, err := readURI(uri)
	if err != nil {
		return address{}, fmt.Errorf("libvirt.uri %q: %w: %w (%s)", uri, model.ErrPermanent, err, uriRemedy)
	}
	return a, nil
}

func readURI(uri string) (address, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return address{}, errors.New("is not a URI")
	}
	driver, transport, given := strings.Cut(u.Scheme, "+")
	a := address{name: driver + "://" + u.Path}
	switch {
	case given && transport != "unix":
		return address{}, fmt.Errorf("transport %q is not supported", transport)
	case u.Host != "" || u.User != nil:
		return address{}, errors.New("names another host")
	case !slices.Contains([]string{"qemu:///system", "qemu:///session", "test:///default"}, a.name):
		return address{}, fmt.Errorf("%q is not supported", a.name)
	}
	for key, values := range u.Query() {
		if key != "socket" || len(values) != 1 || values[0] == "" {
			return address{}, fmt.Errorf("parameter %q is not supported", key)
		}
		a.sockets = values
	}
	if a.sockets == nil {
		a.sockets = usualSockets(a.name)
	}
	return a, nil
}

// usualSockets returns the sockets on which libvirt's daemons listen, in libvirt's own order: virtqemud's, then the monolithic daemon's.
func usualSockets(name string) []string {
	switch name {
	case "qemu:///system":
		return []string{"/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock"}
	case "qemu:///session":
		dir := filepath.Join(runtimeDir(), "libvirt")
		return []string{filepath.Join(dir, "virtqemud-sock"), filepath.Join(dir, "libvirt-sock")}
	}
	return []string{"/run/libvirt/libvirt-sock"}
}

// runtimeDir returns the directory of the session daemons' sockets.
func runtimeDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return dir
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return dir
	}
	return fmt.Sprintf("/run/user/%d", os.Getuid())
}

// socket returns the first of the sockets that exists, or the last one.
func (a address) socket() string {
	for _, s := range a.sockets {
		if _, err := os.Stat(s); err == nil {
			return s
		}
	}
	return a.sockets[len(a.sockets)-1]
}
