// Package workload makes the loads that policies are judged on: shapes over time, guests that lie or flood to get a VF, and a sensor
// that distorts a load the way counters do. Everything follows from explicit seeds.
//
// A Shape is a pure function of the time since the start of its workload. Shapes with random stretches keep a cursor, so that going
// forward in time is cheap; going backward starts again from the seed and gives the same answers. A Shape is not safe for concurrent
// use: make one for each goroutine.
package workload
