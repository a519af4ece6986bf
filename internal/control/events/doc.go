// Package events finds what happened between one View and the next, each with its cause. It is pure.
package events
