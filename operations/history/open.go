package history

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/harrier-ci/harrier/operations/history/access"
)

// How the ledger is opened, if it is.
const (
	openByToken = "token"
	openByProxy = "proxy"
)

// Open is how others than those on loopback are answered: at an address of its own, where each says who he is.
type Open struct {
	// Mode is empty, token or proxy.
	Mode, Address, Audience string
	Proxy                   access.Proxy
	// TLSDirectory has tls.crt and tls.key; ProxyCAFile the authorities of the proxy's certificate.
	TLSDirectory, ProxyCAFile string
}

func (o *Open) register(flags *flag.FlagSet) {
	flags.StringVar(&o.Mode, "auth", "", "how users of --open-address are known: token (of the API server, for --audience) "+
		"or proxy (by its headers, once it has proven itself); empty: nobody is answered there")
	flags.StringVar(&o.Address, "open-address", ":8092", "address for users who are known by --auth")
	flags.StringVar(&o.Audience, "audience", "harrier-history", "audience of tokens")
	flags.StringVar(&o.Proxy.UserHeader, "proxy-user-header", "X-Forwarded-User", "header with the user's name")
	flags.StringVar(&o.Proxy.GroupsHeader, "proxy-groups-header", "X-Forwarded-Groups",
		"header with the user's groups, with commas between them")
	flags.StringVar(&o.Proxy.SecretFile, "proxy-secret-file", "", "file with what the proxy proves itself by in the header "+
		access.SecretHeader)
	flags.StringVar(&o.ProxyCAFile, "proxy-ca-file", "", "file with the authorities of the certificate that the proxy "+
		"proves itself by")
	flags.StringVar(&o.TLSDirectory, "tls-directory", "", "directory with tls.crt and tls.key for --open-address; empty: "+
		"no encryption")
}

// check returns an error if the ledger would be open to those whom nobody knows.
func (o *Open) check() error {
	secret, authorities := o.Proxy.SecretFile != "", o.ProxyCAFile != ""
	switch {
	case o.Mode != "" && o.Mode != openByToken && o.Mode != openByProxy:
		return fmt.Errorf("--auth=%s must be %s, %s or empty", o.Mode, openByToken, openByProxy)
	case o.Mode == openByToken && o.Audience == "":
		return errors.New("--audience is empty: then every token of the cluster would do")
	case o.Mode == openByProxy && secret == authorities:
		return errors.New("--auth=proxy needs one of --proxy-secret-file and --proxy-ca-file: anybody can send a header")
	case o.Mode == openByProxy && (o.Proxy.UserHeader == "" || o.Proxy.GroupsHeader == ""):
		return errors.New("--auth=proxy needs --proxy-user-header and --proxy-groups-header")
	case authorities && o.TLSDirectory == "":
		return errors.New("--proxy-ca-file needs --tls-directory: without TLS nobody shows a certificate")
	}
	return nil
}

// encryption returns nil without TLS. Files are read for each connection, because they are renewed while the program
// runs; that takes less than the handshake itself.
func (o *Open) encryption() *tls.Config {
	if o.TLSDirectory == "" {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pair, err := tls.LoadX509KeyPair(filepath.Join(o.TLSDirectory, "tls.crt"), filepath.Join(o.TLSDirectory, "tls.key"))
		if err != nil {
			return nil, fmt.Errorf("read the certificate of --tls-directory: %w", err)
		}
		config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
		if o.ProxyCAFile == "" {
			return config, nil
		}
		authorities, err := os.ReadFile(o.ProxyCAFile)
		if err != nil {
			return nil, fmt.Errorf("read --proxy-ca-file: %w", err)
		}
		if config.ClientCAs = x509.NewCertPool(); !config.ClientCAs.AppendCertsFromPEM(authorities) {
			return nil, errors.New("--proxy-ca-file has no certificate")
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		return config, nil
	}}
}
