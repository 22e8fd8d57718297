//go:build race

package tool

// slowdown is what the race detector costs.
const slowdown = 15
