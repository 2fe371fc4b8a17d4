// Package cache has the directory in which the tools under hack keep results that take long to make: outside of the
// source tree, so that a clean clone reuses them. hack/kubernetes.sh and hack/tool.sh follow the same rule.
package cache

import (
	"fmt"
	"os"
	"path/filepath"
)

// Dir returns the directory named by elements inside the cache: below HARRIER_CACHE, else XDG_CACHE_HOME/harrier, else
// ~/.cache/harrier. It creates the directory if necessary, accessible only to its owner, because private keys are kept
// there.
func Dir(elements ...string) (string, error) {
	root := os.Getenv("HARRIER_CACHE")
	if root == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no place for build results, set HARRIER_CACHE or HOME: %w", err)
		}
		root = filepath.Join(base, "harrier")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("resolve cache directory: %w", err)
	}
	dir := filepath.Join(append([]string{root}, elements...)...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make cache directory, set HARRIER_CACHE to a directory that you can write to: %w", err)
	}
	return dir, nil
}
