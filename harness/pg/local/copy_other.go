//go:build !linux

package local

// copyFile copies a file and returns its size.
func copyFile(source, target string, as *account) (int64, error) {
	return copyPortably(source, target, as)
}
