package actions_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/harrier-ci/harrier/github/actions"
)

// secure puts a server behind TLS, and returns the option with which clients trust it.
func (s *server) secure() func(*actions.Options) {
	tls := httptest.NewUnstartedServer(s)
	tls.Config.ErrorLog = discardLog
	tls.StartTLS()
	s.t.Cleanup(tls.Close)
	s.Server.URL = tls.URL
	return func(o *actions.Options) {
		pool := tls.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		o.RootCAs = pool
	}
}

// A gateway that ends TLS and doesn't tell GitHub so makes it name http:// addresses. They would get the credential in
// clear text.
func TestNoCredentialLeavesTLS(t *testing.T) {
	plain := newServer(t)
	s := newServer(t)
	trusted := s.secure()
	insecure := redirected(strings.Replace(s.URL, "https:", "http:", 1) + "/x")
	for name, test := range map[string]struct {
		prepare  func()
		call     func(*actions.Client) error
		endpoint string
	}{
		"redirect of the registration token": {
			prepare:  func() { s.on(registrationTokenCall, insecure) },
			endpoint: actions.EndpointRegistrationToken,
		},
		"redirect of the registration": {
			prepare:  func() { s.on(registerCall, insecure) },
			endpoint: actions.EndpointRegister,
		},
		"the service's address": {
			prepare: func() {
				s.on(registerCall, reply{body: fmt.Sprintf(`{"url":%q,"token":"t"}`, plain.URL+servicePath)})
			},
			endpoint: actions.EndpointRegister,
		},
		"redirect of a call to the service": {
			prepare:  func() { s.on(getSetCall, insecure) },
			endpoint: actions.EndpointGetScaleSet,
		},
		"redirect that would become a GET": {
			prepare: func() {
				s.on(deleteSetCall, reply{status: http.StatusFound, header: map[string]string{"Location": plain.URL}})
			},
			call:     func(c *actions.Client) error { return c.DeleteRunnerScaleSet(t.Context(), 7) },
			endpoint: actions.EndpointDeleteScaleSet,
		},
		"the queue's address": {
			prepare: func() {
				s.on(createSessionCall, reply{body: s.sessionBody(testQueueToken, map[string]any{
					"messageQueueUrl": plain.URL + "/queue",
				})})
			},
			call:     func(c *actions.Client) error { _, err := c.CreateSession(t.Context(), 7, "me"); return err },
			endpoint: actions.EndpointCreateSession,
		},
		"redirect of a poll": {
			prepare: func() {
				s.on(createSessionCall, reply{body: s.sessionBody(testQueueToken, nil)})
				s.on(pollCall, insecure)
			},
			call: func(c *actions.Client) error {
				session, err := c.CreateSession(t.Context(), 7, "me")
				if err == nil {
					_, err = session.GetMessage(t.Context(), 0, 1)
				}
				return err
			},
			endpoint: actions.EndpointGetMessage,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.on(registrationTokenCall, reply{status: 201, body: `{"token":"` + testRegistration + `"}`})
			s.on(registerCall, reply{do: s.register})
			test.prepare()
			if test.call == nil {
				test.call = func(c *actions.Client) error { _, err := c.GetRunnerScaleSetByID(t.Context(), 7); return err }
			}
			err := test.call(s.client(trusted))
			var refused *actions.InsecureRedirectError
			if !errors.As(err, &refused) || refused.Endpoint != test.endpoint ||
				!strings.Contains(err.Error(), "X-Forwarded-Proto") {
				t.Errorf("got %v, want an *InsecureRedirectError of %s that says what to correct", err, test.endpoint)
			}
		})
	}
	if len(plain.requests) != 0 {
		t.Errorf("%d requests were sent without TLS", len(plain.requests))
	}
}

// An http:// config URL is the administrator's choice, and may lead to http:// addresses.
func TestAnAddressWithoutTLSStaysPossible(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, redirected("/elsewhere"))
	s.on("GET /elsewhere", reply{body: `{"id":7}`})
	if _, err := s.client().GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Error(err)
	}
	s.session()
}

