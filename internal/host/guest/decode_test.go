package guest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"sluice/internal/model"
)

const headings = "Inter-|   Receive                                                |  Transmit\n" +
	" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"

func TestParseProc(t *testing.T) {
	got, err := parseProc(headings + "    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  eth0:100 0 0 0 0 0 0 0 200 0 0 0 0 0 0 0\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := (stats{RxBytes: 1, RxPackets: 2, RxDropped: 4, TxBytes: 9, TxPackets: 10, TxDropped: 12}); got["lo"] != want {
		t.Errorf("lo: %+v", got["lo"])
	}
	if got["eth0"].RxBytes != 100 || got["eth0"].TxBytes != 200 {
		t.Errorf("eth0: %+v", got["eth0"])
	}
	for name, text := range map[string]string{
		"empty":       "",
		"headings":    "a\nb\n",
		"no colon":    headings + "eth0 1\n",
		"too few":     headings + "eth0: 1 2 3\n",
		"too many":    headings + "eth0:" + strings.Repeat(" 1", 17) + "\n",
		"negative":    headings + "eth0: -1" + strings.Repeat(" 1", 15) + "\n",
		"huge":        headings + "eth0: 9223372036854775808" + strings.Repeat(" 1", 15) + "\n",
		"long":        strings.Repeat("x", maxProc+1),
		"blank line":  headings + "\n\n",
		"no name":     headings + ":" + strings.Repeat(" 1", 16) + "\n",
		"strange":     headings + "\x00:" + strings.Repeat(" 1", 16) + "\n",
		"many, equal": headings + strings.Repeat("eth0:"+strings.Repeat(" 1", 15)+"\n", 3),
	} {
		if got, err := parseProc(text); err == nil || !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// script is a Transport that answers each command with fixed bytes.
type script map[string]string

func (s script) Agent(_ context.Context, _ model.VMID, cmd []byte) ([]byte, error) {
	var r request
	if err := json.Unmarshal(cmd, &r); err != nil {
		return nil, err
	}
	return []byte(s[r.Execute]), nil
}

// failover is an agent's answer for a failover: without statistics for the lower devices.
const failover = `{"return":[{"name":"eth0","hardware-address":"52:54:00:00:00:01","statistics":{"rx-bytes":5}},` +
	`{"name":"eth0nsby","hardware-address":"52:54:00:00:00:01"},{"name":"enp2s0","hardware-address":"52:54:00:00:00:01"}]}`

func TestFilesThatLie(t *testing.T) {
	for name, read := range map[string]string{
		"count differs": `{"return":{"count":3,"buf-b64":"QUI=","eof":true}}`,
		"bad base64":    `{"return":{"count":3,"buf-b64":"*","eof":true}}`,
		"not the file":  `{"return":{"count":2,"buf-b64":"QUI=","eof":true}}`,
		"no end":        `{"return":{"count":2,"buf-b64":"QUI=","eof":false}}`,
		"negative":      `{"return":{"count":-1,"buf-b64":"","eof":false}}`,
		"nothing":       `{}`,
	} {
		s := script{
			"guest-network-get-interfaces": failover, "guest-file-open": `{"return":7}`, "guest-file-read": read,
			"guest-file-close": `{"return":{}}`,
		}
		if got, err := New(s).Interfaces(within(t, patience), "vm"); !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// good fails the test unless the counters satisfy the package's guarantees.
func good(t *testing.T, cs []Counters) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range cs {
		if !validName(c.Name) || seen[c.Name] || c.MAC.IsZero() {
			t.Errorf("interface %+v", c)
		}
		seen[c.Name] = true
		for _, v := range []uint64{c.RxBytes, c.RxPackets, c.RxDropped, c.TxBytes, c.TxPackets, c.TxDropped} {
			if v > math.MaxInt64 {
				t.Errorf("counter %d of %s", v, c.Name)
			}
		}
	}
	if len(cs) > maxInterfaces {
		t.Errorf("%d interfaces", len(cs))
	}
}

func FuzzInterfaces(f *testing.F) {
	f.Add([]byte(failover))
	f.Add([]byte(nics(`"rx-bytes":18446744073709551615`)))
	f.Add([]byte(`{"error":{"class":"CommandNotFound","desc":"no"}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		got, err := New(script{"guest-network-get-interfaces": string(answer)}).Interfaces(t.Context(), "vm")
		if err == nil {
			good(t, got)
		} else if !errors.Is(err, model.ErrGuest) && !errors.Is(err, ErrRefused) {
			t.Errorf("an error that blames nobody: %v", err)
		}
	})
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"return":{"count":2,"buf-b64":"QUI=","eof":true}}`), []byte(`{"return":7}`))
	f.Add([]byte(`{"return":{"exited":true,"exitcode":0,"out-data":"QUI="}}`), []byte(`{"error":{}}`))
	f.Fuzz(func(t *testing.T, read, open []byte) {
		s := script{
			"guest-network-get-interfaces": failover, "guest-file-open": string(open), "guest-file-read": string(read),
			"guest-file-close": string(open),
			"guest-exec":       string(open), "guest-exec-status": `{"return":{"exited":true,"exitcode":1}}`,
		}
		c := New(s)
		c.Exec = true
		if got, err := c.Interfaces(t.Context(), "vm"); err == nil {
			good(t, got)
		}
	})
}

func FuzzProcNetDev(f *testing.F) {
	f.Add(headings + "    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n")
	f.Add(headings)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseProc(text)
		for name, s := range got {
			if err != nil || !validName(name) || s.RxBytes > maxCount || s.TxPackets > maxCount {
				t.Errorf("%q: %+v, %v", name, s, err)
			}
		}
	})
}

// TestWithMAC counts also the interfaces that the agent gives no statistics for, since those are the ones below a bond.
func TestWithMAC(t *testing.T) {
	c := New(script{"guest-network-get-interfaces": failover})
	for mac, want := range map[model.MAC]int{{0x52, 0x54, 0, 0, 0, 1}: 3, {0x52, 0x54, 0, 0, 0, 2}: 0} {
		if n, err := c.WithMAC(t.Context(), "vm", mac); err != nil || n != want {
			t.Errorf("%s: %d, %v, want %d", mac, n, err, want)
		}
	}
	if _, err := New(script{"guest-network-get-interfaces": "nonsense"}).WithMAC(t.Context(), "vm", model.MAC{}); !errors.Is(err, ErrAnswer) {
		t.Errorf("an answer that is none: %v", err)
	}
}
