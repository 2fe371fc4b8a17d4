package service

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/harrier-ci/harrier/github/actions/credential"
	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

// apiVersion is the version of the REST API that is asked for: the one that GitHub Enterprise Server has from 3.9 on. A
// server refuses one that it doesn't know, and 2026-03-10 is known from 3.21 on only.
const (
	headerAPIVersion = "X-GitHub-Api-Version"
	apiVersion       = "2022-11-28"
)

// CallREST makes one call to GitHub's REST API with the personal access token, or with the App's installation token,
// which all calls share. That one is renewed when due, and once if GitHub refuses it. An App that was given another
// permission has it in new tokens: so it is also renewed once if GitHub refuses what a token of more than five minutes
// asks for. The answer must be freed. It fails with the errors of package failure.
func (s *Service) CallREST(ctx context.Context, r exchange.Request) (*exchange.Response, error) {
	with := func(token, kind string) (*exchange.Response, error) {
		authorized := r
		authorized.Header = http.Header{"Authorization": {"Bearer " + token}, headerAPIVersion: {apiVersion}}
		maps.Copy(authorized.Header, r.Header)
		authorized.Credential = kind
		answer, err := s.Do(ctx, authorized)
		if err == nil {
			s.proven.Store(true)
		}
		return answer, err
	}
	if !s.source.IsApp() {
		return with(s.source.Token, credential.PersonalAccessToken)
	}
	used, err := s.currentInstallationToken(ctx)
	if err != nil {
		return nil, err
	}
	call := func(t *installationToken) (*exchange.Response, error) {
		used = t
		return with(t.token, credential.InstallationToken)
	}
	answer, err := WithRenewal(ctx, s.installation, used, credential.InstallationToken, call)
	if !isForbidden(err) || s.Clock.Since(used.since) < connectionTrust {
		return answer, err
	}
	fresh, renewal := s.installation.Replace(ctx, used)
	if renewal != nil {
		return nil, err
	}
	answer, err = call(fresh)
	return answer, failure.MarkRenewal(err, credential.InstallationToken)
}

// isForbidden reports whether an answer says that the token may not do something, or that it doesn't exist for it.
func isForbidden(err error) bool {
	answer, ok := errors.AsType[*failure.Error](err)
	return ok && ((answer.StatusCode == http.StatusForbidden && errors.Is(answer, failure.ErrUnauthorized)) ||
		answer.StatusCode == http.StatusNotFound)
}

// currentInstallationToken returns a token that is good for another minute.
func (s *Service) currentInstallationToken(ctx context.Context) (*installationToken, error) {
	current := s.installation.Get()
	if current != nil && s.Clock.Now().Before(current.renewAt) {
		return current, nil
	}
	return s.installation.Replace(ctx, current)
}

// IsProven reports whether GitHub has accepted the credential for a call of its REST API.
func (s *Service) IsProven() bool { return s.proven.Load() }

// Account names the account whose limits at GitHub the calls use.
func (s *Service) Account() string { return s.source.Account() }

// createInstallationToken exchanges the App's signature for a token.
func (s *Service) createInstallationToken(ctx context.Context, _ *installationToken) (*installationToken, error) {
	appToken, err := s.source.AppToken(s.Clock.Now())
	if err != nil {
		return nil, err
	}
	header := restHeader("Bearer "+appToken, "application/vnd.github+json")
	header.Set(headerAPIVersion, apiVersion)
	answer, err := s.Do(ctx, exchange.Request{
		Endpoint: failure.EndpointInstallationToken,
		Method:   http.MethodPost,
		URL: s.Config.RESTURL(
			"app", "installations", strconv.FormatInt(s.source.InstallationID, 10), "access_tokens",
		),
		Header:     header,
		Credential: credential.App,
	})
	if err != nil {
		return nil, err
	}
	defer answer.Free()
	given, err := decodeToken(answer, failure.EndpointInstallationToken)
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	expires := now.Add(unknownLifetime)
	if at := (time.Time{}); json.Unmarshal(given.ExpiresAt, &at) == nil {
		expires = failure.OnOurClock(at, answer.Header, now)
	}
	if latest := now.Add(longestLifetime); expires.After(latest) {
		expires = latest
	}
	return &installationToken{token: given.Token, lifetime: lifetimeOf(now, expires)}, nil
}
