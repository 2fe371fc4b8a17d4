package tenant

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
)

// At metadataAddresses clouds tell machines their secrets.
var metadataAddresses = []string{"169.254.169.254", "100.100.100.200", "168.63.129.16"}

// ownNetwork gives the loopback interface the addresses of clouds' metadata. It refuses in a network that is anybody
// else's.
func ownNetwork() error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list network interfaces: %w", err)
	}
	if slices.ContainsFunc(interfaces,
		func(i net.Interface) bool { return i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 }) {
		return errors.New("-tenant.link-local needs a network namespace of its own: run it by make tenant-nightly")
	}
	commands := [][]string{{"link", "set", "lo", "up"}}
	for _, address := range metadataAddresses {
		commands = append(commands, []string{"address", "add", address + "/32", "dev", "lo"})
	}
	for _, arguments := range commands {
		if output, err := exec.Command("ip", arguments...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", arguments, err, output)
		}
	}
	return nil
}
