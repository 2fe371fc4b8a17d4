// Package cache says where the tools under hack keep what is expensive to make: outside of the tree, so that a clean clone
// finds what another one built. hack/kubernetes.sh follows the same rule.
package cache

import (
	"fmt"
	"os"
	"path/filepath"
)

// Dir returns the directory that elements name inside of the cache: below HARRIER_CACHE, else XDG_CACHE_HOME/harrier, else
// ~/.cache/harrier. It is made if it is missing, readable by its owner only, because certificates end up below it.
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
		return "", fmt.Errorf("make cache directory, set HARRIER_CACHE to a directory of yours: %w", err)
	}
	return dir, nil
}
