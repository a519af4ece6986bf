// Package uplinktest holds the tests that every uplink.Uplink must pass, and runs the daemon's loop over an Uplink that has nothing in
// common with a Linux bridge. Add the world of a new Uplink to TestContract.
package uplinktest