// A server's redirect must not choose what the program requests elsewhere.
func TestARedirectToAnotherServerIsNotFollowed(t *testing.T) {
	s, canary := newServer(t), newServer(t)
	for name, to := range map[string]string{
		"another port": canary.URL,
		"another host": strings.Replace(canary.URL, "127.0.0.1", "localhost", 1),
		"metadata":     "http://169.254.169.254/latest/meta-data/",
	} {
		session := s.session()
		for _, call := range []string{pollCall, jitCall} {
			s.on(call, redirected(to+"/latest?token=1"))
		}
		_, polling := session.GetMessage(t.Context(), 0, 1)
		_, registering := s.client().GenerateJITConfig(t.Context(), 7, actions.JITConfigRequest{Name: "r"})
		for _, err := range []error{polling, registering} {
			var answer *actions.Error
			if !errors.As(err, &answer) || answer.StatusCode != http.StatusTemporaryRedirect ||
				!strings.Contains(err.Error(), "another host or port") {
				t.Errorf("%s: got %v, want an *Error that says where the redirect leads", name, err)
			}
		}
	}
	if len(canary.requests) != 0 {
		t.Errorf("%d requests were sent elsewhere", len(canary.requests))
	}
}

// The Actions service and the queue may be anywhere that the check allows.
func TestAddressesInAnswersAreChecked(t *testing.T) {
	s, canary := newServer(t), newServer(t)
	refusal := errors.New("not there")
	var asked []string
	checked := func(o *actions.Options) {
		o.Addresses.URL = func(address *url.URL) error {
			asked = append(asked, address.String())
			if strings.HasPrefix(address.String(), canary.URL) {
				return refusal
			}
			return nil
		}
	}
	s.on(createSessionCall, reply{body: s.sessionBody(testQueueToken, map[string]any{"messageQueueUrl": canary.URL +
		"/queue"})})
	_, opening := s.client(checked).CreateSession(t.Context(), 7, "me")
	s.on(registerCall, reply{body: fmt.Sprintf(`{"url":%q,"token":"t"}`, canary.URL+servicePath)})
	_, registering := s.client(checked).GetRunnerScaleSetByID(t.Context(), 7)
	for _, err := range []error{opening, registering} {
		var refused *actions.RefusedAddressError
		if !errors.As(err, &refused) || !errors.Is(err, refusal) ||
			strings.Contains(err.Error(), "breaks the protocol") {
			t.Errorf("got %v, want a *RefusedAddressError", err)
		}
	}
	if len(canary.requests) != 0 || len(asked) != 3 || asked[0] != s.URL+servicePath {
		t.Errorf("asked about %q; %d requests went to what was refused", asked, len(canary.requests))
	}
}

// names resolves each name to an address, without any network.
func names(t *testing.T, addresses map[string]string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			for answerName(there, addresses) == nil {
			}
		}()
		t.Cleanup(func() { here.Close() })
		return here, nil
	}}
}

// answerName answers one question, in the form that DNS has over TCP: two bytes of length, then the message.
func answerName(connection net.Conn, addresses map[string]string) error {
	length := make([]byte, 2)
	if _, err := io.ReadFull(connection, length); err != nil {
		return err
	}
	text := make([]byte, int(length[0])<<8|int(length[1]))
	if _, err := io.ReadFull(connection, text); err != nil {
		return err
	}
	var asked dnsmessage.Message
	if err := asked.Unpack(text); err != nil {
		return err
	}
	asked.Response = true
	question := asked.Questions[0]
	address, err := netip.ParseAddr(addresses[strings.TrimSuffix(question.Name.String(), ".")])
	header := dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, Type: question.Type}
	switch {
	case err != nil:
		asked.RCode = dnsmessage.RCodeNameError
	case question.Type == dnsmessage.TypeA && address.Is4():
		asked.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: address.As4()}}}
	case question.Type == dnsmessage.TypeAAAA && address.Is6():
		asked.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: address.As16()}}}
	}
	asked.Additionals = nil
	packed, err := asked.Pack()
	if err != nil {
		return err
	}
	_, err = connection.Write(append([]byte{byte(len(packed) >> 8), byte(len(packed))}, packed...))
	return err
}

