package cli

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	uuidText   = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	macText    = regexp.MustCompile(`(?i)\b[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}\b`)
	hexMAC     = regexp.MustCompile(`(?i)\b[0-9a-f]{12}\b`)
	ipv4Text   = regexp.MustCompile(`\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b`)
	ipv6Text   = regexp.MustCompile(`(?i)[0-9a-f]*:[0-9a-f:.]+`)
	secretText = regexp.MustCompile(`(?i)((?:password|passwd|passphrase|secret|token|api[_-]?key)(?:\\?["'])?\s*[:=]\s*)` +
		`(?:(\\")[^"\\]*(\\")|(")[^"]*(")|(')[^']*(')|[^\s&"',;\\]+)`)
	loginText = regexp.MustCompile(`(://[^/\s:@]*):[^/\s@]+@`)
)

// withoutSecrets removes what looks like a password.
func withoutSecrets(text string) string {
	return loginText.ReplaceAllString(secretText.ReplaceAllString(text, "${1}${2}${4}${6}REMOVED${3}${5}${7}"), "$1:REMOVED@")
}

// anonymizer replaces names and addresses by others, the same for the same everywhere.
type anonymizer struct {
	given map[string]int    // numbers by kind and text
	count map[string]int    // by kind
	names *regexp.Regexp    // nil: none
	kinds map[string]string // of names
	macs  map[string]bool   // seen, 12 digits
}

// newAnonymizer replaces these names, each with its kind: "vm", "host", "user".
func newAnonymizer(kinds map[string]string) *anonymizer {
	a := &anonymizer{given: map[string]int{}, count: map[string]int{}, kinds: kinds, macs: map[string]bool{}}
	var list []string
	for name := range kinds {
		if name != "" {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, func(a, b string) int { // longest first: the expression takes the first that matches
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	for i := range list {
		list[i] = regexp.QuoteMeta(list[i])
	}
	if len(list) > 0 {
		a.names = regexp.MustCompile(strings.Join(list, "|"))
	}
	return a
}

// learn notes the MACs of a text, which other texts may have without separators.
func (a *anonymizer) learn(text string) {
	for _, mac := range macText.FindAllString(text, -1) {
		a.macs[digits(mac)] = true
	}
}

func digits(mac string) string {
	return strings.ToLower(strings.NewReplacer(":", "", "-", "").Replace(mac))
}

// text returns a text without names and addresses.
func (a *anonymizer) text(s string) string {
	s = uuidText.ReplaceAllStringFunc(s, func(id string) string {
		return fmt.Sprintf("00000000-0000-4000-8000-%012d", a.number("uuid", strings.ToLower(id)))
	})
	s = macText.ReplaceAllStringFunc(s, func(mac string) string { return a.mac(digits(mac), mac[2:3]) })
	s = hexMAC.ReplaceAllStringFunc(s, func(mac string) string {
		if !a.macs[strings.ToLower(mac)] {
			return mac
		}
		return a.mac(strings.ToLower(mac), "")
	})
	return a.replaceNames(ipv6Text.ReplaceAllStringFunc(ipv4Text.ReplaceAllStringFunc(s, a.address), a.address))
}

// address returns what stands for an IP address, and anything else as it is.
func (a *anonymizer) address(text string) string {
	bare := strings.TrimRight(text, ".:")
	at, err := netip.ParseAddr(bare)
	if err != nil || at.IsUnspecified() || at.IsLoopback() {
		return text
	}
	return fmt.Sprintf("IP-%d", a.number("ip", bare)) + text[len(bare):]
}

func (a *anonymizer) mac(mac, separator string) string {
	n := a.number("mac", mac)
	pairs := []string{"02", "00", "00", fmt.Sprintf("%02x", n>>16&0xff), fmt.Sprintf("%02x", n>>8&0xff), fmt.Sprintf("%02x", n&0xff)}
	return strings.Join(pairs, separator)
}

// replaceNames replaces names that are words of their own. A plain word that is a key of JSON stays.
func (a *anonymizer) replaceNames(s string) string {
	if a.names == nil {
		return s
	}
	var b strings.Builder
	last := utf8.RuneError // what was written last
	for len(s) > 0 {
		at := a.names.FindStringIndex(s)
		if at == nil {
			break
		}
		name := s[at[0]:at[1]]
		if at[0] > 0 {
			last, _ = utf8.DecodeLastRuneInString(s[:at[0]])
		}
		before := last
		after, _ := utf8.DecodeRuneInString(s[at[1]:])
		key := before == '"' && strings.HasPrefix(s[at[1]:], `":`) && plain(name)
		b.WriteString(s[:at[0]])
		if inWord(before) || inWord(after) || key {
			first, size := utf8.DecodeRuneInString(name)
			b.WriteString(name[:size])
			s, last = s[at[0]+size:], first
			continue
		}
		fmt.Fprintf(&b, "%s-%d", a.kinds[name], a.number(a.kinds[name], name))
		s, last = s[at[1]:], '-'
	}
	return b.String() + s
}

// plain reports whether a name could be a key of JSON.
func plain(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && r != '_' })
}

func inWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// number returns the number that stands for a text.
func (a *anonymizer) number(kind, text string) int {
	key := kind + " " + text
	n, known := a.given[key]
	if !known {
		a.count[kind]++
		n = a.count[kind]
		a.given[key] = n
	}
	return n
}
