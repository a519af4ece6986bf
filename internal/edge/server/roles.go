package server

import (
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// Role is what a caller may do. Each role includes the previous ones, but RoleClaims and RolePorts.
type Role int

// The roles.
const (
	RoleRead    Role = iota // query
	RoleOperate             // pin, release, drain, repair
	RoleOwn                 // everything, including reload

	// Those that have read and one of these, and RoleOwn.
	RoleClaims // say what the fleet has claimed
	RolePorts  // say what ports of Neutron ask for
)

// roles maps callers to roles. Root has RoleOwn; everybody who can connect may read.
type roles struct{ operate, own, claims, ports people }

// people is a set of users and groups.
type people struct{ uids, gids []uint32 }

func newRoles(o Options) roles {
	warn := func(text string) { o.Logger.Warn(text) }
	return roles{
		operate: findPeople("api.operate", o.Operate, warn), own: findPeople("api.own", o.Own, warn),
		claims: findPeople("api.claims", o.Claims, warn), ports: findPeople("api.ports", o.Ports, warn),
	}
}

// allow reports whether a caller has a role.
func (r roles) allow(p peer, needed Role) bool {
	switch {
	case needed < RoleClaims:
		return r.of(p) >= needed
	case r.of(p) == RoleOwn:
		return true
	case needed == RoleClaims:
		return p.local && r.claims.have(p)
	default:
		return p.local && r.ports.have(p)
	}
}

func (r roles) of(p peer) Role {
	switch {
	case !p.local:
		return RoleRead
	case p.uid == 0, r.own.have(p):
		return RoleOwn
	case r.operate.have(p):
		return RoleOperate
	}
	return RoleRead
}

func (l people) have(p peer) bool {
	return slices.Contains(l.uids, p.uid) || slices.ContainsFunc(p.groups, func(g uint32) bool { return slices.Contains(l.gids, g) })
}

// findPeople parses a list such as "alice, @admins, 1000, @27". Unknown names are reported and get no role.
func findPeople(key, list string, warn func(string)) (out people) {
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		name, isGroup := strings.CutPrefix(word, "@")
		if name == "" {
			continue
		}
		id, err := idOf(name, isGroup)
		switch {
		case err != nil:
			warn(fmt.Sprintf("%s: %s is unknown on this host, so it gives nobody the role: %v", key, word, err))
		case isGroup:
			out.gids = append(out.gids, id)
		default:
			out.uids = append(out.uids, id)
		}
	}
	return out
}

func idOf(name string, isGroup bool) (uint32, error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n), nil
	}
	var id string
	if isGroup {
		g, err := user.LookupGroup(name)
		if err != nil {
			return 0, err
		}
		id = g.Gid
	} else {
		u, err := user.Lookup(name)
		if err != nil {
			return 0, err
		}
		id = u.Uid
	}
	n, err := strconv.ParseUint(id, 10, 32)
	return uint32(n), err
}
