package server

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// hosts are the names accepted in the Host header over TCP. A page from another site can resolve its own name to this host
// (DNS rebinding) and read the answers, but it cannot choose the Host that the browser sends. The attack needs a name, so
// literal addresses are accepted.
type hosts []string

func newHosts(listen, more string) hosts {
	list := hosts{"localhost"}
	if host, _, err := net.SplitHostPort(listen); err == nil {
		list = append(list, strings.ToLower(host))
	}
	for word := range strings.SplitSeq(more, ",") {
		if word = strings.ToLower(strings.TrimSpace(word)); word != "" {
			list = append(list, word)
		}
	}
	return list
}

func (l hosts) allow(header string) bool {
	host := header
	if h, _, err := net.SplitHostPort(header); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && slices.Contains(l, host)
}
