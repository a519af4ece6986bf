package model

import "fmt"

// Plural prints "1 VM", "2 VMs".
func Plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
