//go:build !race

package tool

const slowdown = 1
