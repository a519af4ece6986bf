// Package edge is the floor that people and programs see: the API with its server and client, metrics, the page, the live
// view and the commands of sluice. Its packages may import everything but host, daemon, demo and inside; what sluiced
// links of it may not import research.
package edge
