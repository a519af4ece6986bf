// Package edge is the layer that users and programs interact with: the API with its server and client, metrics, the page,
// the live view and the commands of sluice. Its packages may import everything except host, daemon, demo and inside; those
// that sluiced links may not import research.
package edge
