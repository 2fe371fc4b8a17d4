package addresses

import (
	"net/netip"
	"slices"
)

// metadata are addresses at which clouds serve metadata, credentials of the machine among them, and that are not
// link-local: Alibaba Cloud, Azure's host agent, Oracle Cloud, Amazon EC2 and EKS, Google Cloud.
var metadata = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd00:ec2::23"), netip.MustParseAddr("fd20:ce::254"),
}

// embedding are prefixes of IPv6 addresses that have an IPv4 address in them, and the byte at which it begins: the two
// prefixes of NAT64, 6to4, and the old form of IPv4 addresses (::10.0.0.1), which also has :: and ::1.
var embedding = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
	{netip.MustParsePrefix("::/96"), 12},
}

// thisNetwork is 0.0.0.0 and its neighbours, which reach the machine itself on some systems.
var thisNetwork = netip.MustParsePrefix("0.0.0.0/8")

// special returns the reason why an address needs an entry, or "" if it needs none. Private addresses need none:
// Enterprise Servers have them.
func special(address netip.Addr) string {
	address = address.WithZone("").Unmap()
	switch {
	case address.IsLoopback():
		return "it is a loopback address"
	case address.IsUnspecified() || thisNetwork.Contains(address):
		return "it is the unspecified address"
	case address.IsLinkLocalUnicast() || address.IsMulticast():
		return "it is a link-local or multicast address"
	case slices.Contains(metadata, address):
		return "it is an address of a cloud's metadata service"
	}
	for _, form := range embedding {
		if bytes := address.As16(); address.Is6() && form.prefix.Contains(address) {
			return special(netip.AddrFrom4([4]byte(bytes[form.at : form.at+4])))
		}
	}
	return ""
}
