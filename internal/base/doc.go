// Package base is the lowest floor: small libraries that know nothing of what Sluice does (files, text from outside, retries,
// netlink messages, the version). They import nothing of ours but each other.
package base