// The check comes after the resolution of names and knows whether a proxy is dialled. It refuses everything here, so
// that the test connects to nothing.
func TestConnectionsAreCheckedAfterNamesAreResolved(t *testing.T) {
	resolver := names(t, map[string]string{
		"metadata.example": "169.254.169.254", "local.example": "127.0.0.1", "six.example": "fe80::1",
		"proxy.example": "10.0.0.1",
	})
	proxy := func(address string) func(*http.Request) (*url.URL, error) {
		parsed, _ := url.Parse(address)
		return http.ProxyURL(parsed)
	}
	direct := func(*http.Request) (*url.URL, error) { return nil, nil }
	for name, test := range map[string]struct {
		configURL string
		proxy     func(*http.Request) (*url.URL, error)
		want      string
	}{
		"link-local": {"http://metadata.example/acme", direct, "metadata.example:80 169.254.169.254:80"},
		"loopback":   {"https://local.example:8443/acme", direct, "local.example:8443 127.0.0.1:8443"},
		"IPv6":       {"https://six.example/acme", direct, "six.example:443 [fe80::1]:443"},
		"literal":    {"http://[::1]:81/acme", direct, "[::1]:81 [::1]:81"},
		"proxy": {
			"http://metadata.example/acme", proxy("http://proxy.example:3128"),
			"proxy proxy.example:3128 10.0.0.1:3128",
		},
		"proxy for TLS": {
			"https://metadata.example/acme", proxy("http://proxy.example"), "proxy proxy.example:80 10.0.0.1:80",
		},
		"TLS to proxy": {
			"https://metadata.example/acme", proxy("https://proxy.example"), "proxy proxy.example:443 10.0.0.1:443",
		},
		"SOCKS": {
			"https://metadata.example/acme", proxy("socks5://proxy.example"), "proxy proxy.example:1080 10.0.0.1:1080",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var asked []string
			refusal := errors.New("not there")
			attempts := 0
			client, err := actions.NewClient(test.configURL, actions.Credentials{Token: testToken}, actions.Options{
				Clock:     newQuickClock(),
				Proxy:     test.proxy,
				Resolver:  resolver,
				OnRequest: func(actions.RequestInfo) { attempts++ },
				Addresses: actions.AddressCheck{Dial: func(to actions.Destination) error {
					mu.Lock()
					defer mu.Unlock()
					text := to.Host + " " + to.Address.String()
					if to.Proxy {
						text = "proxy " + text
					}
					asked = append(asked, text)
					return refusal
				}},
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.GetRunnerScaleSetByID(t.Context(), 7)
			var refused *actions.RefusedAddressError
			if !errors.As(err, &refused) || !errors.Is(err, refusal) {
				t.Errorf("got %v, want a *RefusedAddressError", err)
			}
			if len(asked) != 1 || asked[0] != test.want || attempts != 1 {
				t.Errorf("asked about %q in %d attempts, want %q once", asked, attempts, test.want)
			}
		})
	}
}

// What answers in GitHub's place may be a server that whoever chose the address can't read otherwise.
func TestNoErrorQuotesAnotherServer(t *testing.T) {
	const secret = "SSH-2.0-secret"
	speak := func(text string) reply {
		return reply{do: func(w http.ResponseWriter, _ *http.Request) {
			connection, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = io.WriteString(connection, text)
			_ = connection.Close()
		}}
	}
	for name, answer := range map[string]reply{
		"banner":          speak(secret + "\r\n"),
		"status":          speak("HTTP/1.1 " + secret + "\r\n\r\n"),
		"header":          speak("HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n"),
		"reason":          speak("HTTP/1.1 400 " + secret + "\r\nContent-Length: 0\r\n\r\n"),
		"text":            {body: secret},
		"failure as text": {status: 400, body: secret, header: map[string]string{"Content-Type": "text/plain"}},
		"failure as JSON": {status: 400, body: `{"AccessKeyId":"` + secret + `"}`},
		"page":            {status: 400, body: "<html>" + secret},
		"ids": {
			status: 400,
			header: map[string]string{"ActivityId": secret + " x", "X-GitHub-Request-Id": secret + "=1"},
		},
		"type": {status: 400, body: "x", header: map[string]string{"Content-Type": secret}},
	} {
		s := newServer(t)
		s.on(getSetCall, answer)
		_, err := s.client().GetRunnerScaleSetByID(t.Context(), 7)
		if err == nil || strings.Contains(err.Error(), secret) || strings.Contains(s.logText(), secret) {
			t.Errorf("%s: got %v, logged %s", name, err, s.logText())
		}
	}
}
