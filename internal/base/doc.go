// Package base contains small libraries that know nothing of Sluice's purpose (files, external text, retries, netlink messages,
// the version). They import no packages of this module outside base.
package base
