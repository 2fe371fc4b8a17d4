package addresses

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/github/actions"
)

func policy(t *testing.T, allowed ...string) *Policy {
	t.Helper()
	made, err := New(allowed)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestWhichAddressesAreSpecial(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1": "loopback", "127.255.0.9": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback",
		"64:ff9b::7f00:1":   "loopback",
		"64:ff9b:1::7f00:1": "loopback", "2002:7f00:1::": "loopback", "::127.0.0.1": "loopback",
		"0.0.0.0": "unspecified", "0.0.0.1": "unspecified", "::": "unspecified", "::ffff:0.0.0.0": "unspecified",
		"169.254.169.254": "link-local", "169.254.0.1": "link-local", "fe80::1": "link-local",
		"fe80::1%eth0":           "link-local",
		"::ffff:169.254.169.254": "link-local", "64:ff9b::a9fe:a9fe": "link-local", "2002:a9fe:a9fe::1": "link-local",
		"224.0.0.1": "multicast", "ff02::1": "multicast",
		"100.100.100.200": "metadata", "168.63.129.16": "metadata", "fd00:ec2::254": "metadata",
		"::ffff:100.100.100.200": "metadata",
		"64:ff9b::a83f:8110":     "metadata",
		// Enterprise Servers and proxies have private addresses.
		"10.0.0.1": "", "192.168.1.1": "", "172.16.0.1": "", "100.64.0.1": "", "fd00::1": "", "140.82.112.3": "",
		"2606:50c0::1":   "",
		"64:ff9b::a00:1": "", "2002:a00:1::1": "", "100.100.100.201": "", "168.63.129.15": "",
	} {
		if got := special(netip.MustParseAddr(address)); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

// The manager starts only with entries that can match.
func TestEntriesAreChecked(t *testing.T) {
	for _, entry := range []string{
		"", "github.com", "github.com/acme", "ftp://github.com", "https://", "https:///acme", "https://user@github.com",
		"https://a:b@github.com/acme",
		"https://github.com/acme?x=1", "https://github.com/acme#x", "https://git hub.com", "://",
	} {
		if _, err := New([]string{"https://github.com", entry}); err == nil || strings.Contains(err.Error(), "a:b") {
			t.Errorf("%q: %v", entry, err)
		}
	}
}

// An entry matches by scheme, host, port and whole parts of the path.
func TestEntriesCoverConfigURLs(t *testing.T) {
	for _, test := range []struct {
		entry, address string
		allowed        bool
	}{
		{"https://github.com/acme", "https://github.com/acme", true},
		{"https://github.com/acme/", "https://github.com/acme/repository", true},
		{"https://github.com/acme", "https://GitHub.com/ACME/", true},
		{"https://github.com/acme", " https://github.com:443/acme ", true},
		{"https://github.com", "https://github.com/anybody", true},
		{"https://github.com/enterprises/big", "https://github.com/enterprises/big", true},
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080/org", true},
		{"http://[::1]:8080", "http://[::1]:8080/org", true},
		{"https://ghes.example:8443/acme", "https://ghes.example:8443/acme", true},
		{"https://github.com/acme", "https://github.com/acme-evil", false},
		{"https://github.com/acme", "https://github.com/acm", false},
		{"https://github.com/acme", "https://github.com/", false},
		{"https://github.com/acme/one", "https://github.com/acme", false},
		{"https://github.com/acme", "http://github.com/acme", false},
		{"https://github.com/acme", "https://github.com:444/acme", false},
		{"https://github.com/acme", "https://github.com.evil.example/acme", false},
		{"https://github.com/acme", "https://acme@github.com/acme", false},
		{"https://github.com/acme", "https://github.com@evil.example/acme", false},
		{"https://github.com/acme", "https://www.github.com/acme", false},
		{"https://github.com/acme", "https://github.com/../acme", false},
		{"https://github.com/acme", "https://github.com/evil%2F..%2Facme", false},
		{"https://github.com/kit", "https://github.com/\u212Ait", false}, // the Kelvin sign folds to k
		{"http://127.0.0.1:8080", "http://127.0.0.1:8081/org", false},
		{"http://127.0.0.1:8080", "https://github.com/acme", false},
	} {
		err := policy(t, "https://other.example", test.entry).CheckGitHub("githubConfigUrl", test.address)
		if (err == nil) != test.allowed {
			t.Errorf("%s below %s: %v", test.address, test.entry, err)
		}
	}
}

// Without entries, everything is allowed that isn't visibly special.
func TestConfigURLsWithoutEntries(t *testing.T) {
	for address, allowed := range map[string]bool{
		"https://github.com/acme": true, "http://ghes.corp/acme": true, "https://10.1.2.3/acme": true,
		"https://[fd00::1]/acme": true, "none": true,
		"http://127.0.0.1:8080/x": false, "https://localhost/x": false, "https://LOCALHOST./x": false,
		"https://a.localhost:1/x":  false,
		"http://169.254.169.254/x": false, "http://[fe80::1%25eth0]/x": false, "http://[::ffff:127.0.0.1]/x": false,
		"http://0.0.0.0/x":         false,
		"http://100.100.100.200/x": false,
	} {
		err := policy(t).CheckGitHub("githubConfigUrl", address)
		if (err == nil) != allowed {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A message names field, address, reason and who decides, but no secret.
func TestRefusalsSayWhoDecides(t *testing.T) {
	long := "https://github.com/" + strings.Repeat("x", 10_000)
	for _, err := range []error{
		policy(t).CheckGitHub("githubConfigUrl", "http://127.0.0.1:8080/x?secret"),
		policy(t).CheckProxy("spec.proxy.http.url", "http://me:secret@127.0.0.1:8080"),
		policy(t, "https://github.com/acme").CheckGitHub("githubConfigUrl", long),
	} {
		var refused *NotAllowedError
		if !errors.As(err, &refused) {
			t.Fatalf("got %v", err)
		}
		for _, part := range []string{
			refused.Field, refused.Address, refused.Reason, "flags.allowedGitHubURLs", "administrator",
		} {
			if part == "" || !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if strings.Contains(err.Error(), "secret") || len(err.Error()) > 700 {
			t.Errorf("%q tells too much", err)
		}
	}
}

func TestProxiesOfScaleSets(t *testing.T) {
	for _, test := range []struct {
		entries []string
		proxy   string
		allowed bool
	}{
		{nil, "http://proxy.corp:3128", true},
		{nil, "proxy.corp:3128", true},
		{nil, "http://10.0.0.1:3128", true},
		// Entries name GitHub addresses; a proxy on the network needs none.
		{[]string{"https://github.com"}, "http://10.0.0.1:3128", true},
		{nil, "http://127.0.0.1:3128", false},
		{nil, "localhost:3128", false},
		{nil, "socks5://169.254.169.254:80", false},
		{[]string{"https://github.com", "http://127.0.0.1:3128"}, "http://127.0.0.1:3128", true},
		{[]string{"https://github.com", "http://127.0.0.1:3128"}, "127.0.0.1:3128", true},
		{[]string{"https://github.com", "http://127.0.0.1:3128"}, "http://127.0.0.1:3129", false},
		{[]string{"http://127.0.0.1:3128/acme"}, "http://127.0.0.1:3128", false},
	} {
		if err := policy(t, test.entries...).CheckProxy(
			"spec.proxy.http.url", test.proxy,
		); (err == nil) != test.allowed {
			t.Errorf("%s with %q: %v", test.proxy, test.entries, err)
		}
	}
}

// A listed GitHub may lead anywhere; a listed GitHub makes no proxy trusted, and no proxy a GitHub.
func TestConnections(t *testing.T) {
	const listed, unlisted = "http://127.0.0.1:8080/acme", "https://ghes.corp/acme"
	p := policy(t, "http://127.0.0.1:8080", "http://127.0.0.1:3128")
	to := func(proxy bool, host, address string) actions.Destination {
		return actions.Destination{Proxy: proxy, Host: host, Address: netip.MustParseAddrPort(address)}
	}
	for name, test := range map[string]struct {
		policy    *Policy
		configURL string
		ownProxy  bool
		to        actions.Destination
		allowed   bool
	}{
		"listed":                  {p, listed, false, to(false, "127.0.0.1:8080", "127.0.0.1:8080"), true},
		"service of a listed one": {p, listed, false, to(false, "127.0.0.1:9", "127.0.0.1:9"), true},
		"proxy of a listed one":   {p, listed, false, to(true, "127.0.0.1:9", "127.0.0.1:9"), false},
		"listed proxy":            {p, listed, false, to(true, "127.0.0.1:3128", "127.0.0.1:3128"), true},
		"listed proxy by another name": {
			p, listed, false, to(true, "evil.example:3128", "127.0.0.1:3128"), false,
		},
		"name that resolves to loopback": {
			policy(t), unlisted, false, to(false, "ghes.corp:443", "127.0.0.1:443"), false,
		},
		"name that resolves to metadata": {
			policy(t), unlisted, false, to(false, "ghes.corp:443", "169.254.169.254:443"), false,
		},
		"mapped": {
			policy(t), unlisted, false, to(false, "ghes.corp:443", "[::ffff:127.0.0.1]:443"), false,
		},
		"private": {
			policy(t), unlisted, false, to(false, "ghes.corp:443", "10.0.0.1:443"), true,
		},
		"proxy that resolves to loopback": {
			policy(t), unlisted, false, to(true, "proxy.corp:80", "127.0.0.1:80"), false,
		},
		"proxy of the environment": {
			policy(t), unlisted, true, to(true, "127.0.0.1:80", "127.0.0.1:80"), true,
		},
		"GitHub at the environment's proxy": {
			policy(t), unlisted, true, to(false, "127.0.0.1:80", "127.0.0.1:80"), false,
		},
		"vault": {
			policy(t), "", false, to(false, "x.vault.azure.net:443", "20.0.0.1:443"), true,
		},
		"vault that resolves to link-local": {
			policy(t), "", false, to(false, "x.vault.azure.net:443", "169.254.0.1:443"), false,
		},
		"vault behind a proxy on loopback": {
			policy(t), "", false, to(true, "127.0.0.1:3128", "127.0.0.1:3128"), false,
		},
		"vault although a GitHub is listed": {
			p, "", false, to(false, "x.vault.azure.net:443", "127.0.0.1:8080"), false,
		},
		"no policy, so nothing is refused":    {nil, unlisted, false, to(false, "127.0.0.1:80", "127.0.0.1:80"), true},
		"an address that is unlisted already": {p, unlisted, false, to(false, "ghes.corp:443", "127.0.0.1:443"), false},
	} {
		var err error
		if check := test.policy.Check(test.configURL, test.ownProxy).Dial; check != nil {
			err = check(test.to)
		}
		if (err == nil) != test.allowed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The Actions service and the queue of a GitHub that isn't listed may lie elsewhere, but not on the machine itself.
func TestAddressesInAnswers(t *testing.T) {
	for _, test := range []struct {
		entry, configURL, answer string
		allowed                  bool
	}{
		{"", "https://ghes.corp/acme", "https://pipelines.example/x", true},
		{"", "https://ghes.corp/acme", "https://127.0.0.1/x", false},
		{"", "https://ghes.corp/acme", "https://localhost:8081/x", false},
		{"https://ghes.corp", "https://ghes.corp/acme", "https://127.0.0.1/x", true},
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080/acme", "http://127.0.0.1:8081/x", true},
	} {
		p := policy(t)
		if test.entry != "" {
			p = policy(t, test.entry)
		}
		address, err := url.Parse(test.answer)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(test.configURL, false).URL(address); (err == nil) != test.allowed {
			t.Errorf("%s leads to %s: %v", test.configURL, test.answer, err)
		}
	}
}

func FuzzCheckGitHub(f *testing.F) {
	f.Add("https://github.com/acme", "https://github.com/acme/x")
	f.Add("http://[::1%25a]:1", "http://[::1%25a]:1/x")
	f.Add("", "http://127.1/%2e%2e")
	f.Fuzz(func(t *testing.T, entry, address string) {
		made, err := New([]string{entry})
		if err != nil {
			return
		}
		refused := made.CheckGitHub("githubConfigUrl", address)
		if refused != nil && len(refused.Error()) > 1000 {
			t.Errorf("a long message: %v", refused)
		}
		_ = made.CheckProxy("proxy", address)
		made.Check(address, false)
	})
}
