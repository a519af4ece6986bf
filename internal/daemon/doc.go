// Package daemon assembles sluiced from its parts: config, observe, loop, actuate and server. It makes no decisions itself.
package daemon
