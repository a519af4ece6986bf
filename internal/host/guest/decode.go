package guest

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/internal/model"
)

// Bounds of a guest's answers.
const (
	maxAnswer     = 1 << 20 // bytes of one answer
	maxDepth      = 16      // of JSON nesting: the deepest valid answer has 5
	maxInterfaces = 256
	maxName       = 64 // bytes: Linux allows 15, Windows more
	maxProc       = 128 << 10
	maxCount      = math.MaxInt64
)

// bad makes an error about an answer. Callers shorten what they quote of the guest's text with cut.
func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %w: %s", model.ErrGuest, ErrAnswer, fmt.Sprintf(format, args...))
}

// decode parses an agent's answer, which holds either a result or an error.
func decode(answer []byte, out any) error {
	if err := shallow(answer); err != nil {
		return err
	}
	var reply struct {
		Return json.RawMessage `json:"return"`
		Error  *struct {
			Class string `json:"class"`
			Desc  string `json:"desc"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return bad("%s", cut(err.Error()))
	}
	if reply.Error != nil {
		return fmt.Errorf("%w: %q", ErrRefused, cut(reply.Error.Desc))
	}
	if reply.Return == nil {
		return bad("neither a result nor an error")
	}
	if err := json.Unmarshal(reply.Return, out); err != nil {
		return bad("%s", cut(err.Error()))
	}
	return nil
}

// cut shortens a text for an error message.
func cut(s string) string {
	const limit = 120
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// shallow bounds size and nesting before the JSON decoder sees the answer.
func shallow(b []byte) error {
	if len(b) > maxAnswer {
		return bad("more than %d bytes", maxAnswer)
	}
	depth, inString, escaped := 0, false, false
	for _, c := range b {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return bad("nested more than %d deep", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// count is a counter reported by the guest. JSON has no NaN, and the decoder rejects fractions and negative numbers; the bound keeps sums
// and differences from overflowing.
type count uint64

// UnmarshalJSON implements json.Unmarshaler.
func (c *count) UnmarshalJSON(b []byte) error {
	v, err := parseCount(string(b))
	*c = count(v)
	return err
}

func parseCount(s string) (uint64, error) {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil || v > maxCount {
		return 0, fmt.Errorf("counter %q: want a whole number from 0 to %d", cut(s), uint64(maxCount))
	}
	return v, nil
}

// stats are the counters of an interface.
type stats struct {
	RxBytes   count `json:"rx-bytes"`
	RxPackets count `json:"rx-packets"`
	RxDropped count `json:"rx-dropped"`
	TxBytes   count `json:"tx-bytes"`
	TxPackets count `json:"tx-packets"`
	TxDropped count `json:"tx-dropped"`
}

// iface is an interface as the agent describes it.
type iface struct {
	Name  string `json:"name"`
	MAC   string `json:"hardware-address"`
	Stats *stats `json:"statistics"`

	mac model.MAC
}

// list is the agent's list of all interfaces.
type list []iface

// check applies the bounds and drops interfaces that are not Ethernet.
func (l list) check() (list, error) {
	if len(l) > maxInterfaces {
		return nil, bad("%d interfaces, more than %d", len(l), maxInterfaces)
	}
	seen := map[string]bool{}
	out := l[:0]
	for _, f := range l {
		if !validName(f.Name) {
			return nil, bad("interface name %q", cut(f.Name))
		}
		if seen[f.Name] {
			return nil, bad("interface %q twice", f.Name)
		}
		seen[f.Name] = true
		mac, err := model.ParseMAC(f.MAC)
		if err != nil || mac.IsZero() {
			continue
		}
		f.mac = mac
		out = append(out, f)
	}
	return out, nil
}

func validName(s string) bool {
	if s == "" || len(s) > maxName || !utf8.ValidString(s) {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// complete reports whether every interface has counters.
func (l list) complete() bool {
	for _, f := range l {
		if f.Stats == nil {
			return false
		}
	}
	return true
}

func (l list) counters() []Counters {
	var out []Counters
	for _, f := range l {
		if s := f.Stats; s != nil {
			out = append(out, Counters{
				Name: f.Name, MAC: f.mac,
				RxBytes: uint64(s.RxBytes), RxPackets: uint64(s.RxPackets), RxDropped: uint64(s.RxDropped),
				TxBytes: uint64(s.TxBytes), TxPackets: uint64(s.TxPackets), TxDropped: uint64(s.TxDropped),
			})
		}
	}
	return out
}

// fill adds counters to the interfaces that lack them.
func (l list) fill(by map[string]stats) {
	for i := range l {
		if s, ok := by[l[i].Name]; ok && l[i].Stats == nil {
			l[i].Stats = &s
		}
	}
}

// columns is the number of fields of a line of /proc/net/dev after the name: eight for receiving, eight for sending.
const columns = 16

// parseProc parses /proc/net/dev: two header lines, then "name: numbers".
func parseProc(text string) (map[string]stats, error) {
	if len(text) > maxProc {
		return nil, bad("/proc/net/dev has more than %d bytes", maxProc)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "Inter-|") {
		return nil, bad("/proc/net/dev without its headings")
	}
	out := map[string]stats{}
	for _, line := range lines[2:] {
		name, numbers, ok := strings.Cut(line, ":")
		name = strings.TrimLeft(name, " ")
		if !ok || !validName(name) || len(out) >= maxInterfaces {
			return nil, bad("line %q of /proc/net/dev", cut(line))
		}
		s, err := parseColumns(numbers)
		if err != nil {
			return nil, bad("interface %q in /proc/net/dev: %s", name, err)
		}
		out[name] = s
	}
	return out, nil
}

func parseColumns(s string) (stats, error) {
	fields := strings.Fields(s)
	if len(fields) != columns {
		return stats{}, fmt.Errorf("%d columns, want %d", len(fields), columns)
	}
	var v [columns]count
	for i, f := range fields {
		n, err := parseCount(f)
		if err != nil {
			return stats{}, err
		}
		v[i] = count(n)
	}
	return stats{RxBytes: v[0], RxPackets: v[1], RxDropped: v[3], TxBytes: v[8], TxPackets: v[9], TxDropped: v[11]}, nil
}
