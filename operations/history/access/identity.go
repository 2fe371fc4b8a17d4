package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// identity says who asks, or refuses.
type identity func(r *http.Request) (*authenticationv1.UserInfo, error)

const (
	// A peer may show maxUnknown tokens within unknownFor that the API server does not know, so that nobody who makes
	// them up keeps it busy.
	maxUnknown = 10
	unknownFor = time.Minute
	// maxToken is more than the token of a ServiceAccount or of a person has.
	maxToken = 8 << 10
)

// tokens knows users by tokens of an audience.
type tokens struct {
	api      client.Client
	audience string
	// known has users by the hash of a token, unknown the number of unknown tokens by peer.
	known, unknown *cache.LRUExpireCache
}

func (t *tokens) who(r *http.Request) (*authenticationv1.UserInfo, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "bearer") || token == "" || len(token) > maxToken {
		return nil, &RefusedError{http.StatusUnauthorized, "send a bearer token of the audience " + t.audience +
			", such as one of kubectl create token"}
	}
	hash := sha256.Sum256([]byte(token))
	if user, found := t.known.Get(hash); found {
		return user.(*authenticationv1.UserInfo), nil
	}
	peer, _, _ := net.SplitHostPort(r.RemoteAddr)
	failures := 0
	if counted, found := t.unknown.Get(peer); found {
		failures = counted.(int)
	}
	if failures >= maxUnknown {
		return nil, &RefusedError{http.StatusTooManyRequests, "too many tokens that the API server doesn't know come from " +
			"your address; come back in a minute"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	review := &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{t.audience}}}
	if err := t.api.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("ask whose token it is: %w", err)
	}
	// A server that knows no audiences returns none, and would take tokens that are for something else.
	if !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, t.audience) {
		t.unknown.Add(peer, failures+1, unknownFor)
		return nil, &RefusedError{http.StatusUnauthorized, "the API server doesn't know the token for the audience " +
			t.audience}
	}
	t.known.Add(hash, &review.Status.User, allowedFor)
	return &review.Status.User, nil
}

// SecretHeader has what a proxy proves itself by, if not by a certificate.
const SecretHeader = "X-Harrier-Proxy-Secret"

// Proxy is one that says in headers who asks.
type Proxy struct {
	UserHeader, GroupsHeader string
	// SecretFile has what only the proxy and the ledger know. Without it the proxy shows a certificate.
	SecretFile string
}

func (p *Proxy) who(r *http.Request) (*authenticationv1.UserInfo, error) {
	if err := p.proven(r); err != nil {
		return nil, err
	}
	names := r.Header.Values(p.UserHeader)
	// The API server's own users are not known by a proxy, so that it can't make somebody an administrator by mistake.
	if len(names) != 1 || names[0] == "" || strings.HasPrefix(names[0], "system:") {
		return nil, &RefusedError{http.StatusUnauthorized, "the proxy must say who asks, a single time, in " + p.UserHeader}
	}
	user := &authenticationv1.UserInfo{Username: names[0]}
	for _, list := range r.Header.Values(p.GroupsHeader) {
		for group := range strings.SplitSeq(list, ",") {
			if group = strings.TrimSpace(group); group != "" && !strings.HasPrefix(group, "system:") {
				user.Groups = append(user.Groups, group)
			}
		}
	}
	return user, nil
}

func (p *Proxy) proven(r *http.Request) error {
	if p.SecretFile == "" {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			return &RefusedError{http.StatusUnauthorized, "only the proxy may ask, with its certificate"}
		}
		return nil
	}
	secret, err := os.ReadFile(p.SecretFile) // it may be changed while the program runs
	if err != nil {
		return fmt.Errorf("read what the proxy proves itself by: %w", err)
	}
	secret = []byte(strings.TrimSpace(string(secret)))
	if len(secret) == 0 || subtle.ConstantTimeCompare(secret, []byte(r.Header.Get(SecretHeader))) != 1 {
		return &RefusedError{http.StatusUnauthorized, "only the proxy may ask, with " + SecretHeader}
	}
	return nil
}
