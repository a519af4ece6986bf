package model

import "strings"

// AliasPrefix begins the alias of every VF that Sluice attaches. After a restart Sluice recognizes its VFs by it: there is no
// other record.
const AliasPrefix = "ua-sluice-"

// PassthroughAlias returns the alias under which Sluice attaches a VF behind the NIC with that MAC.
func PassthroughAlias(mac MAC) string { return AliasPrefix + mac.Hex() }

// OwnAlias reports whether a device with that alias was attached by Sluice.
func OwnAlias(alias string) bool { return strings.HasPrefix(alias, AliasPrefix) }
