package server

import (
	"net"
	"net/http"
	"strings"
)

// loopbackNames are those by which a forwarded port is asked. A page of somebody else can't be at one of them.
var loopbackNames = []string{"localhost", "127.0.0.1", "::1"}

// named refuses requests for a name that isn't the ledger's. A page of any site can have a browser ask a name of that
// site, and then have this name lead to an address that only the browser's user can reach, such as a port that is
// forwarded: to the browser the answer is the site's own.
func named(hosts []string, handler http.Handler) http.Handler {
	known := map[string]bool{}
	for _, name := range append(hosts, loopbackNames...) {
		known[strings.ToLower(name)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !known[strings.ToLower(hostOf(r.Host))] {
			fail(w, http.StatusMisdirectedRequest, "the ledger has no such name; the cluster's administrator lists names "+
				"that lead to it in history.hosts of the controller's chart, and kubectl port-forward has localhost")
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// hostOf returns a host without the port and without the brackets of an IPv6 address.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}
