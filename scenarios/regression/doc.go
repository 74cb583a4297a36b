// Package regression is the folder of the built-in scenarios, one file each, and
// the test that each of them is complete. They are read by package scenarios,
// which has them in the binary.
package regression
